"""How a transaction's block ends: by its error, and by what is known locally."""

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

import pytest

import halfpast
from halfpast.errors import api_problem
from halfpast.transaction_body import BeginBody, BegunBody
from halfpast.transaction_calls import TransactionCalls
from halfpast.transport import Transport

Local = halfpast.LocalOutcome
State = halfpast.TransactionState
pytestmark = pytest.mark.asyncio
ID = "01936f1e-8c00-7abc-8def-012345670000"
CONFLICT = halfpast.Problem(
    status=409, code="transaction_conflict", state="rolled_back"
)
PARKED = halfpast.Problem(status=409, code="transaction_parked")


class Calls(TransactionCalls):
    """Notes what it is told; `end` fails with `failure` if that is set."""

    def __init__(self) -> None:
        super().__init__(Transport("http://x", halfpast.RetryPolicy()), None)
        self.begun: list[int] = []
        self.ended: list[str] = []
        self.failure: Exception | None = None
        self.send_failure: Exception | None = None

    async def begin(self, body: BeginBody, messages: Sequence[bytes]) -> BegunBody:
        if self.send_failure is not None:
            raise self.send_failure
        self.begun.append(len(messages))
        return BegunBody(ID)

    async def add(
        self, transaction_id: str, first_index: int, messages: Sequence[bytes]
    ) -> list[str]:
        if self.send_failure is not None:
            raise self.send_failure
        return [f"{first_index + n}" for n in range(len(messages))]

    async def end(self, transaction_id: str, state: State) -> None:
        assert transaction_id == ID
        self.ended.append(state.value)
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def tx(calls: Calls) -> halfpast.Transaction:
    return halfpast.Transaction(calls, BeginBody(producer_group="g"))


async def leave(
    tx: halfpast.Transaction, local: Local, error: BaseException | None = None
) -> None:
    async with tx:
        await tx.send("t", 1)
        tx.local = local
        if error is not None:
            raise error


async def commit(tx: halfpast.Transaction, error: Exception | None = None) -> None:
    async with tx:
        await tx.send("t", 1)
        await tx.commit()
        await tx.commit()
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("local", "ended"),
    [
        (Local.UNWATCHED, ["committed"]),
        (Local.COMMITTED, ["committed"]),
        (Local.COMMITTING, ["committed"]),
        (Local.ROLLED_BACK, ["rolled_back"]),
    ],
)
async def test_left_cleanly(
    calls: Calls, tx: halfpast.Transaction, local: Local, ended: list[str]
) -> None:
    await leave(tx, local)
    assert calls.ended == ended
    assert tx.state == ended[0]


@pytest.mark.parametrize(
    ("local", "error"),
    [
        (Local.OPEN, halfpast.TransactionMisuse),
        (Local.IN_DOUBT, halfpast.TransactionInDoubt),
    ],
)
async def test_left_cleanly_without_a_known_outcome(
    calls: Calls, tx: halfpast.Transaction, local: Local, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await leave(tx, local)
    assert calls.ended == []
    assert tx.state is State.PREPARED


@pytest.mark.parametrize(
    ("local", "ended"),
    [
        (Local.UNWATCHED, ["rolled_back"]),
        (Local.ROLLED_BACK, ["rolled_back"]),
        (Local.COMMITTED, ["committed"]),
        (Local.COMMITTING, []),
        (Local.IN_DOUBT, []),
        (Local.OPEN, []),
    ],
)
@pytest.mark.parametrize("failure", [None, halfpast.ServerUnreachable("u", "why")])
@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError()])
async def test_left_by_an_error(
    calls: Calls,
    tx: halfpast.Transaction,
    local: Local,
    ended: list[str],
    failure: Exception | None,
    error: BaseException,
) -> None:
    calls.failure = failure
    with pytest.raises(type(error)):
        await leave(tx, local, error)
    assert calls.ended == ended
    told = ended and failure is None
    assert tx.state == (ended[0] if told else State.PREPARED)


async def test_without_a_message_nothing_is_told(
    calls: Calls, tx: halfpast.Transaction
) -> None:
    async with tx:
        await tx.commit()
        await tx.rollback()
        assert await tx.send_all([]) == []
        with pytest.raises(halfpast.TransactionMisuse, match="send a message first"):
            _ = tx.id
    assert (calls.begun, calls.ended, tx.state) == ([], [], State.EMPTY)


async def test_what_was_ended_within_the_block_is_not_ended_again(
    calls: Calls, tx: halfpast.Transaction
) -> None:
    with pytest.raises(ZeroDivisionError):
        await commit(tx, ZeroDivisionError())
    assert calls.ended == ["committed"]


async def test_after_a_commit_in_doubt_an_error_does_not_roll_back(
    calls: Calls, tx: halfpast.Transaction
) -> None:
    calls.failure = halfpast.OutcomeUnknown("c", 3, "timed out", "")
    with pytest.raises(halfpast.TransactionInDoubt) as caught:
        await commit(tx)
    assert calls.ended == ["committed"]
    assert (caught.value.transaction, caught.value.attempts) == (ID, 3)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert "check-back" in str(again)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (halfpast.OutcomeUnknown("c", 3, "lost", ""), halfpast.TransactionInDoubt),
        (halfpast.ServerUnreachable("u", "refused"), halfpast.TransactionInDoubt),
        (
            api_problem(halfpast.Problem(status=503, code="busy", retryable=True)),
            halfpast.TransactionInDoubt,
        ),
        (api_problem(CONFLICT), halfpast.TransactionConflict),
        (api_problem(PARKED), halfpast.TransactionParked),
        (
            api_problem(halfpast.Problem(status=404, code="unknown_transaction")),
            halfpast.NotFound,
        ),
    ],
)
async def test_a_commit_that_fails_says_what_is_known(
    calls: Calls,
    tx: halfpast.Transaction,
    failure: Exception,
    error: type[Exception],
) -> None:
    calls.failure = failure
    with pytest.raises(error):
        await leave(tx, Local.UNWATCHED)
    states: dict[type[Exception], State] = {
        halfpast.TransactionConflict: State.ROLLED_BACK,
        halfpast.TransactionParked: State.PARKED,
    }
    assert tx.state == states.get(error, State.PREPARED)


@pytest.mark.parametrize("local", [Local.COMMITTING, Local.COMMITTED, Local.IN_DOUBT])
async def test_nothing_is_sent_after_the_local_commit(
    tx: halfpast.Transaction, local: Local
) -> None:
    await tx.send("t", 1)
    tx.local = local
    with pytest.raises(halfpast.TransactionMisuse, match="before the local commit"):
        await tx.send("t", 2)
    with pytest.raises(halfpast.TransactionMisuse):
        await tx.rollback()


async def test_nothing_is_sent_after_the_end(tx: halfpast.Transaction) -> None:
    await tx.send("t", 1)
    await tx.commit()
    with pytest.raises(halfpast.TransactionMisuse):
        await tx.send("t", 2)


@pytest.mark.parametrize("is_first", [True, False])
async def test_after_a_send_of_unknown_outcome_no_other_follows(
    calls: Calls, tx: halfpast.Transaction, is_first: bool
) -> None:
    if not is_first:
        await tx.send("t", 1)
    calls.send_failure = halfpast.OutcomeUnknown("c", 3, "lost", "k")
    with pytest.raises(halfpast.OutcomeUnknown):
        await tx.send("t", 2)
    calls.send_failure = None
    with pytest.raises(halfpast.TransactionMisuse, match="stored or not"):
        await tx.send("t", 3)


async def test_after_a_refused_send_another_may_follow(
    calls: Calls, tx: halfpast.Transaction
) -> None:
    calls.send_failure = api_problem(halfpast.Problem(status=422, code="bad"))
    with pytest.raises(halfpast.InvalidRequest):
        await tx.send("t", 2)
    calls.send_failure = None
    assert await tx.send("t", 3) == f"{ID[:-4]}0001"
    assert await tx.send_all(2 * [halfpast.NewEvent(topic="t", data=1)]) == ["1", "2"]


async def test_sends_at_the_same_time_take_turns(
    calls: Calls, tx: halfpast.Transaction
) -> None:
    ids: Any = await asyncio.gather(*(tx.send("t", n) for n in range(3)))
    assert calls.begun == [1]
    assert ids[1:] == ["1", "2"]


@pytest.mark.parametrize(
    "error",
    [
        halfpast.BarrierClosed(ID),
        halfpast.TransactionMisuse("this", "do that"),
        api_problem(CONFLICT),
    ],
)
async def test_errors_survive_pickling(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))

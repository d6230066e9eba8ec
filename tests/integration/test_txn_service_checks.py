"""Check-backs through the service, by long poll and to endpoints, in both forms."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.txn_rig import (
    COMMITTED,
    GROUP,
    PARKED,
    PREPARED,
    ROLLED_BACK,
    TxnRig,
    check_arrivals,
    messages_of,
    open_rig,
)

from halfpast_core_store.broker import Empty
from halfpast_core_store.record import RecordFlag, RecordKind, decode_record
from halfpast_txn.half import message_id
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.transactions import (
    AnswerChecks,
    CheckAnswer,
    PollChecks,
    Source,
    TransactionState,
)
from halfpast_txn.transport import Verdict

ONCE = CheckPolicy(check_after_ms=0, check_interval_ms=3_600_000, check_max=9)
OFTEN = CheckPolicy(check_after_ms=0, check_interval_ms=100, check_max=1_000)


@pytest_asyncio.fixture(params=["direct", "socket"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TxnRig]:
    async with open_rig(tmp_path, request.param == "socket") as rig:
        yield rig


def call_back(rig: TxnRig, concurrency_max: int = 8) -> None:
    """Give the group an endpoint."""
    rig.groups.endpoints[GROUP] = CheckEndpoint(
        url="http://orders.test/", concurrency_max=concurrency_max
    )


async def kinds_of(rig: TxnRig, identity: bytes) -> list[tuple[int, int]]:
    """The records about a transaction behind its beginning: kind and number."""
    return [
        (record.kind, record.attempt)
        for record in await rig.records()
        if record.event_id == identity and record.kind != RecordKind.TRANSACTION
    ]


# --- long poll --------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_question_brings_the_first_message_if_it_is_asked_for(
    rig: TxnRig,
) -> None:
    identity = await rig.begin(2, policy=OFTEN, key=b"k")
    request = PollChecks(GROUP, wait_ms=5000, with_first=True)
    (check,) = (await rig.transactions.poll_checks(request)).checks
    first = decode_record(check.first)
    assert (first.kind, first.key) == (RecordKind.HALF, b"k")
    assert first.event_id == message_id(identity, 0)
    (without,) = (await rig.transactions.poll_checks(PollChecks(GROUP, 1, 5000))).checks
    assert without.first == b""


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
async def test_a_polling_producer_settles_a_transaction(
    rig: TxnRig, state: TransactionState
) -> None:
    poll = asyncio.create_task(rig.poll())
    identity = await rig.begin(2, policy=ONCE, key=b"k", tag=b"t")
    (check,) = await poll
    assert (check.transaction_id, check.check, check.group) == (identity, 1, GROUP)
    assert check.message_count == 2
    assert [(m.topic, m.key, m.tag) for m in check.messages] == [
        ("orders", "k", "t")
    ] * 2
    result = await rig.answer(identity, state, 1)
    assert (result.code, result.state, result.source, result.checks) == (
        "",
        state,
        Source.CHECK,
        1,
    )
    wanted = messages_of([identity], 2) if state == COMMITTED else []
    check_arrivals(await rig.arrivals(), wanted)
    (op,) = await rig.outcomes(identity)
    assert (op.flags, op.attempt) == (RecordFlag.FROM_CHECK, 1)
    assert (await rig.get(identity)).check == 1


@pytest.mark.asyncio
async def test_a_question_waits_for_whoever_comes_first(rig: TxnRig) -> None:
    identity = await rig.begin(1, policy=ONCE)
    await rig.until(identity, lambda one: one.checks == 1)
    first, second = await asyncio.gather(rig.poll(300), rig.poll(300))
    assert [check.transaction_id for check in first + second] == [identity]
    assert (await rig.get(identity)).checks == 1


@pytest.mark.asyncio
async def test_many_pollers_get_each_question_once(rig: TxnRig) -> None:
    pollers = [asyncio.create_task(rig.poll(300)) for _ in range(10)]
    identities = await rig.begin_many(10, policy=ONCE)
    taken = [check.transaction_id for one in pollers for check in await one]
    async with asyncio.timeout(20):
        while len(taken) < 10:
            taken += [check.transaction_id for check in await rig.poll(1_000)]
    assert sorted(taken) == sorted(identities)


@pytest.mark.asyncio
async def test_a_poll_ends_when_its_time_is_over(rig: TxnRig) -> None:
    await rig.begin(1)
    assert await rig.poll(20) == []
    polled = await rig.transactions.poll_checks(PollChecks("nobody", 10, 0))
    assert polled.checks == []


@pytest.mark.asyncio
async def test_unknown_never_ends_a_transaction(rig: TxnRig) -> None:
    identity = await rig.begin(1, policy=CheckPolicy(0, 100, 4))
    numbers: list[int] = []
    async with asyncio.timeout(20):
        while len(numbers) < 4:
            for check in await rig.poll(5_000):
                numbers.append(check.check)
                told = await rig.answer(identity, 0, check.check)
                assert (told.code, told.state) == ("", PREPARED)
                assert (await rig.get(identity)).last_answer == "unknown"
    assert numbers == [1, 2, 3, 4]
    parked = await rig.until(identity, lambda one: one.state == PARKED)
    assert (parked.checks, parked.last_answer) == (4, "unknown")
    assert await rig.outcomes(identity) == []
    assert await rig.arrivals() == []
    assert await kinds_of(rig, identity) == [
        *[(RecordKind.CHECK, number) for number in (1, 2, 3, 4)],
        (RecordKind.PARKED, 4),
    ]


@pytest.mark.asyncio
async def test_any_number_of_answers_in_one_call(rig: TxnRig) -> None:
    identities = await rig.begin_many(300, policy=ONCE)
    taken: set[bytes] = set()
    async with asyncio.timeout(20):
        while len(taken) < 300:
            taken |= {check.transaction_id for check in await rig.poll(5_000)}
    answers = [
        CheckAnswer(one, (0, COMMITTED, ROLLED_BACK)[n % 3], 1)
        for n, one in enumerate(identities)
    ]
    request = AnswerChecks(GROUP, answers)
    ended = await rig.transactions.answer_checks(request)
    assert {result.code for result in ended.results} == {""}
    assert [result.state for result in ended.results] == [
        (PREPARED, COMMITTED, ROLLED_BACK)[n % 3] for n in range(300)
    ]
    again = await rig.transactions.answer_checks(request)
    assert again == ended
    check_arrivals(await rig.arrivals(), messages_of(identities[1::3]))


@pytest.mark.asyncio
async def test_late_and_contradicting_answers(rig: TxnRig) -> None:
    identity = await rig.begin(1, policy=OFTEN)
    await rig.until(identity, lambda one: one.checks >= 3)
    first = await rig.answer(identity, COMMITTED, 2)
    assert (first.code, first.checks) == ("", 2)
    (op,) = await rig.outcomes(identity)
    assert (op.flags, op.attempt) == (RecordFlag.FROM_CHECK, 2)
    assert await rig.answer(identity, COMMITTED, 1) == first
    told = await rig.answer(identity, ROLLED_BACK, 3)
    assert (told.code, told.state) == ("transaction_conflict", COMMITTED)
    assert await rig.end(identity) == first
    assert (await rig.end(identity, ROLLED_BACK)).code == "transaction_conflict"
    assert (await rig.answer(identity, 0, 3)).state == COMMITTED
    assert (await rig.answer(identity, 2, 2, "others")).code == "wrong_producer_group"


@pytest.mark.asyncio
async def test_producer_and_check_back_at_once_make_one_outcome(rig: TxnRig) -> None:
    identities = await rig.begin_many(40, policy=ONCE)
    for identity in identities:
        await rig.until(identity, lambda one: one.checks == 1)
    calls = [rig.end(one, COMMITTED) for one in identities]
    calls += [rig.answer(one, ROLLED_BACK, 1) for one in identities]
    results = await asyncio.gather(*calls)
    for one, other in zip(results[:40], results[40:], strict=True):
        assert sorted((one.code, other.code)) == ["", "transaction_conflict"]
        assert one.state == other.state
        assert one.source == other.source
    wanted = [i for i, r in zip(identities, results, strict=False) if r.state == 2]
    check_arrivals(await rig.arrivals(), messages_of(wanted))


@pytest.mark.asyncio
async def test_check_backs_stop_with_a_durable_outcome(rig: TxnRig) -> None:
    identities = await rig.begin_many(50, policy=OFTEN)
    await rig.until(identities[-1], lambda one: one.checks >= 1)
    for identity in identities:
        await rig.end(identity)
    checks = [(await rig.get(identity)).checks for identity in identities]
    assert await rig.poll(400) == []
    assert [(await rig.get(identity)).checks for identity in identities] == checks
    gauges = (await rig.transactions.status(Empty())).gauges
    assert gauges["checks_waiting"] == 0  # tidied away, though nobody has taken them


# --- endpoints -----------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
async def test_an_endpoint_settles_a_transaction(
    rig: TxnRig, state: TransactionState
) -> None:
    call_back(rig)
    (identity, other) = await rig.begin_many(2, policy=CheckPolicy(50, 3_600_000, 9))
    rig.transport.verdicts[identity] = Verdict(state=state)
    found = await rig.until(identity, lambda one: one.state not in (PREPARED, PARKED))
    assert (found.state, found.source, found.check) == (state, Source.CHECK, 1)
    # The other one was asked too, and its endpoint does not know.
    found = await rig.until(other, lambda one: one.last_answer == "unknown")
    assert (found.state, found.checks) == (PREPARED, 1)
    counters = (await rig.transactions.status(Empty())).counters
    assert counters['checks_total{transport="http"}'] == 2
    assert counters["http_calls_total"] == 2


@pytest.mark.asyncio
async def test_an_endpoint_is_called_by_so_many_at_once(rig: TxnRig) -> None:
    call_back(rig, concurrency_max=3)
    rig.transport.release.clear()
    identities = await rig.begin_many(50, policy=ONCE)
    for identity in identities:
        rig.transport.verdicts[identity] = Verdict(state=COMMITTED)
        await rig.until(identity, lambda one: one.checks == 1)
    assert rig.transport.running == 3
    rig.transport.release.set()
    for identity in identities:
        await rig.until(identity, lambda one: one.state == COMMITTED)
    assert rig.transport.running_max == 3
    assert sorted(rig.transport.asked) == sorted((one, 1) for one in identities)


@pytest.mark.asyncio
async def test_what_comes_as_the_last_caller_leaves_is_called_too(rig: TxnRig) -> None:
    # A caller that has ended was counted as one until the next turn of the loop.
    call_back(rig, concurrency_max=1)
    for _ in range(30):
        identities = await rig.begin_many(3, policy=ONCE)
        for identity in identities:
            rig.transport.verdicts[identity] = Verdict(state=ROLLED_BACK)
        for identity in identities:
            await rig.until(identity, lambda one: one.state == ROLLED_BACK)


@pytest.mark.asyncio
async def test_who_polls_is_asked_before_an_endpoint(rig: TxnRig) -> None:
    call_back(rig)
    await rig.poll(0)
    identity = await rig.begin(1, policy=ONCE)
    (check,) = await rig.poll()
    assert check.transaction_id == identity
    assert rig.transport.asked == []


@pytest.mark.asyncio
async def test_an_endpoint_that_goes_leaves_the_question_to_pollers(
    rig: TxnRig,
) -> None:
    call_back(rig, concurrency_max=1)
    rig.transport.release.clear()
    identities = await rig.begin_many(2, policy=ONCE)
    for identity in identities:
        await rig.until(identity, lambda one: one.checks == 1)
    del rig.groups.endpoints[GROUP]
    rig.transport.release.set()
    (check,) = await rig.poll()
    (asked,) = rig.transport.asked
    assert {asked[0], check.transaction_id} == set(identities)


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
async def test_an_endpoints_answer_to_a_parked_one_comes_too_late(
    rig: TxnRig, state: TransactionState
) -> None:
    call_back(rig)
    rig.transport.release.clear()
    identity = await rig.begin(1, policy=CheckPolicy(0, 100, 1))
    rig.transport.verdicts[identity] = Verdict(state=state)
    await rig.until(identity, lambda one: one.state == PARKED)
    rig.transport.release.set()
    found = await rig.until(identity, lambda one: bool(one.last_answer[:3] == "not"))
    assert found.last_answer == "not stored: transaction_parked"
    assert found.state == PARKED
    assert await rig.outcomes(identity) == []


@pytest.mark.asyncio
async def test_close_does_not_wait_for_an_endpoint(rig: TxnRig) -> None:
    call_back(rig)
    rig.transport.release.clear()
    identity = await rig.begin(1, policy=ONCE)
    await rig.until(identity, lambda one: one.checks == 1)
    transport = rig.transport
    await asyncio.wait_for(rig.close_service(), 4)
    assert transport.closed
    assert transport.running == 0
    await rig.open_service()
    assert (await rig.get(identity)).checks == 1

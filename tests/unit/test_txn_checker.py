"""The checker watches the clock, writes check-backs, and sends what was written."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.txn_deciding import Deciding, turns
from tests.unit.txn_line import GROUP, Line, number_of

from halfpast_core_store.errors import FenceLost, Overloaded
from halfpast_core_store.rpc_errors import ConnectionLost
from halfpast_txn import checker as checker_module
from halfpast_txn.check_desk import CheckDesk, Question
from halfpast_txn.checker import Checker
from halfpast_txn.claims import ROLE
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.transactions import TransactionState

AT_ONCE = CheckPolicy(0, 3_600_000, 3)


class Rig:
    """A checker over a line; `asked` is what went to the endpoint."""

    def __init__(self) -> None:
        self.line = Line(check_count=4, check_in_flight=2)
        self.deciding = Deciding(self.line)
        self.desk = CheckDesk(100, self.deciding.loop)
        self.endpoint: CheckEndpoint | None = None
        self.asked: list[int] = []
        self.at_ask = asyncio.Event()
        self.at_ask.set()
        self.checker = Checker(
            self.line.core,
            self.deciding.claims,
            self.desk,
            self,
            self.deciding.append,
            self.deciding.catch_up,
            self.ask,
        )

    def check_endpoint(self, group: str) -> CheckEndpoint | None:
        return self.endpoint

    async def ask(self, endpoint: CheckEndpoint, question: Question) -> None:
        self.asked.append(number_of(question[0]))
        await self.at_ask.wait()

    def begin(self, *numbers: int) -> None:
        for number in numbers:
            self.line.begin(number, policy=AT_ONCE)
        self.line.load()

    def call_back(self, concurrency_max: int) -> None:
        self.endpoint = CheckEndpoint(url="http://x/", concurrency_max=concurrency_max)

    def waiting(self) -> list[int]:
        return [number_of(one) for one, _ in self.desk.take(GROUP, 1_000)]

    def counted(self, transport: str) -> float:
        return self.checker.counters()[f'checks_total{{transport="{transport}"}}']


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    rig.deciding.claims.live = False
    for gate in rig.deciding.gates:
        if not gate.passed.done():
            gate.refuse(ConnectionLost("broker", "test"))
    await rig.checker.close()


@pytest.mark.asyncio
async def test_a_question_is_put_on_the_desk_when_it_is_written(rig: Rig) -> None:
    rig.begin(1)
    rig.deciding.held = True
    rig.checker.look()
    await turns(lambda: rig.deciding.gates)
    assert rig.desk.waiting_count == 0
    rig.deciding.gates[0].open()
    await turns(lambda: rig.desk.waiting_count)
    assert rig.line.status(1).checks == 1
    assert rig.counted("nobody") == 1


@pytest.mark.asyncio
async def test_so_many_frames_are_on_their_way_at_once(rig: Rig) -> None:
    rig.begin(*range(20))
    rig.deciding.held = True
    rig.checker.look()
    await turns(lambda: len(rig.deciding.gates) == 2)
    for _ in range(20):
        rig.checker.look()
        await asyncio.sleep(0)
    assert len(rig.deciding.gates) == 2
    for number in range(5):
        await turns(lambda n=number: len(rig.deciding.gates) > n)  # type: ignore[misc]
        rig.deciding.gates[number].open()
    await turns(lambda: rig.desk.waiting_count == 20)


@pytest.mark.asyncio
async def test_nothing_is_written_while_the_role_is_not_ours(rig: Rig) -> None:
    rig.begin(1)
    rig.deciding.claims.live = False
    rig.checker.look()
    assert not rig.line.core.asking
    rig.deciding.claims.live = True
    rig.checker.look()
    await turns(lambda: rig.desk.waiting_count)


@pytest.mark.asyncio
async def test_what_was_refused_is_tried_again_after_a_while(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker_module, "RETRY_S", 0.001)
    rig.begin(1)
    rig.deciding.held = True
    rig.checker.look()
    await turns(lambda: rig.deciding.gates)
    rig.deciding.held = False
    rig.deciding.gates[0].refuse(Overloaded("system"))
    async with asyncio.timeout(20):
        while not rig.desk.waiting_count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert rig.line.status(1).checks == 1
    assert rig.deciding.claims.live


@pytest.mark.asyncio
async def test_a_check_back_counts_under_the_role_it_was_decided_in(rig: Rig) -> None:
    rig.begin(1)
    rig.checker.look()
    rig.deciding.take_role()  # before the append has begun
    await turns(lambda: rig.desk.waiting_count)
    assert [request.fence_token for request in rig.deciding.appended] == [2]
    assert rig.deciding.failures == []
    assert rig.deciding.claims.live
    assert rig.line.status(1).checks == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [ConnectionLost("a", "b"), FenceLost(ROLE, True)])
async def test_a_late_error_of_a_former_role_costs_nothing(
    rig: Rig, error: Exception
) -> None:
    rig.begin(1)
    rig.deciding.held = True
    rig.checker.look()
    await turns(lambda: rig.deciding.gates)
    rig.deciding.take_role()
    rig.deciding.held = False
    rig.checker.look()
    await turns(lambda: rig.desk.waiting_count)
    rig.deciding.gates[0].refuse(error)
    await turns(lambda: not rig.checker._in_flight)  # pyright: ignore[reportPrivateUsage]
    assert rig.line.status(1).checks == 1
    assert rig.deciding.claims.live
    assert not rig.deciding.claims.lost
    assert rig.deciding.failures == []


@pytest.mark.asyncio
async def test_another_instance_ends_it(rig: Rig) -> None:
    rig.begin(1)
    rig.deciding.token = 99
    rig.checker.look()
    await turns(lambda: rig.deciding.failures)


# --- callers -----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_few_callers_take_what_waits_one_after_the_other(rig: Rig) -> None:
    rig.call_back(2)
    rig.at_ask.clear()
    rig.begin(1, 2, 3, 4)
    rig.checker.look()
    await turns(lambda: len(rig.asked) == 2)
    assert rig.desk.waiting_count == 2
    rig.at_ask.set()
    await turns(lambda: len(rig.asked) == 4)
    assert sorted(rig.asked) == [1, 2, 3, 4]
    assert rig.counted("http") == 4


@pytest.mark.asyncio
async def test_what_comes_as_the_last_caller_leaves_is_called_too(rig: Rig) -> None:
    # A caller that had ended counted as one until the next turn of the loop, and
    # what came in between lay on the desk until the next check-back.
    rig.call_back(1)
    rig.begin(1, 2)
    rig.line.check_all()
    dispatch = rig.checker._dispatch  # pyright: ignore[reportPrivateUsage]
    ask = rig.ask

    async def ask_and_see(endpoint: CheckEndpoint, question: Question) -> None:
        await ask(endpoint, question)
        if number_of(question[0]) == 1:  # runs once this caller has ended
            rig.deciding.loop.call_soon(dispatch, (2).to_bytes(14) + bytes(2), 1)

    rig.checker._ask = ask_and_see  # pyright: ignore[reportPrivateUsage]
    dispatch((1).to_bytes(14) + bytes(2), 1)
    await turns(lambda: len(rig.asked) == 2)


@pytest.mark.asyncio
async def test_who_polls_is_asked_first(rig: Rig) -> None:
    rig.call_back(2)
    rig.desk.polled(GROUP)
    rig.begin(1, 2)
    rig.checker.look()
    await turns(lambda: rig.desk.waiting_count == 2)
    assert rig.asked == []
    assert rig.counted("poll") == 2


@pytest.mark.asyncio
async def test_an_endpoint_that_is_taken_away_leaves_the_rest_waiting(rig: Rig) -> None:
    rig.call_back(1)
    rig.at_ask.clear()
    rig.begin(1, 2, 3)
    rig.checker.look()
    await turns(lambda: rig.asked)
    rig.endpoint = None
    rig.at_ask.set()
    await turns(lambda: not rig.checker._callers)  # pyright: ignore[reportPrivateUsage]
    assert sorted(rig.asked + rig.waiting()) == [1, 2, 3]


@pytest.mark.asyncio
async def test_parked_ones_are_not_asked(rig: Rig) -> None:
    rig.line.begin(1, policy=CheckPolicy(0, 100, 1))
    rig.line.check_all()
    rig.line.clock.advance(100)
    rig.line.load()
    rig.checker.look()
    await turns(lambda: not rig.line.core.claims and rig.deciding.appended)
    assert rig.line.status(1).state == TransactionState.PARKED
    assert rig.desk.waiting_count == 0


@pytest.mark.asyncio
async def test_close_waits_for_no_endpoint(rig: Rig) -> None:
    rig.call_back(1)
    rig.at_ask.clear()
    rig.begin(1)
    rig.checker.look()
    await turns(lambda: rig.asked)
    await asyncio.wait_for(rig.checker.close(), 20)
    assert not rig.checker._callers  # pyright: ignore[reportPrivateUsage]
    rig.checker = Checker(
        rig.line.core,
        rig.deciding.claims,
        rig.desk,
        rig,
        rig.deciding.append,
        rig.deciding.catch_up,
        rig.ask,
    )


@pytest.mark.asyncio
async def test_an_error_in_a_callback_ends_the_service(rig: Rig) -> None:
    rig.line.core.check = None  # type: ignore[assignment]
    rig.checker.look()
    assert isinstance(rig.deciding.failures[0], TypeError)

"""What goes wrong around a transaction service, one thing at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.integration.txn_rig import (
    COMMITTED,
    PARKED,
    PREPARED,
    ROLLED_BACK,
    TXN,
    TxnRig,
    check_arrivals,
    fresh_id,
    messages_of,
)

from halfpast_core_store.broker import (
    Append,
    Appended,
    Broker,
    Empty,
    Follow,
    Followed,
    Hold,
    Lane,
)
from halfpast_core_store.errors import FolderInUse, Overloaded, StoreFailed, StoreFull
from halfpast_core_store.record import Family
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable
from halfpast_txn import decider, ender
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.service import TransactionService
from halfpast_txn.transactions import AddMessages, End, EndTransactions

ONCE = CheckPolicy(check_after_ms=0, check_interval_ms=3_600_000, check_max=9)


class GatedBroker:
    """A broker whose appends in our role can be held up and refused.

    `closed` is how many of the next ones wait at a gate; `broken` makes it unable
    to follow.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.gates: list[tuple[Append, asyncio.Future[None]]] = []
        self.closed = 0
        self.lanes: list[int] = []
        self.broken: Exception | None = None
        self.follow_gate: asyncio.Future[None] | None = None
        self.follows = 0
        self.hold_gate: asyncio.Future[None] | None = None
        self.holds = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._broker, name)

    async def append(self, request: Append) -> Appended:
        self.lanes.append(request.lane)
        if self.closed:
            self.closed -= 1
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.gates.append((request, gate))
            await gate
        return await self._broker.append(request)

    async def follow(self, request: Follow) -> Followed:
        if self.broken is not None:
            raise self.broken
        if self.follow_gate is not None and not request.wait_ms:
            self.follows += 1
            await self.follow_gate
        return await self._broker.follow(request)

    async def hold(self, request: Hold) -> Empty:
        self.holds += 1
        if self.hold_gate is not None:
            await self.hold_gate
        return await self._broker.hold(request)

    async def held(self, count: int) -> None:
        """Until so many appends stand at their gates."""
        await until(lambda: len(self.gates) >= count)

    def open(self, number: int) -> None:
        self.gates[number][1].set_result(None)

    def refuse(self, number: int, error: Exception) -> None:
        self.gates[number][1].set_exception(error)

    async def store_and_lose(self, number: int) -> None:
        """It is stored, and nobody hears of it."""
        await self._broker.append(self.gates[number][0])
        self.refuse(number, ConnectionLost("broker", "test"))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


@asynccontextmanager
async def gated(folder: Path) -> AsyncGenerator[tuple[TxnRig, GatedBroker], None]:
    rig = TxnRig(folder, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    await rig.open_service(cast(Broker, broker))
    try:
        yield rig, broker
    finally:
        for _, gate in broker.gates:
            gate.cancel()
        await asyncio.wait_for(rig.close(), 30)


def lose(rig: TxnRig) -> None:
    rig.service._claims.lose()  # pyright: ignore[reportPrivateUsage]


def is_live(rig: TxnRig) -> bool:
    return rig.service._claims.live  # pyright: ignore[reportPrivateUsage]


def claims_of(rig: TxnRig) -> set[bytes]:
    return rig.service._core.claims  # pyright: ignore[reportPrivateUsage]


# --- callers --------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_caller_that_goes_amid_a_commit_leaves_no_claim(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1)
        await rig.get(identity)
        broker.closed = 1
        call = asyncio.create_task(rig.end(identity))
        await broker.held(1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        again = asyncio.create_task(rig.end(identity, ROLLED_BACK))
        await asyncio.sleep(0)
        assert not again.done()
        broker.open(0)
        told = await asyncio.wait_for(again, 20)
        assert (told.code, told.state) == ("transaction_conflict", COMMITTED)
        check_arrivals(await rig.arrivals(), messages_of([identity]))
        assert claims_of(rig) == set()


@pytest.mark.asyncio
async def test_a_full_lane_refuses_each_and_leaves_all_as_they_were(
    tmp_path: Path,
) -> None:
    async with gated(tmp_path) as (rig, broker):
        identities = await rig.begin_many(3)
        await rig.get(identities[0])
        broker.closed = 1
        ends = [End(one, COMMITTED) for one in identities] + [End(fresh_id(), 3)]
        call = asyncio.create_task(rig.transactions.end(EndTransactions(ends)))
        await broker.held(1)
        assert broker.gates[0][0].lane == Lane.END_TRANSACTION
        broker.refuse(0, Overloaded("end-transaction", 50))
        results = (await call).results
        assert [result.code for result in results] == [
            *["overloaded"] * 3,
            "unknown_transaction",
        ]
        assert "50 ms" in results[0].detail
        assert claims_of(rig) == set()
        assert (await rig.get(identities[0])).state == PREPARED
        for identity in identities:
            assert (await rig.end(identity, ROLLED_BACK)).state == ROLLED_BACK
        assert await rig.arrivals() == []


@pytest.mark.asyncio
async def test_a_full_disk_refuses_and_the_check_back_still_comes(
    tmp_path: Path,
) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1, policy=CheckPolicy(300, 3_600_000, 3))
        await rig.get(identity)
        broker.closed = 1
        call = asyncio.create_task(rig.end(identity))
        await broker.held(1)
        core = rig.service._core  # pyright: ignore[reportPrivateUsage]
        await until(lambda: len(core.horizon) == 0)  # it falls due meanwhile
        assert (await rig.get(identity)).checks == 0
        broker.refuse(0, StoreFull(100))
        assert (await call).code == "store_full"
        (check,) = await rig.poll()
        assert (check.transaction_id, check.check) == (identity, 1)


# --- answers that get lost ------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
async def test_a_commit_of_unknown_outcome_is_looked_up_in_the_log(
    tmp_path: Path, stored: bool, state: int
) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1)
        await rig.get(identity)
        broker.closed = 1
        call = asyncio.create_task(rig.end(identity, state))
        await broker.held(1)
        if stored:
            await broker.store_and_lose(0)
        else:
            broker.refuse(0, ConnectionLost("broker", "test"))
        assert (await call).code == "connection_lost"
        await until(lambda: is_live(rig))
        other = ROLLED_BACK if state == COMMITTED else COMMITTED
        told = await rig.end(identity, other)
        if stored:
            assert (told.code, told.state) == ("transaction_conflict", state)
        else:
            assert (told.code, told.state) == ("", other)
        assert len(await rig.outcomes(identity)) == 1
        committed = (state == COMMITTED) == stored
        check_arrivals(await rig.arrivals(), messages_of([identity] * committed))


@pytest.mark.asyncio
async def test_while_the_outcome_is_unknown_nobody_else_decides(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1)
        await rig.get(identity)
        broker.closed = 1
        first = asyncio.create_task(rig.end(identity))
        await broker.held(1)
        second = asyncio.create_task(rig.end(identity, ROLLED_BACK))
        await asyncio.sleep(0)
        broker.broken = ConnectionLost("broker", "test")
        await until(lambda: not is_live(rig))
        await broker.store_and_lose(0)
        assert (await first).code == "connection_lost"
        with pytest.raises(Unavailable):
            await rig.end(identity, ROLLED_BACK)
        assert claims_of(rig) == {identity}
        assert not second.done()
        broker.broken = None
        told = await asyncio.wait_for(second, 20)
        assert (told.code, told.state) == ("transaction_conflict", COMMITTED)


@pytest.mark.asyncio
async def test_what_waits_behind_a_lost_role_does_not_leave_later(
    tmp_path: Path,
) -> None:
    # Its claim is given up as the role is taken anew. It would then have been
    # stored beside what others decided: messages of a rollback, or twice.
    async with gated(tmp_path) as (rig, broker):
        large = bytes(700_000)  # so that each leaves by itself
        identities = [await rig.begin(1, body=large) for _ in range(6)]
        await rig.get(identities[-1])
        broker.closed = 4
        calls = [asyncio.create_task(rig.end(one)) for one in identities]
        await broker.held(4)
        lose(rig)
        await until(lambda: is_live(rig))
        behind = asyncio.create_task(rig.end(identities[5], ROLLED_BACK))
        await asyncio.sleep(0)
        for number in range(4):
            broker.open(number)
        codes = [(await call).code for call in calls]
        assert codes[:4] == ["fence_lost"] * 4
        assert codes[4:] == ["unavailable"] * 2
        assert ((await behind).code, (await behind).state) == ("", ROLLED_BACK)
        assert await rig.arrivals() == []
        assert len(await rig.outcomes(identities[5])) == 1
        assert claims_of(rig) == set()
        assert not rig.service.failed.done()
        assert (await rig.end(identities[4])).code == ""


@pytest.mark.asyncio
async def test_an_addition_of_unknown_outcome_can_be_repeated(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1)
        more = AddMessages(identity, 1, await rig.halves(identity, 2, 1))
        for stored in (False, True):
            broker.closed = 1
            call = asyncio.create_task(rig.transactions.add(more))
            await broker.held(len(broker.gates) + 1)
            if stored:
                await broker.store_and_lose(-1)
            else:
                broker.refuse(-1, ConnectionLost("broker", "test"))
            with pytest.raises(ConnectionLost):
                await call
            await until(lambda: is_live(rig))
        assert (await rig.transactions.add(more)).message_count == 3
        await rig.end(identity)
        check_arrivals(await rig.arrivals(), messages_of([identity], 3))


# --- check-backs ----------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_refused_check_back_is_written_again(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        broker.closed = 2
        identities = await rig.begin_many(3, policy=ONCE)
        for number in range(2):
            await broker.held(number + 1)
            broker.refuse(number, Overloaded("system"))
        checks = await rig.poll()
        assert sorted(c.transaction_id for c in checks) == sorted(identities)
        assert {check.check for check in checks} == {1}


@pytest.mark.asyncio
@pytest.mark.parametrize("stored", [True, False])
async def test_a_check_back_of_unknown_outcome_keeps_its_number(
    tmp_path: Path, stored: bool
) -> None:
    async with gated(tmp_path) as (rig, broker):
        broker.closed = 1
        identity = await rig.begin(1, policy=CheckPolicy(0, 300, 9))
        await broker.held(1)
        if stored:
            await broker.store_and_lose(0)
        else:
            broker.refuse(0, ConnectionLost("broker", "test"))
        (check,) = await rig.poll()
        assert (check.transaction_id, check.check) == (identity, 2 if stored else 1)
        numbers = [r.attempt for r in await rig.records() if r.kind == 18]
        assert numbers == [*range(1, check.check + 1)]


@pytest.mark.asyncio
async def test_a_refused_parking_gives_the_transaction_back(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1, policy=CheckPolicy(0, 200, 1))
        await rig.until(identity, lambda one: one.checks == 1)
        broker.closed = 1
        await broker.held(1)
        call = asyncio.create_task(rig.end(identity))
        await asyncio.sleep(0)
        assert not call.done()
        broker.refuse(0, Overloaded("system"))
        assert (await asyncio.wait_for(call, 20)).code == ""
        assert (await rig.get(identity)).state == COMMITTED


@pytest.mark.asyncio
async def test_an_outcome_that_waits_for_a_parking_is_told(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1, policy=CheckPolicy(0, 200, 1))
        await rig.until(identity, lambda one: one.checks == 1)
        broker.closed = 1
        await broker.held(1)
        call = asyncio.create_task(rig.end(identity))
        await asyncio.sleep(0)
        broker.open(0)
        told = await asyncio.wait_for(call, 20)
        assert (told.code, told.state) == ("transaction_parked", PARKED)


@pytest.mark.asyncio
async def test_an_outcome_overtakes_its_check_back(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        broker.closed = 1
        identity = await rig.begin(1, policy=ONCE)
        await broker.held(1)
        assert (await rig.end(identity)).code == ""
        broker.open(0)
        assert await rig.poll(100) == []
        found = await rig.get(identity)
        assert (found.state, found.checks) == (COMMITTED, 0)


# --- a broker that is away ------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error", [StoreFailed("test"), ConnectionLost("a", "b"), Unavailable("a", "b")]
)
async def test_a_broker_that_is_away_for_a_while(
    tmp_path: Path, error: Exception
) -> None:
    async with gated(tmp_path) as (rig, broker):
        identity = await rig.begin(1)
        await rig.get(identity)
        broker.broken = error
        await until(lambda: not is_live(rig))
        with pytest.raises(Unavailable):
            await rig.end(identity)
        with pytest.raises(Unavailable):
            await rig.answer(identity, COMMITTED)
        with pytest.raises(Unavailable):
            await rig.poll(0)
        with pytest.raises(type(error)):
            await rig.get(identity)
        status = await rig.transactions.status(Empty())
        assert status.gauges["txn_service_ready"] == 0
        late = await rig.begin(1, policy=ONCE)
        broker.broken = None
        await until(lambda: is_live(rig))
        (check,) = await rig.poll()
        assert check.transaction_id == late
        assert (await rig.end(identity)).code == ""


@pytest.mark.asyncio
async def test_a_hold_that_the_role_was_taken_anew_under_ends_nothing(
    tmp_path: Path,
) -> None:
    # The broker then calls us another instance, and we would have believed it.
    async with gated(tmp_path) as (rig, broker):
        broker.hold_gate = asyncio.get_running_loop().create_future()
        await rig.begin(1)
        await until(lambda: broker.holds)
        lose(rig)
        await until(lambda: is_live(rig))
        broker.hold_gate.set_result(None)
        identity = await rig.begin(1)
        await until(lambda: broker.holds >= 2)
        assert not rig.service.failed.done()
        assert (await rig.end(identity)).code == ""


@pytest.mark.asyncio
async def test_a_failed_open_gives_the_folder_up(tmp_path: Path) -> None:
    rig = TxnRig(tmp_path, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    broker.broken = Unavailable("broker", "not yet")
    identity = await rig.begin(1)
    with pytest.raises(Unavailable):
        await TransactionService.open(
            tmp_path / "data", cast(Broker, broker), TXN, rig.groups, rig.transport
        )
    await rig.open_service()
    assert (await rig.end(identity)).code == ""
    await rig.close()


# --- a service that fails, or ends ----------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("what", ["check", "apply_slice", "forget"])
async def test_an_error_of_ours_ends_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    # Nobody awaits a callback: it would go on without ever asking anybody again.
    async with gated(tmp_path) as (rig, _):
        identity = await rig.begin(1)
        await rig.get(identity)
        core = rig.service._core  # pyright: ignore[reportPrivateUsage]

        def broken(*_: object) -> None:
            raise OSError("an index that cannot be read")

        monkeypatch.setattr(core, what, broken)
        await rig.begin(1)
        with pytest.raises(OSError, match="cannot be read"):
            await asyncio.wait_for(asyncio.shield(rig.service.failed), 20)
        with pytest.raises(Unavailable):
            await rig.end(identity)
        monkeypatch.undo()


@pytest.mark.asyncio
async def test_who_waits_when_the_service_fails_is_told(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        one, two = await rig.begin_many(2)
        await rig.get(two)
        broker.closed = 2
        first = asyncio.create_task(rig.end(one))
        await broker.held(1)
        other = asyncio.create_task(rig.end(two))
        await broker.held(2)
        # Both in one call: the second one is busy as long as the first travels.
        ends = EndTransactions([End(one, ROLLED_BACK), End(two, ROLLED_BACK)])
        both = asyncio.create_task(rig.transactions.end(ends))
        await asyncio.sleep(0)
        rig.service._fail(OSError("test"))  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Unavailable):
            await asyncio.wait_for(both, 5)
        broker.open(0)
        broker.open(1)
        assert (await first).code == (await other).code == ""
        with pytest.raises(OSError, match="test"):
            await rig.service.failed


@pytest.mark.asyncio
async def test_close_lets_commits_that_are_under_way_arrive(tmp_path: Path) -> None:
    rig = TxnRig(tmp_path, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    await rig.open_service(cast(Broker, broker))
    identities = await rig.begin_many(3)
    await rig.get(identities[-1])
    broker.closed = 1
    calls = [asyncio.create_task(rig.end(one)) for one in identities]
    busy = asyncio.create_task(rig.end(identities[0], ROLLED_BACK))
    await broker.held(1)
    closing = asyncio.create_task(rig.close_service())
    await asyncio.sleep(0.01)
    assert not closing.done()
    with pytest.raises(Unavailable):
        await rig.end(identities[1])
    broker.open(0)
    await asyncio.wait_for(closing, 20)
    assert [(await call).code for call in calls] == [""] * 3
    with pytest.raises(Unavailable):
        await asyncio.wait_for(busy, 5)
    check_arrivals(await rig.arrivals(), messages_of(identities))
    await rig.close_broker()


@pytest.mark.asyncio
async def test_close_waits_for_no_commit_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ender, decider):
        monkeypatch.setattr(module, "CLOSE_S", 0.1)
    rig = TxnRig(tmp_path, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    await rig.open_service(cast(Broker, broker))
    large = bytes(700_000)
    identities = [await rig.begin(1, body=large) for _ in range(8)]
    await rig.get(identities[-1])
    broker.closed = 10
    calls = [asyncio.create_task(rig.end(one)) for one in identities[:7]]
    busy = asyncio.create_task(rig.end(identities[0], ROLLED_BACK))
    more = AddMessages(identities[7], 1, await rig.halves(identities[7], 1, 1))
    adding = asyncio.create_task(rig.transactions.add(more))
    polling = asyncio.create_task(rig.poll(60_000))
    await broker.held(5)
    await asyncio.wait_for(rig.close_service(), 5)
    codes = [(await asyncio.wait_for(call, 5)).code for call in calls]
    assert codes == ["connection_lost"] * 4 + ["unavailable"] * 3
    with pytest.raises(Unavailable):
        await asyncio.wait_for(busy, 5)
    with pytest.raises(ConnectionLost):
        await asyncio.wait_for(adding, 5)
    assert await asyncio.wait_for(polling, 5) == []
    await rig.open_service()
    for identity in identities:
        assert (await rig.end(identity, ROLLED_BACK)).state == ROLLED_BACK
    assert await rig.arrivals() == []
    await rig.close()


@pytest.mark.asyncio
async def test_calls_that_come_too_late_are_refused(tmp_path: Path) -> None:
    # Also those that would look at an index which is closed by now.
    rig = TxnRig(tmp_path, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    await rig.open_service(cast(Broker, broker))
    identity = await rig.begin(1)
    await rig.get(identity)
    broker.follow_gate = asyncio.get_running_loop().create_future()
    calls: list[asyncio.Task[object]] = [
        *[asyncio.create_task(rig.get(identity)) for _ in range(2)],
        *[asyncio.create_task(rig.listed(PREPARED)) for _ in range(2)],
        asyncio.create_task(rig.end(fresh_id())),
    ]
    await until(lambda: broker.follows)
    await asyncio.wait_for(rig.close_service(), 20)
    # They are told so, and not cancelled: that is for whoever called.
    for call in calls:
        with pytest.raises(Unavailable):
            await asyncio.wait_for(call, 5)
    for late in (rig.get(identity), rig.listed(PREPARED), rig.end(identity)):
        with pytest.raises(Unavailable):
            await late
    with pytest.raises(Unavailable):
        await rig.answer(identity, COMMITTED)
    await rig.close_broker()


@pytest.mark.asyncio
async def test_the_folder_is_given_up_by_a_close(tmp_path: Path) -> None:
    rig = TxnRig(tmp_path, over_socket=False)
    await rig.open_broker()
    await rig.open_service()
    with pytest.raises(FolderInUse):
        await TransactionService.open(
            tmp_path / "data", rig.broker, TXN, rig.groups, rig.transport
        )
    await rig.close_service()
    await rig.open_service()
    assert len(await rig.records(Family.TRANSACTIONS)) == 0
    await rig.close()

"""What goes wrong around a Delay Server, one thing at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.integration.chronos_rig import CHRONOS, DelayRig, check_arrivals, now_ms

from halfpast_chronos import keys
from halfpast_chronos.delay_server import Cancel, EventState, GetEvent
from halfpast_chronos.service import DelayService
from halfpast_core_store.broker import (
    Append,
    Appended,
    Broker,
    Empty,
    Follow,
    Followed,
    Hold,
    Run,
)
from halfpast_core_store.errors import FenceLost, Overloaded, StoreFailed
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.rocks_index import RocksIndex
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable

FAR_MS = 3_600_000
MIB = 1024 * 1024


class GatedBroker:
    """A broker whose appends of the Delay Server can be held up and refused."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.gates: list[asyncio.Future[None]] = []
        self.closed = 0
        self.broken: Exception | None = None
        self.hold_gate: asyncio.Future[None] | None = None
        self.holds = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._broker, name)

    async def append(self, request: Append) -> Appended:
        if self.closed:
            self.closed -= 1
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.gates.append(gate)
            await gate
        return await self._broker.append(request)

    async def follow(self, request: Follow) -> Followed:
        if self.broken is not None:
            raise self.broken
        return await self._broker.follow(request)

    async def hold(self, request: Hold) -> Empty:
        self.holds += 1
        if self.hold_gate is not None:
            await self.hold_gate
        return await self._broker.hold(request)

    async def held(self, count: int) -> None:
        """Until so many appends stand at their gates."""
        await until(lambda: len(self.gates) >= count)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


@asynccontextmanager
async def gated(folder: Path) -> AsyncGenerator[tuple[DelayRig, GatedBroker], None]:
    rig = DelayRig(folder, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    await rig.open_delay(cast(Broker, broker))
    try:
        yield rig, broker
    finally:
        for gate in broker.gates:
            gate.cancel()
        await asyncio.wait_for(rig.close(), 30)


@pytest.mark.asyncio
async def test_a_caller_that_goes_leaves_no_claim_behind(tmp_path: Path) -> None:
    # The timer would never fire, and every later decision would wait for ever.
    async with gated(tmp_path) as (rig, broker):
        (event_id,) = await rig.schedule(now_ms() + FAR_MS)
        broker.closed = 1
        call = asyncio.create_task(rig.delay.cancel(Cancel(event_id)))
        await broker.held(1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        broker.gates[0].set_result(None)
        async with asyncio.timeout(10):
            answer = await rig.delay.cancel(Cancel(event_id))
        assert answer.outcome == "cancelled"
        event = (await rig.delay.get_event(GetEvent(event_id))).event
        assert event is not None
        assert event.state == EventState.CANCELLED


@pytest.mark.asyncio
async def test_a_refused_decision_gives_the_timer_back(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        (event_id,) = await rig.schedule(now_ms() + 60)
        broker.closed = 1
        call = asyncio.create_task(rig.delay.cancel(Cancel(event_id)))
        await broker.held(1)
        await asyncio.sleep(0.1)  # it becomes due meanwhile
        assert await rig.arrivals() == []
        broker.gates[0].set_exception(Overloaded("system"))
        with pytest.raises(Overloaded):
            await call
        check_arrivals(await rig.wait_for(event_id), [event_id])


@pytest.mark.asyncio
async def test_a_refused_firing_is_tried_again(tmp_path: Path) -> None:
    async with gated(tmp_path) as (rig, broker):
        broker.closed = 2
        ids = await rig.schedule(now_ms(), now_ms())
        for number in range(2):
            await broker.held(number + 1)
            broker.gates[number].set_exception(Overloaded("system"))
        check_arrivals(await rig.wait_for(*ids), ids)


@pytest.mark.asyncio
async def test_a_late_refusal_of_a_former_role_releases_no_new_claim(
    tmp_path: Path,
) -> None:
    # It would: the timer then fires while it is on its way already, hence twice.
    async with gated(tmp_path) as (rig, broker):
        broker.closed = 1
        (event_id,) = await rig.schedule(now_ms())
        await broker.held(1)
        broker.closed = 1
        rig.service._standing.lose()  # pyright: ignore[reportPrivateUsage]
        await broker.held(2)  # the role was taken anew, and the timer fires anew
        broker.gates[0].set_exception(Overloaded("system"))
        await asyncio.sleep(0.3)
        assert await rig.arrivals() == []
        broker.gates[1].set_result(None)
        check_arrivals(await rig.wait_for(event_id), [event_id])
        await asyncio.sleep(0.05)
        check_arrivals(await rig.arrivals(), [event_id])


@pytest.mark.asyncio
async def test_a_firing_of_unknown_outcome_is_looked_up_in_the_log(
    tmp_path: Path,
) -> None:
    async with gated(tmp_path) as (rig, broker):
        broker.closed = 1
        lost = await rig.schedule(now_ms())
        await broker.held(1)
        broker.gates[0].set_exception(ConnectionLost("broker", "test"))
        check_arrivals(await rig.wait_for(*lost), lost)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error", [StoreFailed("test"), ConnectionLost("a", "b"), Unavailable("a", "b")]
)
async def test_a_broker_that_is_away_for_a_while(
    tmp_path: Path, error: Exception
) -> None:
    async with gated(tmp_path) as (rig, broker):
        broker.broken = error
        await until(lambda: not rig.service._standing.live)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(type(error)):
            await rig.delay.cancel(Cancel(rig.fresh_id()))
        (event_id,) = await rig.schedule(now_ms())
        broker.broken = None
        check_arrivals(await rig.wait_for(event_id), [event_id])


@pytest.mark.asyncio
async def test_an_error_in_a_callback_ends_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody awaits a callback: it would go on without ever firing again.
    async with gated(tmp_path) as (rig, _):
        core = rig.service._core  # pyright: ignore[reportPrivateUsage]

        def broken() -> None:
            raise OSError("an index that cannot be read")

        monkeypatch.setattr(core, "fire", broken)
        await rig.schedule(now_ms())
        with pytest.raises(OSError, match="cannot be read"):
            await asyncio.wait_for(asyncio.shield(rig.service.failed), 20)
        with pytest.raises(Unavailable):
            await rig.delay.cancel(Cancel(rig.fresh_id()))


@pytest.mark.asyncio
async def test_close_sends_those_who_wait_home(tmp_path: Path) -> None:
    rig = DelayRig(tmp_path, over_socket=False)
    await rig.open_broker()
    await rig.open_delay()
    (event_id,) = await rig.schedule(now_ms() + FAR_MS)
    rig.service._core.claims.add(event_id)  # pyright: ignore[reportPrivateUsage]
    call = asyncio.create_task(rig.delay.cancel(Cancel(event_id)))
    await asyncio.sleep(0.05)
    await rig.close_delay()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(call, 5)
    await rig.close_broker()


@pytest.mark.asyncio
async def test_a_decision_on_its_way_is_answered_before_the_close(
    tmp_path: Path,
) -> None:
    rig = DelayRig(tmp_path, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    await rig.open_delay(cast(Broker, broker))
    (event_id,) = await rig.schedule(now_ms() + FAR_MS)
    broker.closed = 1
    call = asyncio.create_task(rig.delay.cancel(Cancel(event_id)))
    await broker.held(1)
    close = asyncio.create_task(rig.close_delay())
    await asyncio.sleep(0.05)
    broker.gates[0].set_result(None)
    await close
    assert (await call).outcome == "cancelled"
    await rig.close_broker()


@pytest.mark.asyncio
async def test_what_is_held_of_the_log_is_what_the_index_knows(tmp_path: Path) -> None:
    # Retention may delete everything before the held position.
    rig = DelayRig(tmp_path, over_socket=False)
    await rig.open_broker()
    await rig.open_delay()
    await rig.schedule(now_ms() + FAR_MS)
    info = await rig.topic()
    for _ in range(20):  # a log in which nothing concerns timers
        message = encode_record(RecordKind.NORMAL, topic_id=info.id)
        await rig.broker.append(Append([Run(info.id, 0, [message])]))
    await rig.delay.cancel(Cancel(rig.fresh_id()))
    await rig.service._flush()  # pyright: ignore[reportPrivateUsage]
    held = rig.broker_service._store._roles.keep_from()  # pyright: ignore[reportPrivateUsage]
    await rig.close()
    index = RocksIndex(tmp_path / "data" / "chronos", write_buffer=MIB, cache=MIB)
    applied = index.get(keys.APPLIED)
    index.close()
    assert applied is not None
    assert int(keys.U64.unpack(applied)[0]) >= held > 0


@pytest.mark.asyncio
async def test_a_hold_that_the_role_was_taken_anew_under_ends_nothing(
    tmp_path: Path,
) -> None:
    # The broker then calls us another instance, and we would have believed it.
    async with gated(tmp_path) as (rig, broker):
        standing = rig.service._standing  # pyright: ignore[reportPrivateUsage]
        broker.hold_gate = asyncio.get_running_loop().create_future()
        await rig.schedule(now_ms() + FAR_MS)
        await until(lambda: broker.holds)
        standing.lose()
        await until(lambda: standing.live)
        broker.hold_gate.set_result(None)
        (event_id,) = await rig.schedule(now_ms())
        await until(lambda: broker.holds >= 2)
        assert not rig.service.failed.done()
        check_arrivals(await rig.wait_for(event_id), [event_id])


@pytest.mark.asyncio
async def test_a_late_fence_of_a_former_role_does_not_lose_the_present_one(
    tmp_path: Path,
) -> None:
    async with gated(tmp_path) as (rig, broker):
        standing = rig.service._standing  # pyright: ignore[reportPrivateUsage]
        broker.closed = 2
        (event_id,) = await rig.schedule(now_ms())
        await broker.held(1)
        standing.lose()
        await broker.held(2)  # the role was taken anew, and the timer fires anew
        token = standing.token
        broker.gates[0].set_exception(FenceLost("chronos", held=False))
        broker.gates[1].set_result(None)
        check_arrivals(await rig.wait_for(event_id), [event_id])
        assert (standing.token, standing.live) == (token, True)


@pytest.mark.asyncio
async def test_a_failed_open_gives_the_folder_up(tmp_path: Path) -> None:
    rig = DelayRig(tmp_path, over_socket=False)
    await rig.open_broker()
    broker = GatedBroker(rig.broker)
    broker.broken = Unavailable("broker", "not yet")
    await rig.schedule(now_ms() + FAR_MS)
    with pytest.raises(Unavailable):
        await DelayService.open(tmp_path / "data", cast(Broker, broker), CHRONOS)
    await rig.open_delay()
    await rig.close()

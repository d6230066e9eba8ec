"""What clocks do to real processes: set back, set forward, and standing still."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.acceptance.fake_clock import FakeClock
from tests.acceptance.fault_server import FaultServer

from halfpast_loadtest.event_request import batch_body, event_body
from halfpast_loadtest.message import Message, now_ms
from halfpast_loadtest.queue_reader import read_topics
from halfpast_loadtest.request_set import created_in_batch
from halfpast_loadtest.server_metrics import Metrics, read_metrics
from halfpast_loadtest.server_process import HOST

TOPIC = "clock"
HOUR_S = 3600
STOP_S = 10
DRAIN_PER_S = 100
SAVED_UP = DRAIN_PER_S // 10  # what a rate lets through at once after a silence
BACK = 'halfpast_clock_jumps_total{direction="back"}'
FORWARD = 'halfpast_clock_jumps_total{direction="forward"}'
DRAINING = "halfpast_clock_jump_draining"
SETTINGS = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(16 * 1024 * 1024),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(8 * 1024 * 1024),
    "HALFPAST_CHRONOS_DRAIN_RATE_PER_S": str(DRAIN_PER_S),
}


class Rig:
    """A server, and what a test does with it. All events have one key, so that they
    are in one queue, in the order in which they came there."""

    def __init__(self, server: FaultServer) -> None:
        self.server = server
        self._client = server.patient()
        self._events = 0

    async def schedule(self, dues_ms: Sequence[int]) -> None:
        bodies = [
            event_body(b"%d" % number, topic=TOPIC, key="k", due_ms=due_ms)
            for number, due_ms in enumerate(dues_ms, self._events)
        ]
        self._events += len(bodies)
        answer = await self._client.request(
            "POST", "/v1/events:batch", batch_body(bodies)
        )
        assert created_in_batch(answer) == len(bodies), answer.body

    async def messages(self) -> list[Message]:
        return await read_topics(self._client, [TOPIC])

    async def arrived(self, count: int) -> list[Message]:
        """All messages, as soon as there are so many."""
        found: list[Message] = []

        async def are_there() -> bool:
            nonlocal found
            found = await self.messages()
            return len(found) >= count

        await until(are_there)
        return found

    async def metrics(self) -> Metrics:
        return await read_metrics(HOST, self.server.port)

    async def until_metric(self, name: str, value: float) -> None:
        async def is_so() -> bool:
            return (await self.metrics())[name] == value

        await until(is_so)

    def close(self) -> None:
        self._client.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(
    folder: Path, mode: str, environment: Mapping[str, str]
) -> AsyncGenerator[Rig]:
    server = FaultServer(
        folder / "data", mode=mode, settings={**SETTINGS, **environment}
    )
    try:
        await server.start_ready()
        rig = Rig(server)
        yield rig
        rig.close()
        assert await server.stop() == 0, server.log
    finally:
        server.kill()


def check(found: Sequence[Message], count: int) -> None:
    """Each once, none before its time by the clock of its moment."""
    assert sorted(int(one.data) for one in found) == list(range(count))
    assert [one for one in found if one.stored_ms < (one.due_ms or 0)] == []


@pytest.mark.asyncio
async def test_a_clock_that_is_set_back_is_waited_for(tmp_path: Path) -> None:
    clock = FakeClock(tmp_path)
    async with running(tmp_path, "dev", clock.environment) as rig:
        await rig.schedule([clock.now_ms()] * 3)
        await rig.arrived(3)
        soon_ms = clock.now_ms() + 1_000
        await rig.schedule([soon_ms] * 5)
        back_ms = clock.set_ahead(-HOUR_S)
        await rig.until_metric(BACK, 1)
        # When this one has come, the others would have been due by true time.
        await rig.schedule([back_ms + 2_000])
        found = await rig.arrived(4)
        assert [int(one.data) for one in found] == [0, 1, 2, 8]
        clock.set_ahead(0)
        found = await rig.arrived(9)
        check(found, 9)
        assert (await rig.metrics())["halfpast_early_total"] == 0


@pytest.mark.asyncio
async def test_a_clock_far_ahead_is_told_and_drained_slowly(tmp_path: Path) -> None:
    clock = FakeClock(tmp_path)
    async with running(tmp_path, "dev", clock.environment) as rig:
        due_ms = clock.now_ms() + HOUR_S * 1000
        count = 2 * DRAIN_PER_S
        await rig.schedule([due_ms] * count + [due_ms + 2 * HOUR_S * 1000])
        ahead_ms = clock.set_ahead(2 * HOUR_S)
        await rig.until_metric(FORWARD, 1)
        metrics = await rig.metrics()
        assert metrics[DRAINING] == 1
        found = await rig.arrived(count)
        check(found, count)
        took_ms = max(one.stored_ms for one in found) - ahead_ms
        assert took_ms >= (count - SAVED_UP) * 1000 // DRAIN_PER_S - 20
        await rig.until_metric(DRAINING, 0)
        await rig.schedule([clock.now_ms()] * 50)  # as fast as ever from now on
        await rig.arrived(count + 50)
        metrics = await rig.metrics()
        assert (metrics[FORWARD], metrics[BACK]) == (1, 0)
        assert metrics["halfpast_early_total"] == 0


@pytest.mark.asyncio
async def test_a_delay_server_that_stood_still_catches_up_in_order(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, "up", {}) as rig:
        start_ms = now_ms() + 500
        step_ms = (STOP_S + 1) * 1000 // 400
        await rig.schedule([start_ms + n * step_ms for n in range(400)])
        await rig.arrived(10)
        [pid] = rig.server.pids("chronos")
        os.kill(pid, signal.SIGSTOP)
        try:
            await rig.schedule([now_ms() + 1])  # accepted all the same
            await asyncio.sleep(STOP_S)
            stood = await rig.messages()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert len(stood) < 300
        found = await rig.arrived(401)
        check(found, 401)
        assert [one.id for one in found[: len(stood)]] == [one.id for one in stood]
        known = [int(one.data) for one in found if one.data != b"400"]
        assert known == list(range(400))  # as they were due
        assert rig.server.pids("chronos") == [pid]
        metrics = await rig.metrics()
        assert (metrics[FORWARD], metrics[BACK]) == (0, 0)
        assert metrics["halfpast_early_total"] == 0

"""Bench burst: a million events due in one millisecond, another topic meanwhile.

The other topic has a few events due all the time; how late those are during the burst
shows whether topics take turns. What was delivered is read from the queues afterwards
and compared with every id that was acknowledged. `spread_ms` spreads the burst.
"""

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from halfpast_loadtest.bench_result import BenchResult, settings_of
from halfpast_loadtest.burst_report import (
    note_burst,
    note_memory,
    note_server,
    note_side,
    note_stalls,
)
from halfpast_loadtest.delivered import ExpectedIds, read_delivered
from halfpast_loadtest.errors import BadSetting, RequestFailed
from halfpast_loadtest.fill import BATCHES_MADE, FillConfig, fill
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.long_poller import PullPoller
from halfpast_loadtest.memory_watch import MemoryWatch
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.postgres_baseline import postgres_table, take_due
from halfpast_loadtest.progress import Progress
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.request_set import Due, Dues
from halfpast_loadtest.server_metrics import Metrics, read_metrics
from halfpast_loadtest.server_process import ServerProcess

NAME = "burst"
TOPIC = "bench-burst"
SIDE_TOPIC = "bench-side"
QUEUE_COUNT = 4
QUIET_MS = 3000  # of the other topic alone, before the burst
SCHEDULES_PER_S = 25_000  # certainly faster than this
FIRES_PER_S = 8_000
CONSUMERS = ("side", "all")
POLLER_COUNT = 2  # of PostgreSQL


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstSettings:
    """`spread_ms=0`: all in the same millisecond. `lead_s`: how long scheduling may
    take (0: by `count`). `consumers`: who is polled for meanwhile, the other topic
    (`side`) or both (`all`), which tells the arrivals of the burst too."""

    count: int = 1_000_000
    spread_ms: int = 0
    side_rate_per_s: int = 100
    lead_s: float = 0.0
    callers: int = 4
    body_bytes: int = 300
    events_per_request: int = 500
    consumers: str = "side"
    mode: str = "up"
    folder: str = ""
    baseline: int = 1  # 0 leaves out the table in PostgreSQL


DEFAULTS = BurstSettings()


async def measure(settings: BurstSettings) -> BenchResult:
    """Throughput, lateness of both topics, stalls of the Delay Server."""
    if settings.consumers not in CONSUMERS:
        raise BadSetting("consumers", settings.consumers, CONSUMERS)
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        server = ServerProcess(Path(folder) / "data", mode=settings.mode)
        async with server.running():
            await _Run(server, settings, result).run()
    if settings.baseline:
        await _add_postgres(settings, result)
    return result


def side_due_times(base_ms: int, settings: BurstSettings) -> list[int]:
    """When the other topic's events are due: from before the burst to well behind
    its end."""
    end_ms = 5000 + settings.count * 1000 // FIRES_PER_S + settings.spread_ms
    count = (QUIET_MS + end_ms) * settings.side_rate_per_s // 1000
    first_ms = base_ms - QUIET_MS
    return [first_ms + n * 1000 // settings.side_rate_per_s for n in range(count)]


class _Run:
    """The steps of the bench, on one running server."""

    def __init__(
        self, server: ServerProcess, settings: BurstSettings, result: BenchResult
    ) -> None:
        self._server = server
        self._settings = settings
        self._result = result
        lead_s = settings.lead_s or 12 + settings.count / SCHEDULES_PER_S
        self._base_ms = now_ms() + round(lead_s * 1000)
        self._side_dues = side_due_times(self._base_ms, settings)
        self._expected = ExpectedIds()
        self._side_expected = ExpectedIds()

    async def run(self) -> None:
        result, server = self._result, self._server
        client = PatientClient(server.host, server.port)
        await self._schedule()
        pollers = await self._start_pollers()
        await _sleep_until(self._base_ms - QUIET_MS - 200)
        metrics, usage = await self._metrics(), server.usage()
        async with MemoryWatch(server) as watch:
            await self._fired(client)
        note_server(result, usage, server.usage(), self._settings.count)
        note_memory(result, watch)
        note_stalls(result, metrics, await self._metrics())
        await asyncio.sleep(0.5)  # what was fired last is on its way
        for poller in (*pollers[SIDE_TOPIC], *pollers[TOPIC]):
            await poller.stop()
        burst = await read_delivered(client, TOPIC, self._expected)
        note_burst(result, burst, self._expected, self._base_ms, pollers[TOPIC])
        side = await read_delivered(client, SIDE_TOPIC, self._side_expected)
        end_ms = max(burst.stored_ms, default=self._base_ms)
        expected = sum(due_ms <= end_ms for due_ms in self._side_dues)
        note_side(result, side, pollers[SIDE_TOPIC], self._base_ms, end_ms, expected)
        result.duplicates = (result.duplicates or 0) + self._side_expected.duplicates
        client.close()

    async def _metrics(self) -> Metrics:
        return await read_metrics(self._server.host, self._server.port)

    async def _schedule(self) -> None:
        """Both topics, all before the first is due."""
        settings = self._settings
        side = iter(self._side_dues)
        await self._fill(
            SIDE_TOPIC,
            len(self._side_dues),
            lambda: Due(due_ms=next(side)),
            self._side_expected,
        )
        rate = await self._fill(
            TOPIC, settings.count, self._dues(), self._expected, settings.callers
        )
        self._result.parts["scheduling"] = {"scheduled_per_s": round(rate, 1)}
        first_ms = self._base_ms - QUIET_MS
        if now_ms() > first_ms:
            late_s = (now_ms() - first_ms) / 1000
            reason = b"it took %.1f s longer than lead_s, give more" % late_s
            raise RequestFailed("scheduling", 0, reason)

    def _dues(self) -> Dues:
        """The same moment, or random ones within `spread_ms`."""
        chance = random.Random(1)
        spread_ms = max(self._settings.spread_ms, 1)
        return lambda: Due(due_ms=self._base_ms + chance.randrange(spread_ms))

    async def _fill(
        self,
        topic: str,
        count: int,
        dues: Dues,
        expected: ExpectedIds,
        callers: int = 1,
    ) -> float:
        config = FillConfig(
            topic=topic,
            count=count,
            dues=dues,
            body_bytes=self._settings.body_bytes,
            events_per_request=self._settings.events_per_request,
            batches_made=BATCHES_MADE if topic == TOPIC else len(self._side_dues),
            callers=callers,
        )
        return (await fill(self._server, config, expected.add)).rate_per_s

    async def _start_pollers(self) -> dict[str, list[PullPoller]]:
        topics = (
            (SIDE_TOPIC, TOPIC) if self._settings.consumers == "all" else (SIDE_TOPIC,)
        )
        pollers = {
            topic: [PullPoller(topic, queue) for queue in range(QUEUE_COUNT)]
            for topic in topics
        }
        for some in pollers.values():
            for poller in some:
                await poller.start(self._server.host, self._server.port)
        return {TOPIC: [], **pollers}

    async def _fired(self, client: PatientClient) -> None:
        """Wait until the burst is over; the ends of its queues tell."""
        count = self._settings.count
        progress = Progress("firing", count)
        await _sleep_until(self._base_ms)
        patience_s = 30 + count / FIRES_PER_S + self._settings.spread_ms / 1000
        deadline = time.monotonic() + patience_s
        fired = 0
        while fired < count and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            fired = await count_messages(client, (TOPIC,))
            progress.at(fired)
        progress.end()


async def _sleep_until(epoch_ms: float) -> None:
    await asyncio.sleep(max(epoch_ms / 1000 - time.time(), 0))


async def _add_postgres(settings: BurstSettings, result: BenchResult) -> None:
    """The burst alone, in a table."""
    with postgres_table(settings.folder, result) as server:
        if server is None:
            return
        chance = random.Random(1)
        spread_ms = max(settings.spread_ms, 1)
        offsets = sorted(chance.randrange(spread_ms) for _ in range(settings.count))
        taken, base_ms = await take_due(
            server, offsets, settings.body_bytes, POLLER_COUNT
        )
    rate = len(taken.late_ms) * 1000 / max(taken.last_ms - base_ms, 1)
    theirs = summarise(taken.late_ms)
    result.baseline = {"postgres_per_s": round(rate, 1)} | theirs.shown("postgres_")
    ours = result.parts.get("arrival - deliver_at", {}).get("p99_ms", result.p99_ms)
    result.ratio = {
        "of_postgres": round((result.rate_per_s or 0.0) / rate, 3),
        "of_postgres_p99": round((ours or 0.0) / theirs.p99_ms, 3),
    }

"""Bench pending: ten million delayed events wait; memory, disk, starts, look-ups.

They are due over the next 30 days, none of them meanwhile. Then the server is looked
at, asked for single events, and stopped and started again: once with SIGTERM, once
with SIGKILL. After both it must know what was cancelled and what was not.
"""

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfpast_loadtest.bench_result import BenchResult, settings_of, with_latency
from halfpast_loadtest.catching_up import applied
from halfpast_loadtest.disk_use import allocated_by_folder_mb, need_room
from halfpast_loadtest.event_sample import EventSample
from halfpast_loadtest.fill import FillConfig, Filled, fill
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.memory_watch import MemoryWatch
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.pending_count import pending_count
from halfpast_loadtest.pending_queries import measure_queries
from halfpast_loadtest.progress import Progress
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.request_set import Due, Dues
from halfpast_loadtest.server_metrics import read_metrics, total
from halfpast_loadtest.server_process import ServerProcess

NAME = "pending"
TOPIC = "bench-pending"
FIRST_DUE_MS = 2 * 3_600_000  # none comes due during the bench
DAY_MS = 86_400_000
START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 120.0
RECORD_OVERHEAD_BYTES = 110
ROOM_FACTOR = 2.5  # the log, the index, and what is being merged in it
ROOM_SPARE_BYTES = 3 * 1024**3  # segments prepared ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSettings:
    """`queries`: so many single look-ups, cancels and pages are timed. `settle_s`: a
    wait after scheduling, so that the indexes are flushed as they are at rest."""

    count: int = 10_000_000
    days: float = 30.0
    callers: int = 4
    body_bytes: int = 300
    events_per_request: int = 500
    queries: int = 1000
    settle_s: float = 6.0
    mode: str = "up"
    folder: str = ""


DEFAULTS = PendingSettings()


async def measure(settings: PendingSettings) -> BenchResult:
    """Everything about one server with so many events pending."""
    need_room(settings.folder, room_needed(settings))
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        server = ServerProcess(Path(folder) / "data", mode=settings.mode)
        async with server.running():
            await _Run(server, settings, result).run()
    return result


def room_needed(settings: PendingSettings) -> int:
    """Bytes of disk, generously."""
    record_bytes = settings.body_bytes + RECORD_OVERHEAD_BYTES
    return round(settings.count * record_bytes * ROOM_FACTOR) + ROOM_SPARE_BYTES


def spread_over(days: float, seed: int = 1) -> Dues:
    """Random delays between two hours and so many days."""
    chance = random.Random(seed)
    last_ms = max(round(days * DAY_MS), FIRST_DUE_MS + 1)
    return lambda: Due(delay_ms=chance.randrange(FIRST_DUE_MS, last_ms))


class _Run:
    """The steps of the bench, on one running server."""

    def __init__(
        self, server: ServerProcess, settings: PendingSettings, result: BenchResult
    ) -> None:
        self._server = server
        self._settings = settings
        self._result = result
        self._progress = Progress(NAME, settings.count)
        self._sample = EventSample(TOPIC, settings.queries, settings.count)
        self._figures: dict[str, Any] = {}

    async def run(self) -> None:
        result, figures = self._result, self._figures
        figures["empty_ready_s"] = await self._restarted(by_kill=False)
        await self._schedule()
        figures["behind_s"] = round(await applied(self._server, START_TIMEOUT_S), 2)
        self._progress.say("letting the indexes settle")
        await asyncio.sleep(self._settings.settle_s)
        self._note_memory("", with_processes=True)
        await self._note_disk()
        self._progress.say("asking for single events")
        result.parts |= await measure_queries(self._server, self._sample)
        self._progress.say("stopping with SIGTERM, starting again")
        figures["ready_after_sigterm_s"] = await self._restarted(by_kill=False)
        lost = await self._lost("sigterm")
        self._progress.say("stopping with SIGKILL, starting again")
        figures["ready_after_sigkill_s"] = await self._restarted(by_kill=True)
        lost += await self._lost("sigkill")
        self._note_memory("restarted_", with_processes=False)
        client = PatientClient(self._server.host, self._server.port)
        result.early = await count_messages(client, (TOPIC,))
        client.close()
        result.lost = lost
        result.parts = {"pending": figures, **result.parts}

    async def _schedule(self) -> None:
        settings = self._settings
        config = FillConfig(
            topic=TOPIC,
            count=settings.count,
            dues=spread_over(settings.days),
            body_bytes=settings.body_bytes,
            events_per_request=settings.events_per_request,
            callers=settings.callers,
        )
        began = self._server.usage()
        async with MemoryWatch(self._server) as watch:
            filled = await fill(self._server, config, self._sample.take)
        ended = self._server.usage()
        cpu_us = (ended.cpu_s - began.cpu_s) * 1e6 / max(filled.count, 1)
        result = self._result
        result.rate_per_s = round(filled.rate_per_s, 1)
        result.server_cpu_us_per_message = round(cpu_us, 2)
        with_latency(result, summarise(filled.request_ms))
        self._figures |= pace_shown(filled)
        self._figures["scheduling_pss_mb_max"] = round(watch.pss_mb_max, 1)
        self._figures["scheduling_pss_mb_max_of"] = {
            name: round(mb, 1) for name, mb in watch.pss_mb_max_of.items()
        }

    async def _lost(self, after: str) -> int:
        """How many of the sample the server tells something wrong about, and by how
        many its own count of all differs."""
        wrong = await self._sample.wrong(self._server)
        count = await pending_count(self._server, START_TIMEOUT_S)
        if count is None:
            note = "only a sample was looked at: this server has no GET /v1/due"
            self._result.notes = [note]
            return wrong
        self._figures[f"counted_after_{after}_s"] = round(count.seconds, 2)
        expected = self._settings.count - len(self._sample.cancelled)
        return wrong + abs(expected - count.pending)

    def _note_memory(self, prefix: str, *, with_processes: bool) -> None:
        """Of the suite, of each process, and the Delay Server's share."""
        memory = MemoryWatch.now(self._server)
        for name, one in memory.of.items():
            if with_processes:
                self._result.parts[name] = one.shown()
            else:
                self._figures[f"{prefix}{name}_pss_mb"] = round(one.pss_mb, 1)
        self._figures |= memory.all.shown(prefix)
        if with_processes:
            self._result.rss_mb = round(memory.all.rss_mb, 1)
            self._result.anonymous_mb = round(memory.all.pss_anonymous_mb, 1)

    async def _note_disk(self) -> None:
        metrics = await read_metrics(self._server.host, self._server.port)
        written = total(metrics, "log_durable_position")
        written -= total(metrics, "log_start_position")
        folders = allocated_by_folder_mb(self._server.folder)
        self._figures["disk_mb"] = round(sum(folders.values()), 1)
        self._figures["disk_of_mb"] = folders
        self._figures["log_written_mb"] = round(written / 1e6, 1)

    async def _restarted(self, *, by_kill: bool) -> float:
        """Seconds from the start to /readyz."""
        if by_kill:
            self._server.kill()
        else:
            self._server.stop(STOP_TIMEOUT_S)
        began = time.perf_counter()
        self._server.start()
        await self._server.wait_ready(START_TIMEOUT_S)
        return round(time.perf_counter() - began, 2)


def pace_shown(filled: Filled) -> dict[str, Any]:
    """The rates of each tenth, and the last one's part of the first one's."""
    rates = [round(rate, 1) for rate in filled.slice_rates]
    shown: dict[str, Any] = {
        "pending_count": filled.count,
        "seconds": round(filled.seconds, 2),
        "refused_requests": filled.refused_requests,
        "tenth_per_s": {str(n): rate for n, rate in enumerate(rates, start=1)},
    }
    if rates:
        shown["last_of_first_tenth"] = round(rates[-1] / rates[0], 3)
    return shown

"""How the four benches of publishing and scheduling measure: one method for all.

Real server, closed-loop callers over HTTP from this process, then two baselines in
the same run: the disk's own ceiling, and an echo server under the same callers.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from halfpast_loadtest.bench_result import BenchResult, with_latency
from halfpast_loadtest.closed_loop import LoopConfig, LoopResult, run_closed_loop
from halfpast_loadtest.disk_ceiling import syncs_per_second
from halfpast_loadtest.http_wire import Response
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.process_tree import TreeUsage
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.server_process import ServerProcess, echo_program

RECORD_OVERHEAD_BYTES = 100  # header, key and properties of a record, about
FOUND = frozenset({200, 404})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """`mode` dev or up; `folder` where the data lies (empty: the temporary folder).

    `due`: how delayed events say when, delay_ms or deliver_at.
    """

    callers: int = 16
    seconds: float = 8.0
    warmup_s: float = 2.0
    body_bytes: int = 300
    events_per_request: int = 1
    due: str = "delay_ms"
    mode: str = "dev"
    folder: str = ""
    baseline: int = 1  # 0 leaves the baselines out


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings(WriteSettings):
    """`postgres=0` leaves out the table in PostgreSQL."""

    postgres: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the callers send. `scheduled`: due long after the run, none may appear."""

    requests: Sequence[bytes]
    count_accepted: Callable[[Response], int]
    topics: tuple[str, ...]
    scheduled: bool


async def measure_writes(name: str, settings: WriteSettings, load: Load) -> BenchResult:
    """One run of Halfpast and of both baselines."""
    result = BenchResult(bench=name, settings={})
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        server = ServerProcess(Path(folder) / "data", mode=settings.mode)
        seen = await _drive(server, settings, load, result)
        if settings.baseline:
            await _measure_baselines(Path(folder), settings, load, seen, result)
    return result


async def _drive(
    server: ServerProcess, settings: WriteSettings, load: Load, result: BenchResult
) -> LoopResult:
    usages: list[TreeUsage] = []
    async with server.running():
        seen = await run_closed_loop(
            server.host,
            server.port,
            load.requests,
            _loop_config(settings),
            events_per_request=settings.events_per_request,
            count_accepted=load.count_accepted,
            on_window=lambda: usages.append(server.usage()),
        )
        await _check_stored(server, load, seen, result)
    began, ended = usages
    result.rate_per_s = round(seen.rate_per_s, 1)
    with_latency(result, summarise(seen.latencies_ms))
    result.failed = seen.failed
    result.rss_mb = round(ended.rss_mb, 1)
    result.anonymous_mb = round(ended.anonymous_mb, 1)
    if seen.window_events:
        cpu_us = (ended.cpu_s - began.cpu_s) * 1e6
        result.server_cpu_us_per_message = round(cpu_us / seen.window_events, 2)
    return seen


async def _check_stored(
    server: ServerProcess, load: Load, seen: LoopResult, result: BenchResult
) -> None:
    """All that was acknowledged is there: all messages, or the timers of a sample."""
    client = PatientClient(server.host, server.port)
    stored = await count_messages(client, load.topics)
    if not load.scheduled:
        result.lost = max(seen.events - stored, 0)
        result.duplicates = max(stored - seen.events, 0)
    else:
        result.early = stored
        result.lost = 0
        for event_id in _ids(seen.samples):
            answer = await client.request("GET", f"/v1/events/{event_id}", want=FOUND)
            result.lost += b'"scheduled"' not in answer.body
    client.close()


async def _measure_baselines(
    folder: Path,
    settings: WriteSettings,
    load: Load,
    seen: LoopResult,
    result: BenchResult,
) -> None:
    in_flight = settings.callers * settings.events_per_request
    group_bytes = in_flight * (settings.body_bytes + RECORD_OVERHEAD_BYTES)
    ceiling = syncs_per_second(folder, group_bytes) * in_flight
    answer_bytes = len(seen.samples[0].body) if seen.samples else 100
    echo = ServerProcess(folder / "echo", program=echo_program(answer_bytes))
    async with echo.running():
        echoed = await run_closed_loop(
            echo.host,
            echo.port,
            load.requests,
            LoopConfig(callers=settings.callers, seconds=3.0, warmup_s=0.5),
            events_per_request=settings.events_per_request,
            count_accepted=lambda _: settings.events_per_request,
        )
    rate = result.rate_per_s or 0.0
    result.baseline = {
        "disk_ceiling_per_s": round(ceiling, 1),
        "echo_per_s": round(echoed.rate_per_s, 1),
        "echo_p99_ms": round(summarise(echoed.latencies_ms).p99_ms, 3),
    }
    result.ratio = {
        "of_disk_ceiling": round(rate / ceiling, 3),
        "of_echo": round(rate / echoed.rate_per_s, 3),
    }


def _loop_config(settings: WriteSettings) -> LoopConfig:
    return LoopConfig(
        callers=settings.callers, seconds=settings.seconds, warmup_s=settings.warmup_s
    )


class _Id(msgspec.Struct):
    id: str = ""
    results: list["_Id"] = []


def _ids(samples: Sequence[Response]) -> list[str]:
    """Ids in answers to single requests, and the first and last of batches."""
    ids: list[str] = []
    for answer in samples:
        packed = b"msgpack" in answer.head
        decode = msgspec.msgpack.decode if packed else msgspec.json.decode
        one = decode(answer.body, type=_Id)
        found = [one.id] if one.id else [item.id for item in one.results]
        ids += {found[0], found[-1]}
    return ids

"""Bench transaction-lanes: steady transactions while sends fill their lane.

The send lane is offered several times what the broker can take, by a process that
speaks to it directly, while 2,000 transactions per second go over HTTP. Measured
is how long commits take: with the default of four times the weight for them (`4`),
for contrast with a quarter (`1/4`), and as the baseline without the flood (`quiet`).
The latencies on top are those of the commits at the default.
"""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfpast_loadtest.bench_result import (
    BenchResult,
    figures,
    from_part,
    settings_of,
    with_latency,
)
from halfpast_loadtest.errors import BadSetting
from halfpast_loadtest.flood_process import FloodProcess
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.open_loop import OpenLoop, OpenLoopConfig, OpenLoopFigures
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.process_tree import TreeUsage
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.request_set import bodies
from halfpast_loadtest.send_flood import FloodReport
from halfpast_loadtest.server_metrics import Metrics, grown, read_metrics, total
from halfpast_loadtest.server_process import ServerProcess
from halfpast_loadtest.transaction_request import begin_request
from halfpast_loadtest.transactions import begin_figures

NAME = "transaction-lanes"
GROUP = "bench-producers"
TOPIC = "bench-transactions"
LANES = "HALFPAST_STORE_LANES_"
SEND = f"{LANES}SEND_MESSAGE_THREAD_POOL_NUMS"
END = f"{LANES}END_TRANSACTION_THREAD_POOL_NUMS"
COMMIT = 'route="/v1/transactions/{id}:commit"'
# The weights by ratio of second phases to sends; none set means the default, 4.
RATIOS: dict[str, Mapping[str, str]] = {"4": {}, "1/4": {SEND: "4", END: "1"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSettings:
    """`ratio`: 4, 1/4 or both. `flood_...`: `outstanding` appends of so many records
    at a time, one that is refused again after `pause_s`."""

    rate_per_s: int = 2000
    seconds: float = 10.0
    warmup_s: float = 4.0
    body_bytes: int = 300
    ratio: str = "both"
    flood_outstanding: int = 1500
    flood_records: int = 16
    flood_body_bytes: int = 16_000
    flood_pause_s: float = 1.0
    folder: str = ""
    baseline: int = 1  # 0 leaves out the run without a flood


DEFAULTS = LaneSettings()


async def measure(settings: LaneSettings) -> BenchResult:
    """Commit latency, rate and check-backs under a flood of sends."""
    if settings.ratio not in (*RATIOS, "both"):
        raise BadSetting("ratio", settings.ratio, (*RATIOS, "both"))
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    chosen = [*RATIOS] if settings.ratio == "both" else [settings.ratio]
    for ratio in chosen:
        result.parts[ratio] = await _measure_part(settings, RATIOS[ratio], flood=True)
    if settings.baseline:
        result.parts["quiet"] = await _measure_part(settings, {}, flood=False)
    from_part(result, chosen[0])
    if settings.baseline:
        quiet = result.parts["quiet"]
        result.baseline = {
            f"quiet_commit_{name}": quiet[name] for name in ("p50_ms", "p99_ms")
        }
        result.ratio = {
            f"of_quiet_{name.removesuffix('_ms')}": round(
                result.parts[chosen[0]][name] / quiet[name], 2
            )
            for name in ("p50_ms", "p99_ms")
        }
    return result


async def _measure_part(
    settings: LaneSettings, weights: Mapping[str, str], *, flood: bool
) -> dict[str, Any]:
    """One run on a server and a folder of its own; the flood fills disks quickly."""
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        server = ServerProcess(Path(folder) / "data", mode="up", settings=weights)
        async with server.running():
            if not flood:
                return await _run(server, settings, None)
            flooding = FloodProcess(
                f"unix:{server.folder}/run/broker.sock",
                outstanding=settings.flood_outstanding,
                records=settings.flood_records,
                body_bytes=settings.flood_body_bytes,
                pause_s=settings.flood_pause_s,
            )
            async with flooding:
                return await _run(server, settings, flooding)


async def _run(
    server: ServerProcess, settings: LaneSettings, flooding: FloodProcess | None
) -> dict[str, Any]:
    datas = bodies(settings.body_bytes, 2000)
    loop = OpenLoop(
        server.host,
        server.port,
        [begin_request(GROUP, TOPIC, data) for data in datas],
        OpenLoopConfig(
            rate_per_s=settings.rate_per_s,
            seconds=settings.seconds,
            warmup_s=settings.warmup_s,
        ),
    )
    before = await read_metrics(server.host, server.port)
    began, began_s = server.usage_by_service(), time.perf_counter()
    seen = await loop.run()
    took_s = time.perf_counter() - began_s
    ended = server.usage_by_service()
    report = await flooding.stop() if flooding is not None else None
    after = await read_metrics(server.host, server.port)
    client = PatientClient(server.host, server.port)
    stored = await count_messages(client, (TOPIC,))
    client.close()
    part = _shown(seen, stored)
    part.check_backs = grown(before, after, "checks_total")
    part.rss_mb = round(server.usage().rss_mb, 1)
    part.anonymous_mb = round(server.usage().anonymous_mb, 1)
    cpu_s = _cpu_s(began, ended)
    cpu_us = sum(cpu_s.values()) * 1e6
    part.server_cpu_us_per_message = round(cpu_us / max(seen.committed, 1), 2)
    return {
        **figures(part),
        **begin_figures(seen.begins_ms),
        "begins_refused": seen.begins_refused,
        "commits_refused": seen.commits_refused,
        "commit_mean_ms": round(sum(seen.commits_ms) / len(seen.commits_ms), 3)
        if seen.commits_ms
        else 0.0,
        "commit_mean_in_server_ms": _mean_in_server_ms(before, after),
        "unfinished": seen.unfinished,
        "cores_of": {name: round(one / took_s, 2) for name, one in cpu_s.items()},
        "send_lane_refused": grown(before, after, "lane_refused_total", 'lane="send"'),
        **({} if report is None else _flood_figures(report)),
    }


def _shown(seen: OpenLoopFigures, stored: int) -> BenchResult:
    part = BenchResult(bench="", settings={}, rate_per_s=round(seen.rate_per_s, 1))
    with_latency(part, summarise(seen.commits_ms))
    part.lost = max(seen.committed - stored, 0)
    # What had no answer in time may be committed all the same.
    part.duplicates = max(stored - seen.committed - seen.unfinished, 0)
    part.failed = seen.failed
    return part


def _flood_figures(report: FloodReport) -> dict[str, Any]:
    """The proof that the lane was full: how full, how often, and what was refused."""
    rate = report.accepted * report.records_per_append / report.seconds
    return {
        "flood_records_per_s": round(rate, 1),
        "flood_offered_of_accepted": round(report.offered_of_accepted, 2),
        "send_lane_full_share": report.lane.full_share,
        "send_lane_waiting_mb": report.lane.waiting_mb_p50,
        "send_lane_waiting_requests": report.lane.waiting_requests_p50,
        "end_lane_waiting_requests_max": report.lane.end_waiting_requests_max,
    }


def _mean_in_server_ms(before: Metrics, after: Metrics) -> float:
    """How long commits took as the API saw it, from their headers to their answers;
    what is beyond that was waiting for a processor, here or there."""
    name = "http_request_seconds"
    seconds, count = (
        total(after, f"{name}_{what}", COMMIT) - total(before, f"{name}_{what}", COMMIT)
        for what in ("sum", "count")
    )
    return round(1000 * seconds / max(count, 1), 3)


def _cpu_s(
    began: Mapping[str, TreeUsage], ended: Mapping[str, TreeUsage]
) -> dict[str, float]:
    """CPU seconds of each process of the server."""
    return {
        name: usage.cpu_s - began[name].cpu_s
        for name, usage in ended.items()
        if name in began
    }

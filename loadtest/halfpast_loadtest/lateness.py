"""Bench lateness: 5,000 events due per second for 20 s, scheduled ahead.

Lateness is measured twice: as the log shows it (stored_at - deliver_at, whole
milliseconds) and as a consumer feels it (its long poll's last byte - deliver_at).
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from halfpast_loadtest.bare_timer import durable_timer_lateness
from halfpast_loadtest.bench_result import BenchResult, settings_of, with_latency
from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.event_request import batch_body, event_body
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.long_poller import Arrival, LongPoller, PopPoller, PullPoller
from halfpast_loadtest.message import Message, now_ms, parse_popped, parse_pulled
from halfpast_loadtest.postgres_baseline import postgres_table, take_due
from halfpast_loadtest.process_tree import TreeUsage
from halfpast_loadtest.request_set import bodies, created_in_batch
from halfpast_loadtest.server_process import ServerProcess

NAME = "lateness"
TOPIC = "bench-lateness"
QUEUE_COUNT = 4
GRACE_S = 10.0
POLLER_COUNT = 1  # of PostgreSQL: on two cores a second one makes it later


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessSettings:
    """`consumer` pop (with acks) or pull; `burst` events share each due time.

    Scheduling has to be over after `lead_s` seconds, when the first event is due.
    """

    rate_per_s: int = 5000
    seconds: int = 20
    lead_s: float = 6.0
    burst: int = 1
    body_bytes: int = 300
    events_per_request: int = 500
    consumer: str = "pop"
    mode: str = "dev"
    folder: str = ""
    baseline: int = 1
    postgres: int = 1  # 0 leaves out the table in PostgreSQL


DEFAULTS = LatenessSettings()


@dataclass(slots=True)
class _Seen:
    """Every delivery, and when it came."""

    messages: list[Message] = field(default_factory=list[Message])
    arrived_late_ms: list[float] = field(default_factory=list[float])


async def measure(settings: LatenessSettings) -> BenchResult:
    """Lateness, early, lost and duplicates of a steady rate of due events."""
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        if settings.baseline:
            floor = durable_timer_lateness(Path(folder), settings.rate_per_s)
            result.baseline = {
                "bare_timer_p50_ms": floor.p50_ms,
                "bare_timer_p99_ms": floor.p99_ms,
            }
        server = ServerProcess(Path(folder) / "data", mode=settings.mode)
        async with server.running():
            await _run(server, settings, result)
    if settings.baseline and settings.postgres:
        await _add_postgres(settings, result)
    return result


async def _run(
    server: ServerProcess, settings: LatenessSettings, result: BenchResult
) -> None:
    base_ms = now_ms() + int(settings.lead_s * 1000)
    dues = due_times(base_ms, settings)
    await _schedule(server, settings, dues)
    pollers = await _start_pollers(server, settings)
    await asyncio.sleep(max(base_ms / 1000 - time.time() - 0.1, 0))
    began = server.usage()
    deadline = dues[-1] / 1000 + GRACE_S
    while sum(poller.message_count for poller in pollers) < len(dues):
        await asyncio.sleep(0.2)
        if time.time() > deadline:
            break
    await asyncio.sleep(max(dues[-1] / 1000 + 0.3 - time.time(), 0))
    ended = server.usage()
    for poller in pollers:
        await poller.stop()
    arrivals = [one for poller in pollers for one in poller.arrivals]
    _report(result, settings, dues, look(arrivals, settings.consumer))
    _report_usage(result, began, ended, len(dues))


def due_times(base_ms: int, settings: LatenessSettings) -> list[int]:
    """When each event is due: evenly spread, `burst` of them at a time."""
    count = settings.rate_per_s * settings.seconds
    return [
        base_ms + (at // settings.burst * settings.burst) * 1000 // settings.rate_per_s
        for at in range(count)
    ]


def look(arrivals: Sequence[Arrival], consumer: str) -> _Seen:
    """Decode what the pollers kept."""
    seen = _Seen()
    for at_ns, body in arrivals:
        popped = consumer == "pop"
        messages = parse_popped(body) if popped else parse_pulled(body).messages
        for message in messages:
            assert message.due_ms is not None
            seen.messages.append(message)
            seen.arrived_late_ms.append(at_ns / 1e6 - message.due_ms)
    return seen


async def _add_postgres(settings: LatenessSettings, result: BenchResult) -> None:
    """The same rows in a table, until a poller has them."""
    with postgres_table(settings.folder, result) as server:
        if server is None:
            return
        offsets = due_times(0, settings)
        taken, _ = await take_due(server, offsets, settings.body_bytes, POLLER_COUNT)
    theirs = summarise(taken.late_ms).shown("postgres_")
    ours = result.parts["arrival - deliver_at"]
    result.baseline |= theirs | {"postgres_lost": len(offsets) - len(taken.late_ms)}
    result.ratio |= {
        f"of_postgres_{name}": round(
            ours[f"{name}_ms"] / theirs[f"postgres_{name}_ms"], 2
        )
        for name in ("p50", "p99", "p999")
    }


async def _schedule(
    server: ServerProcess, settings: LatenessSettings, dues: list[int]
) -> None:
    client = WireClient(server.host, server.port)
    datas = bodies(settings.body_bytes, 1000)
    size = settings.events_per_request
    for at in range(0, len(dues), size):
        events = [
            event_body(datas[number % 1000], topic=TOPIC, due_ms=due)
            for number, due in enumerate(dues[at : at + size])
        ]
        answer = await client.request("POST", "/v1/events:batch", batch_body(events))
        if created_in_batch(answer) != len(events):
            raise RequestFailed("scheduling", answer.status, answer.body)
    client.close()
    if time.time() * 1000 > dues[0]:
        late_s = time.time() - dues[0] / 1000
        reason = b"scheduling took %.1f s longer than lead_s" % late_s
        raise RequestFailed("scheduling", 0, reason)


async def _start_pollers(
    server: ServerProcess, settings: LatenessSettings
) -> list[LongPoller]:
    pollers: list[LongPoller] = [
        PopPoller(f"{TOPIC}-group", TOPIC)
        if settings.consumer == "pop"
        else PullPoller(TOPIC, queue)
        for queue in range(QUEUE_COUNT)
    ]
    for poller in pollers:
        await poller.start(server.host, server.port)
    return pollers


def _report(
    result: BenchResult, settings: LatenessSettings, dues: list[int], seen: _Seen
) -> None:
    stored = summarise(one.stored_ms - (one.due_ms or 0) for one in seen.messages)
    arrived = summarise(seen.arrived_late_ms)
    places = {(one.queue, one.offset) for one in seen.messages}
    ids = {one.id for one in seen.messages}
    with_latency(result, stored)
    result.early = sum(one.stored_ms < (one.due_ms or 0) for one in seen.messages)
    result.early += sum(late_ms < 0 for late_ms in seen.arrived_late_ms)
    result.lost = max(len(dues) - len(ids), 0)
    result.duplicates = len(places) - len(ids)
    moments = sorted(one.stored_ms for one in seen.messages)
    if len(moments) > 1 and moments[-1] > moments[0]:
        result.rate_per_s = round(len(moments) / (moments[-1] - moments[0]) * 1000, 1)
    result.parts = {
        "stored_at - deliver_at": {**stored.shown()},
        "arrival - deliver_at": {**arrived.shown()},
    }
    if floor := result.baseline:
        result.ratio = {
            "of_bare_timer_p50": round(arrived.p50_ms / floor["bare_timer_p50_ms"], 2),
            "of_bare_timer_p99": round(arrived.p99_ms / floor["bare_timer_p99_ms"], 2),
        }
        result.baseline = {key: round(ms, 3) for key, ms in floor.items()}
    assert all(before <= after for before, after in pairwise(dues))


def _report_usage(
    result: BenchResult, began: TreeUsage, ended: TreeUsage, count: int
) -> None:
    result.rss_mb = round(ended.rss_mb, 1)
    result.anonymous_mb = round(ended.anonymous_mb, 1)
    cpu_us = (ended.cpu_s - began.cpu_s) * 1e6
    result.server_cpu_us_per_message = round(cpu_us / count, 2)

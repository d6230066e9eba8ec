"""Bench overload: three times what the server can do, and what becomes of it.

First 64 callers find out what it can do (`capacity`). Then `factor` times as many
requests come at intended times, whatever is answered (`overload`): what is accepted
must be answered in time and be in the log; the rest must be refused with 503. Meanwhile
transactions begun before are committed one by one (`commits`), and health is asked for
(`health`): those must get through.
"""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfpast_loadtest.bench_result import (
    BenchResult,
    from_part,
    settings_of,
)
from halfpast_loadtest.closed_loop import LoopConfig, LoopResult, run_closed_loop
from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.request_set import (
    batch_requests,
    bodies,
    created_in_batch,
    immediate,
    one_if_created,
    single_requests,
)
from halfpast_loadtest.server_metrics import grown, read_metrics
from halfpast_loadtest.server_process import ServerProcess
from halfpast_loadtest.steady_load import SteadyConfig, SteadyFigures, SteadyLoad
from halfpast_loadtest.transaction_request import (
    CheckTimes,
    begin_batch_request,
    begun_ids,
    commit_request,
    is_committed,
)

NAME = "overload"
TOPIC = "bench-overload"
SIDE_TOPIC = "bench-commits"
GROUP = "bench-producers"
GOAL_P99_MS = 200.0
_LATE = CheckTimes(check_after_ms=3_600_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadSettings:
    """`events_per_request` of 1 sends single events. `connections`: how many requests
    can be under way; `commits_per_s`: transactions that are committed meanwhile."""

    factor: float = 3.0
    seconds: float = 10.0
    warmup_s: float = 3.0
    callers: int = 64
    connections: int = 1000
    events_per_request: int = 20
    body_bytes: int = 300
    commits_per_s: int = 20
    mode: str = "dev"
    folder: str = ""


DEFAULTS = OverloadSettings()


@dataclass(slots=True)
class Asked:
    """What somebody saw who asks steadily, one request at a time."""

    took_ms: list[float]
    refused: int = 0


async def measure(settings: OverloadSettings) -> BenchResult:
    """Capacity, then what is accepted beyond it."""
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        server = ServerProcess(Path(folder) / "data", mode=settings.mode)
        async with server.running():
            await _measure(server, settings, result)
    from_part(result, "overload")
    if result.p99_ms and result.p99_ms > GOAL_P99_MS:
        result.notes.append(
            f"accepted requests have a p99 of {result.p99_ms:g} ms; the goal is "
            f"{GOAL_P99_MS:g} ms"
        )
    return result


async def _measure(
    server: ServerProcess, settings: OverloadSettings, result: BenchResult
) -> None:
    requests = _requests(settings)
    count = created_in_batch if settings.events_per_request > 1 else one_if_created
    commits = await _begin_transactions(server, settings)
    alone = await run_closed_loop(
        server.host,
        server.port,
        requests,
        LoopConfig(callers=settings.callers, seconds=settings.seconds / 2),
        events_per_request=settings.events_per_request,
        count_accepted=count,
    )
    result.parts["capacity"] = _capacity(alone)
    capacity = alone.rate_per_s / settings.events_per_request
    steady = SteadyLoad(
        server.host,
        server.port,
        requests,
        SteadyConfig(
            rate_per_s=capacity * settings.factor,
            seconds=settings.seconds,
            warmup_s=settings.warmup_s,
            connections=settings.connections,
        ),
        count,
    )
    before = await read_metrics(server.host, server.port)
    over = asyncio.Event()
    others = [
        asyncio.create_task(_ask(server, commits, 1 / settings.commits_per_s, over)),
        asyncio.create_task(_ask(server, None, 0.05, over)),
    ]
    try:
        seen = await steady.run()
    finally:
        over.set()
        committed, health = await asyncio.gather(*others)
    after = await read_metrics(server.host, server.port)
    stored = await _stored(server)
    overload = _overload(seen, capacity)
    overload["refused_in_server"] = grown(before, after, "http_refused_total")
    acknowledged = alone.events + seen.accepted_events
    overload["lost"] = max(acknowledged - stored, 0)
    # What had no answer in time may be stored all the same.
    unknown = seen.unanswered * settings.events_per_request
    overload["duplicates"] = max(stored - acknowledged - unknown, 0)
    overload["rss_mb"] = round(server.usage().rss_mb, 1)
    result.parts["overload"] = overload
    for name, asked in (("commits", committed), ("health", health)):
        shown = summarise(asked.took_ms)
        result.parts[name] = {
            "answered": shown.count,
            "refused": asked.refused,
            **shown.shown(),
        }


def _requests(settings: OverloadSettings) -> list[bytes]:
    size = settings.events_per_request
    datas = bodies(settings.body_bytes, max(size * 40, 400))
    if size == 1:
        return single_requests(TOPIC, datas, immediate)
    return batch_requests(TOPIC, datas, size, immediate, packed=False)


async def _begin_transactions(
    server: ServerProcess, settings: OverloadSettings
) -> list[bytes]:
    """Requests that commit transactions begun now, as many as are wanted."""
    seconds = settings.warmup_s + settings.seconds
    count = max(1, round(seconds * settings.commits_per_s))
    client = WireClient(server.host, server.port)
    found: list[bytes] = []
    try:
        datas = bodies(settings.body_bytes, count)
        for at in range(0, count, 500):
            some = datas[at : at + 500]
            answer = await client.roundtrip(
                begin_batch_request(GROUP, SIDE_TOPIC, some, _LATE)
            )
            found += [commit_request(it.encode()) for it in begun_ids(answer)]
    finally:
        client.close()
    return found


async def _ask(
    server: ServerProcess,
    requests: list[bytes] | None,
    every_s: float,
    over: asyncio.Event,
) -> Asked:
    """One request after the other, at intended times; health if none are given."""
    client = WireClient(server.host, server.port)
    asked = Asked([])
    intended = time.perf_counter()
    try:
        while not over.is_set() and requests != []:
            began = max(intended, time.perf_counter())
            if requests is None:
                answer = await client.request("GET", "/healthz")
            else:
                answer = await client.roundtrip(requests.pop())
            asked.took_ms.append((time.perf_counter() - began) * 1000)
            if answer.status == 503:
                asked.refused += 1
            elif not is_committed(answer):
                raise RequestFailed("a side request", answer.status, answer.body)
            intended += every_s
            await asyncio.sleep(max(0.0, intended - time.perf_counter()))
    finally:
        client.close()
    return asked


async def _stored(server: ServerProcess) -> int:
    client = PatientClient(server.host, server.port)
    try:
        return await count_messages(client, (TOPIC,))
    finally:
        client.close()


def _capacity(seen: LoopResult) -> dict[str, Any]:
    return {
        "rate_per_s": round(seen.rate_per_s, 1),
        **summarise(seen.latencies_ms).shown(),
        "failed": seen.failed,
    }


def _overload(seen: SteadyFigures, capacity: float) -> dict[str, Any]:
    sent_per_s = seen.sent / seen.window_s
    accepted = summarise(seen.accepted_ms)
    return {
        "rate_per_s": round(seen.window_events / seen.window_s, 1),
        **accepted.shown(),
        "refused_p99_ms": round(summarise(seen.refused_ms).p99_ms, 3),
        "offered_of_capacity": round(sent_per_s / max(capacity, 1e-9), 2),
        "accepted_requests": accepted.count,
        "refused_requests": seen.refused,
        "unsent_requests": seen.unsent,
        "failed": seen.failed,
        "unanswered": seen.unanswered,
    }

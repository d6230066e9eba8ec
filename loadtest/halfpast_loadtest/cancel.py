"""Bench cancel: delayed events cancelled one by one, then the others by a filter.

Both answers are final when they come, so afterwards the server is killed and must
still know which events were cancelled, and that those of another topic were not.
"""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from halfpast_loadtest.bench_result import (
    BenchResult,
    figures,
    from_part,
    settings_of,
    with_latency,
)
from halfpast_loadtest.catching_up import applied
from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.event_sample import EventSample
from halfpast_loadtest.fill import FillConfig, fill
from halfpast_loadtest.http_wire import Response, WireClient, request_bytes
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.one_pass import run_once
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.process_tree import TreeUsage
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.request_set import far_ahead
from halfpast_loadtest.server_process import ServerProcess

NAME = "cancel"
TOPIC = "bench-cancel"
KEPT_TOPIC = "bench-kept"
KEPT_COUNT = 1000
BULK_TIMEOUT_S = 600.0
START_TIMEOUT_S = 300.0
LOOK_S = 0.02
NOT_OFFERED = frozenset({404, 405})


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSettings:
    """`count` events are pending; `singles` of them are cancelled by `callers`, all
    others in bulk."""

    count: int = 200_000
    singles: int = 20_000
    callers: int = 16
    body_bytes: int = 300
    events_per_request: int = 500
    mode: str = "up"
    folder: str = ""


DEFAULTS = CancelSettings()


async def measure(settings: CancelSettings) -> BenchResult:
    """Cancels per second in both ways, and whether they hold."""
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        server = ServerProcess(Path(folder) / "data", mode=settings.mode)
        async with server.running():
            await _run(server, settings, result)
    from_part(result, "single")
    return result


async def _run(
    server: ServerProcess, settings: CancelSettings, result: BenchResult
) -> None:
    singles = min(settings.singles, settings.count // 2)
    sample = EventSample(TOPIC, singles, settings.count)
    kept = EventSample(KEPT_TOPIC, KEPT_COUNT, KEPT_COUNT)
    await _fill(server, settings, sample, settings.count)
    await _fill(server, settings, kept, KEPT_COUNT)
    await applied(server)
    part = await _cancel_singly(server, settings, sample.to_cancel())
    result.parts["single"] = figures(part)
    pending = settings.count - len(sample.cancelled)
    bulk = await cancel_in_bulk(server, pending)
    if bulk is None:
        result.notes.append("this server has no POST /v1/events:cancel")
    else:
        result.parts["bulk"] = bulk
        sample.cancelled += sample.kept
        sample.kept = []
    sample.kept += kept.kept
    wrong = await sample.wrong(server)
    server.kill()
    server.start()
    await server.wait_ready(START_TIMEOUT_S)
    wrong += await sample.wrong(server)
    client = PatientClient(server.host, server.port)
    early = await count_messages(client, (TOPIC, KEPT_TOPIC))
    client.close()
    result.parts["single"] |= {"early": early, "lost": wrong}


async def _fill(
    server: ServerProcess, settings: CancelSettings, sample: EventSample, count: int
) -> None:
    config = FillConfig(
        topic=sample.topic,
        count=count,
        dues=far_ahead(),
        body_bytes=settings.body_bytes,
        events_per_request=settings.events_per_request,
    )
    await fill(server, config, sample.take)


async def _cancel_singly(
    server: ServerProcess, settings: CancelSettings, ids: list[str]
) -> BenchResult:
    """Each with a request of its own."""

    def look(response: Response) -> None:
        if response.status != 200 or b'"cancelled"' not in response.body:
            raise RequestFailed("a cancel", response.status, response.body)

    requests = [request_bytes("DELETE", f"/v1/events/{it}") for it in ids]
    began = server.usage()
    seen = await run_once(
        server.host, server.port, requests, callers=settings.callers, on_answer=look
    )
    ended = server.usage()
    part = BenchResult(bench="", settings={})
    part.rate_per_s = round(seen.answered / seen.seconds, 1)
    with_latency(part, summarise(seen.latencies_ms))
    _note_usage(part, began, ended, seen.answered)
    return part


async def cancel_in_bulk(server: ServerProcess, pending: int) -> dict[str, Any] | None:
    """All that the topic still has, by one call; first without doing it.

    None if the server has no such call. Raises RequestFailed if it finds or cancels
    another number than there is.
    """
    client = WireClient(server.host, server.port, timeout_s=BULK_TIMEOUT_S)
    try:
        dry_run = await _operate(client, dry_run=True)
        if dry_run is None:
            return None
        began = server.usage()
        done = await _operate(client, dry_run=False)
        ended = server.usage()
    finally:
        client.close()
    assert done is not None
    if (dry_run.matched, done.changed) != (pending, pending):
        found = f"of {pending}, {dry_run.matched} matched, {done.changed} cancelled"
        raise RequestFailed("the bulk cancel", 0, found.encode())
    rate = done.changed / done.seconds
    part = BenchResult(bench="", settings={}, rate_per_s=round(rate, 1))
    _note_usage(part, began, ended, done.changed)
    return figures(part) | {
        "seconds": round(done.seconds, 3),
        "dry_run_s": round(dry_run.seconds, 3),
    }


async def _operate(client: WireClient, *, dry_run: bool) -> "_Operation | None":
    """The operation when it is done, with the seconds since the call."""
    began = time.perf_counter()
    body = {"topic": TOPIC, "dry_run": dry_run}
    answer = await client.request("POST", "/v1/events:cancel", body)
    if answer.status in NOT_OFFERED:
        return None
    if answer.status not in (200, 202):
        raise RequestFailed("the bulk cancel", answer.status, answer.body)
    operation = _OPERATION.decode(answer.body)
    while operation.state == "running":
        if time.perf_counter() - began > BULK_TIMEOUT_S:
            raise RequestFailed("the bulk cancel", 0, b"it takes too long")
        await asyncio.sleep(LOOK_S)
        answer = await client.request("GET", f"/v1/operations/{operation.id}")
        if answer.status != 200:
            raise RequestFailed("the operation", answer.status, answer.body)
        operation = _OPERATION.decode(answer.body)
    if operation.state != "done":
        raise RequestFailed("the bulk cancel", answer.status, answer.body)
    operation.seconds = time.perf_counter() - began
    return operation


def _note_usage(
    part: BenchResult, began: TreeUsage, ended: TreeUsage, count: int
) -> None:
    part.rss_mb = round(ended.rss_mb, 1)
    part.anonymous_mb = round(ended.anonymous_mb, 1)
    cpu_us = (ended.cpu_s - began.cpu_s) * 1e6
    part.server_cpu_us_per_message = round(cpu_us / max(count, 1), 2)


class _Operation(msgspec.Struct):
    id: str
    state: str
    matched: int = 0
    changed: int = 0
    seconds: float = 0.0


_OPERATION = msgspec.json.Decoder(_Operation)

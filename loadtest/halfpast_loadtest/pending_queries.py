"""Single look-ups, pages and cancels while everything is pending, one at a time."""

import random
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.event_sample import EventSample
from halfpast_loadtest.http_wire import Response, request_bytes
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.message import now_ms, to_rfc3339
from halfpast_loadtest.one_pass import run_once
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.server_process import ServerProcess

PAGE_SIZE = 100
DAYS_AHEAD_MS = 25 * 86_400_000


async def measure_queries(
    server: ServerProcess, sample: EventSample
) -> dict[str, dict[str, Any]]:
    """The latencies of each kind, as parts of a result. Cancels half of the sample.

    Raises RequestFailed for any answer that is not the expected one.
    """
    gets = [request_bytes("GET", f"/v1/events/{it}") for it in sample.kept]
    found = {
        "get": await _timed(server, gets, b'"scheduled"'),
        "list": await _timed(server, _windows(sample), b'"events"'),
        "list_next_page": await _timed_pages(server, sample),
    }
    cancels = [request_bytes("DELETE", f"/v1/events/{it}") for it in sample.to_cancel()]
    found["cancel"] = await _timed(server, cancels, b'"cancelled"')
    return found


def _windows(sample: EventSample) -> list[bytes]:
    """First pages from random times on."""
    chance = random.Random(2)
    base_ms = now_ms()
    times = [base_ms + chance.randrange(DAYS_AHEAD_MS) for _ in sample.kept]
    return [
        request_bytes(
            "GET",
            f"/v1/events?topic={sample.topic}&limit={PAGE_SIZE}"
            f"&due_after={to_rfc3339(time_ms)}",
        )
        for time_ms in times
    ]


async def _timed(
    server: ServerProcess, requests: Sequence[bytes], holds: bytes
) -> dict[str, Any]:
    def look(response: Response) -> None:
        if response.status != 200 or holds not in response.body:
            raise RequestFailed("a look-up", response.status, response.body)

    seen = await run_once(server.host, server.port, requests, callers=1, on_answer=look)
    return {"count": seen.answered} | summarise(seen.latencies_ms).shown()


async def _timed_pages(server: ServerProcess, sample: EventSample) -> dict[str, Any]:
    """One page after the other, by their tokens."""
    path = f"/v1/events?topic={sample.topic}&limit={PAGE_SIZE}"
    latencies_ms: list[float] = []
    client = PatientClient(server.host, server.port)
    token = ""
    for _ in sample.kept:
        began = time.perf_counter()
        answer = await client.request("GET", path + token)
        latencies_ms.append((time.perf_counter() - began) * 1000)
        next_token = msgspec.json.decode(answer.body, type=_Page).next_page_token
        if not next_token:
            break
        token = f"&page_token={next_token}"
    client.close()
    return {"count": len(latencies_ms)} | summarise(latencies_ms).shown()


class _Page(msgspec.Struct):
    next_page_token: str | None = None

"""What many open transactions cost: memory of each process, disk, time to start.

They are begun in batches with a check-back that is days away, so that nothing but
their number matters. Then the suite is stopped and started again, once asked to
with SIGTERM and once killed, and must know each of them after both.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.request_set import bodies
from halfpast_loadtest.server_metrics import read_metrics, total
from halfpast_loadtest.server_process import ServerProcess
from halfpast_loadtest.transaction_request import (
    CheckTimes,
    begin_batch_request,
    begun_ids,
)

DAYS_MS = 6 * 86_400_000
TIMES = CheckTimes(check_after_ms=DAYS_MS)
BATCH_SIZE = 1000
REQUEST_COUNT = 20  # different ones, sent in turn
START_TIMEOUT_S = 300.0
SAMPLE_COUNT = 20


class OpenFigures(msgspec.Struct, kw_only=True):
    """`lost`: open ones that the server does not know after a start, as its own count
    shows, or a sample that cannot be committed. `empty_...`: the same of a server
    that has none. Sizes in MB (10^6 bytes)."""

    open_count: int = 0
    rate_per_s: float = 0.0
    lost: int = 0
    empty_rss_mb: float = 0.0
    rss_mb: float = 0.0
    anonymous_mb: float = 0.0
    rss_of_mb: dict[str, float] = {}
    restarted_rss_mb: float = 0.0
    restarted_rss_of_mb: dict[str, float] = {}
    log_mb: float = 0.0
    index_mb: dict[str, float] = {}  # the other folders
    empty_ready_s: float = 0.0
    ready_after_sigterm_s: float = 0.0
    ready_after_sigkill_s: float = 0.0

    def shown(self) -> dict[str, Any]:
        """As a part of a BenchResult."""
        return msgspec.convert(msgspec.to_builtins(self), dict[str, Any])


async def measure_open(
    server: ServerProcess, group: str, topic: str, count: int, body_bytes: int
) -> OpenFigures:
    """Begin so many, and look at everything. Leaves the server running."""
    figures = OpenFigures()
    figures.empty_ready_s = await _restarted(server, by_kill=False)
    figures.empty_rss_mb = round(server.usage().rss_mb, 1)
    datas = bodies(body_bytes, BATCH_SIZE * min(REQUEST_COUNT, count // BATCH_SIZE + 1))
    sample = await _begin_all(server, group, topic, datas, count, figures)
    await _applied(server, count)
    _note_memory(server, figures)
    metrics = await read_metrics(server.host, server.port)
    log_bytes = total(metrics, "log_durable_position")
    log_bytes -= total(metrics, "log_start_position")
    figures.log_mb = round(log_bytes / 1e6, 1)
    figures.index_mb = _index_sizes_mb(server.folder)
    figures.ready_after_sigterm_s = await _restarted(server, by_kill=False)
    figures.lost += count - await _open_count(server)
    figures.ready_after_sigkill_s = await _restarted(server, by_kill=True)
    figures.lost += count - await _open_count(server)
    restarted = server.usage_by_service()
    figures.restarted_rss_mb = round(server.usage().rss_mb, 1)
    figures.restarted_rss_of_mb = {
        name: round(usage.rss_mb, 1) for name, usage in restarted.items()
    }
    figures.lost += await _not_committed(server, sample)
    return figures


async def _begin_all(
    server: ServerProcess,
    group: str,
    topic: str,
    datas: list[bytes],
    count: int,
    figures: OpenFigures,
) -> list[str]:
    """Begin them, and give the ids of some."""
    requests = [
        begin_batch_request(group, topic, datas[at : at + BATCH_SIZE], TIMES)
        for at in range(0, len(datas) - BATCH_SIZE + 1, BATCH_SIZE)
    ]
    sample: list[str] = []
    began = time.perf_counter()
    clients = [WireClient(server.host, server.port) for _ in range(2)]
    left = count

    async def send(client: WireClient) -> None:
        nonlocal left
        while left > 0:
            size = min(BATCH_SIZE, left)
            left -= size
            request = requests[(left // BATCH_SIZE) % len(requests)]
            if size < BATCH_SIZE:
                request = begin_batch_request(group, topic, datas[:size], TIMES)
            ids = begun_ids(await client.roundtrip(request))
            figures.open_count += len(ids)
            if len(sample) < SAMPLE_COUNT:
                sample.append(ids[0])

    await asyncio.gather(*(send(client) for client in clients))
    figures.rate_per_s = round(count / (time.perf_counter() - began), 1)
    for client in clients:
        client.close()
    return sample


async def _applied(server: ServerProcess, count: int) -> None:
    """Wait until the transaction service has seen them all, and flushed its index."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while await _open_count(server) < count:
        if time.monotonic() > deadline:
            raise RequestFailed("following the log", 0, b"it did not catch up")
        await asyncio.sleep(0.2)
    await asyncio.sleep(6)  # the time between two flushes of the index, and more


async def _open_count(server: ServerProcess) -> int:
    metrics = await read_metrics(server.host, server.port)
    return round(total(metrics, "transactions_open"))


async def _restarted(server: ServerProcess, *, by_kill: bool) -> float:
    """Seconds from the start to /readyz."""
    if by_kill:
        server.kill()
    else:
        server.stop(timeout_s=60)
    began = time.perf_counter()
    server.start()
    await server.wait_ready(START_TIMEOUT_S)
    return round(time.perf_counter() - began, 2)


async def _not_committed(server: ServerProcess, sample: list[str]) -> int:
    """How many of these cannot be committed."""
    client = PatientClient(server.host, server.port)
    lost = 0
    for one in sample:
        path = f"/v1/transactions/{one}:commit"
        try:
            await client.request("POST", path)
        except RequestFailed:
            lost += 1
    client.close()
    return lost


def _note_memory(server: ServerProcess, figures: OpenFigures) -> None:
    by_service = server.usage_by_service()
    figures.rss_of_mb = {
        name: round(usage.rss_mb, 1) for name, usage in by_service.items()
    }
    usage = server.usage()
    figures.rss_mb = round(usage.rss_mb, 1)
    figures.anonymous_mb = round(usage.anonymous_mb, 1)


def _index_sizes_mb(data: Path) -> dict[str, float]:
    """The folders beside the log, which holds room for more than there is."""
    found: dict[str, float] = {}
    for folder in sorted(data.iterdir()):
        if folder.is_dir() and folder.name not in ("log", "run"):
            found[folder.name] = round(_size_mb(folder), 1)
    return found


def _size_mb(folder: Path) -> float:
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(os.path.join(path, name)).st_size
            except FileNotFoundError:  # compacted away meanwhile
                continue
    return size / 1e6

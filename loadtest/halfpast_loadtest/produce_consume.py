"""Bench produce-consume: batches in, pop and ack out, both at the same time.

Producers stay at most `window` messages ahead of the consumers, so the rate is
that of the whole way and the log does not fill up.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from halfpast_loadtest.bench_result import BenchResult, settings_of, with_latency
from halfpast_loadtest.closed_loop import LoopConfig, run_closed_loop
from halfpast_loadtest.disk_ceiling import syncs_per_second
from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import WireClient, request_bytes
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.long_poller import PopPoller
from halfpast_loadtest.message import parse_popped
from halfpast_loadtest.request_set import (
    batch_requests,
    bodies,
    created_in_batch,
    immediate,
)
from halfpast_loadtest.server_process import ServerProcess, echo_program
from halfpast_loadtest.write_bench import RECORD_OVERHEAD_BYTES

NAME = "produce-consume"
TOPIC = "bench-produce"
GRACE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceConsumeSettings:
    """`format` of the batches in: json or msgpack. Answers to pop are JSON."""

    count: int = 500_000
    producers: int = 2
    consumers: int = 2
    events_per_request: int = 500
    body_bytes: int = 300
    window: int = 20_000
    format: str = "json"
    mode: str = "dev"
    folder: str = ""
    baseline: int = 1


DEFAULTS = ProduceConsumeSettings()


async def measure(settings: ProduceConsumeSettings) -> BenchResult:
    """Messages per second from publish to confirmed ack."""
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        server = ServerProcess(Path(folder) / "data", mode=settings.mode)
        async with server.running():
            answer_bytes = await _run(server, settings, result)
        if settings.baseline:
            await _measure_baselines(Path(folder), settings, answer_bytes, result)
    return result


async def _run(
    server: ServerProcess, settings: ProduceConsumeSettings, result: BenchResult
) -> int:
    """One run; the mean size of a pop's answer per message of it."""
    requests = _requests(settings)
    pollers = [PopPoller("bench-group", TOPIC) for _ in range(settings.consumers)]
    before = server.usage()
    began = time.perf_counter()
    gate = _Gate(settings, pollers)
    for poller in pollers:
        await poller.start(server.host, server.port)
    async with asyncio.TaskGroup() as tasks:
        for at in range(settings.producers):
            client = WireClient(server.host, server.port)
            tasks.create_task(
                _produce(client, requests[at :: settings.producers], gate)
            )
    deadline = time.monotonic() + GRACE_S
    while sum(poller.acked_count for poller in pollers) < gate.produced:
        await asyncio.sleep(0.005)
        if time.monotonic() > deadline:
            break
    seconds = time.perf_counter() - began
    after = server.usage()
    for poller in pollers:
        await poller.stop()
    acked = sum(poller.acked_count for poller in pollers)
    result.rate_per_s = round(acked / seconds, 1)
    result.rss_mb = round(after.rss_mb, 1)
    result.anonymous_mb = round(after.anonymous_mb, 1)
    cpu_us = (after.cpu_s - before.cpu_s) * 1e6
    result.server_cpu_us_per_message = round(cpu_us / max(acked, 1), 2)
    return _check(pollers, gate.produced, result)


def _check(pollers: Sequence[PopPoller], produced: int, result: BenchResult) -> int:
    ids: set[str] = set()
    places: set[tuple[int, int]] = set()
    took_ms: list[float] = []
    size = 0
    for arrival in (one for poller in pollers for one in poller.arrivals):
        size += len(arrival.body)
        for message in parse_popped(arrival.body):
            ids.add(message.id)
            places.add((message.queue, message.offset))
            took_ms.append(arrival.at_ns / 1e6 - message.stored_ms)
    with_latency(result, summarise(took_ms))
    result.lost = max(produced - len(ids), 0)
    result.duplicates = len(places) - len(ids)
    return size // max(len(took_ms), 1)


class _Gate:
    """Lets producers on while the consumers are not too far behind."""

    def __init__(
        self, settings: ProduceConsumeSettings, pollers: Sequence[PopPoller]
    ) -> None:
        self._settings = settings
        self._pollers = pollers
        self.produced = 0
        self.promised = 0

    async def pass_one(self) -> bool:
        """Wait for room; False when enough has been produced."""
        size = self._settings.events_per_request
        if self.promised + size > self._settings.count:
            return False
        self.promised += size
        while True:  # a poll: nobody else here knows when room comes
            if self.produced - self._consumed() <= self._settings.window:
                return True
            await asyncio.sleep(0.0005)

    def _consumed(self) -> int:
        return sum(poller.message_count for poller in self._pollers)


async def _produce(client: WireClient, requests: list[bytes], gate: _Gate) -> None:
    at = 0
    while await gate.pass_one():
        answer = await client.roundtrip(requests[at % len(requests)])
        accepted = created_in_batch(answer)
        if not accepted:
            raise RequestFailed("a batch", answer.status, answer.body)
        gate.produced += accepted
        at += 1
    client.close()


def _requests(settings: ProduceConsumeSettings) -> list[bytes]:
    size = settings.events_per_request
    datas = bodies(settings.body_bytes, size * 20)
    packed = settings.format == "msgpack"
    return batch_requests(TOPIC, datas, size, immediate, packed=packed)


async def _measure_baselines(
    folder: Path,
    settings: ProduceConsumeSettings,
    answer_bytes: int,
    result: BenchResult,
) -> None:
    """The disk alone, and an echo server that takes batches and gives as much back.

    Per batch the echo server gets the batch and a pop that it answers with a
    batch's worth of bytes; acks are left out, in its favour.
    """
    size = settings.events_per_request
    group_bytes = (
        settings.producers * size * (settings.body_bytes + RECORD_OVERHEAD_BYTES)
    )
    ceiling = syncs_per_second(folder, group_bytes) * settings.producers * size
    echo = ServerProcess(
        folder / "echo", program=echo_program(answer_bytes * size // 2)
    )
    pop = request_bytes("POST", "/v1/groups/bench-group:pop", b'{"topic":"bench"}')
    requests = [one for batch in _requests(settings) for one in (batch, pop)]
    async with echo.running():
        echoed = await run_closed_loop(
            echo.host,
            echo.port,
            requests,
            LoopConfig(callers=settings.producers, seconds=3.0, warmup_s=0.5),
            events_per_request=size,
            count_accepted=lambda _: size,
        )
    echo_rate = echoed.rate_per_s / 2  # every other request was a pop
    rate = result.rate_per_s or 0.0
    result.baseline = {
        "disk_ceiling_per_s": round(ceiling, 1),
        "echo_per_s": round(echo_rate, 1),
    }
    result.ratio = {
        "of_disk_ceiling": round(rate / ceiling, 3),
        "of_echo": round(rate / echo_rate, 3),
    }

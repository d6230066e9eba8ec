"""Bench rocketmq: RocketMQ's own Python client, with 8 threads and with `send_async`.

The baseline is the same client against a server that keeps nothing, in the same run:
more than that this client cannot send. Ours stores every message durably.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
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
from halfpast_loadtest.errors import BadSetting, ClientFailed
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.process_tree import TreeUsage, usage_of
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.rocketmq_client import client_environment, client_python
from halfpast_loadtest.server_process import HOST, ServerProcess, free_port

NAME = "rocketmq"
TOPIC = "bench-rocketmq"
_HERE = Path(__file__).parent
_LINE_SIZE_MAX = 64 * 1024 * 1024
_READY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketmqSettings:
    """`threads` that send one after the other, then `in_flight` asynchronous sends.

    `through`: threads, async or both.
    """

    threads: int = 8
    in_flight: int = 200
    through: str = "both"
    seconds: float = 8.0
    warmup_s: float = 2.0
    body_bytes: int = 100
    mode: str = "dev"
    folder: str = ""
    baseline: int = 1  # 0 leaves the stub out


DEFAULTS = RocketmqSettings()


class Seen(msgspec.Struct):
    """What the client saw. `acknowledged` with that of warming up."""

    acknowledged: int
    failed: int
    errors: list[str]
    window_s: float
    cpu_s: float
    latencies_ms: list[float]

    @property
    def rate_per_s(self) -> float:
        return len(self.latencies_ms) / self.window_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """How the client's programs are run."""

    python: Path
    environment: dict[str, str]

    async def start(self, program: str, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self.python,
            _HERE / program,
            *words,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE_SIZE_MAX,
        )


async def measure(settings: RocketmqSettings) -> BenchResult:
    """Messages per second, latency, CPU on both sides, beside the client's ceiling."""
    ways = {"threads": 0, "async": settings.in_flight}
    if settings.through not in (*ways, "both"):
        raise BadSetting("through", settings.through, (*ways, "both"))
    chosen = [*ways] if settings.through == "both" else [settings.through]
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    python = await asyncio.to_thread(client_python)
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        home = Path(folder) / "home"
        home.mkdir()
        client = _Client(python=python, environment=client_environment(home))
        for way in chosen:
            part = await _measure_ours(Path(folder) / way, client, settings, ways[way])
            if settings.baseline:
                await _measure_stub(client, settings, ways[way], part)
            result.parts[way] = figures(part)
    from_part(result, chosen[0])
    return result


async def _measure_ours(
    folder: Path, client: _Client, settings: RocketmqSettings, in_flight: int
) -> BenchResult:
    port = free_port()
    options = ("--grpc", f"{HOST}:{port}")
    server = ServerProcess(folder, mode=settings.mode, options=options)
    usages: list[TreeUsage] = []
    async with server.running():
        http = PatientClient(server.host, server.port)
        settings_sent = json.dumps({"queues": 4}).encode()
        await http.request("PUT", f"/v1/topics/{TOPIC}", settings_sent)
        seen = await _drive(
            client, port, settings, in_flight, lambda: usages.append(server.usage())
        )
        stored = await count_messages(http, (TOPIC,))
        http.close()
    began, ended = usages
    part = _part(seen)
    part.lost = max(seen.acknowledged - stored, 0)
    part.duplicates = max(stored - seen.acknowledged - seen.failed, 0)
    part.rss_mb = round(ended.rss_mb, 1)
    part.anonymous_mb = round(ended.anonymous_mb, 1)
    cpu_us = (ended.cpu_s - began.cpu_s) * 1e6
    part.server_cpu_us_per_message = round(cpu_us / max(len(seen.latencies_ms), 1), 2)
    return part


async def _measure_stub(
    client: _Client, settings: RocketmqSettings, in_flight: int, part: BenchResult
) -> None:
    usages: list[TreeUsage] = []
    async with _stub(client) as (port, pid):
        seen = await _drive(
            client, port, settings, in_flight, lambda: usages.append(usage_of([pid]))
        )
    began, ended = usages
    cpu_us = (ended.cpu_s - began.cpu_s) * 1e6
    latency = summarise(seen.latencies_ms)
    part.baseline = {
        "stub_per_s": round(seen.rate_per_s, 1),
        "stub_cpu_us_per_message": round(cpu_us / len(seen.latencies_ms), 2),
        "stub_p50_ms": round(latency.p50_ms, 3),
        "stub_p99_ms": round(latency.p99_ms, 3),
    }
    ours = part.rate_per_s or 0.0
    part.ratio = {"of_stub": round(ours / max(seen.rate_per_s, 1e-9), 3)}


@asynccontextmanager
async def _stub(client: _Client) -> AsyncGenerator[tuple[int, int]]:
    """The port of a server that keeps nothing, and its process."""
    port = free_port()
    process = await client.start("rocketmq_stub.py", str(port))
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_READY_S):
            line = await process.stdout.readline()
        if line.strip() != b"ready":
            raise ClientFailed("the stub did not start")
        yield port, process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _drive(
    client: _Client,
    port: int,
    settings: RocketmqSettings,
    in_flight: int,
    on_window: Callable[[], None],
) -> Seen:
    """One run of the client. Raises ClientFailed."""
    wanted: dict[str, Any] = {
        "endpoints": f"{HOST}:{port}",
        "topic": TOPIC,
        "threads": settings.threads,
        "in_flight": in_flight,
        "seconds": settings.seconds,
        "warmup_s": settings.warmup_s,
        "size": settings.body_bytes,
    }
    process = await client.start("rocketmq_sender.py", json.dumps(wanted))
    assert process.stdout is not None
    try:
        async with asyncio.timeout(settings.seconds + settings.warmup_s + 120):
            for _ in ("begins", "ends"):
                line = await process.stdout.readline()
                if b"window" not in line:
                    raise ClientFailed(f"it ended with {await process.wait()}")
                on_window()
            line = await process.stdout.readline()
        seen = msgspec.json.decode(line, type=Seen)
    except (TimeoutError, msgspec.DecodeError) as error:
        raise ClientFailed(repr(error)) from None
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    if not seen.latencies_ms:
        raise ClientFailed(f"nothing was acknowledged: {seen.errors}")
    return seen


def _part(seen: Seen) -> BenchResult:
    part = BenchResult(bench="", settings={}, rate_per_s=round(seen.rate_per_s, 1))
    with_latency(part, summarise(seen.latencies_ms))
    part.failed = seen.failed
    client_us = seen.cpu_s * 1e6 / len(seen.latencies_ms)
    part.client_cpu_us_per_message = round(client_us, 2)
    return part

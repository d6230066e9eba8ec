"""Bench transactions: begin and commit, each durable; plain HTTP, and the SDK.

With `open=1000000` it measures something else: what so many open transactions cost.
The latencies on top and in the parts are those of the commit; `begin_...` are those
of the first phase.
"""

import tempfile
from collections.abc import Awaitable, Callable, Iterable
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
from halfpast_loadtest.closed_loop import LoopConfig
from halfpast_loadtest.disk_ceiling import syncs_per_second
from halfpast_loadtest.errors import BadSetting
from halfpast_loadtest.http_wire import Response
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.open_transactions import measure_open
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.process_tree import TreeUsage
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.request_set import bodies
from halfpast_loadtest.sdk_transactions import run_sdk_transactions
from halfpast_loadtest.server_metrics import grown, read_metrics
from halfpast_loadtest.server_process import ServerProcess, echo_program
from halfpast_loadtest.transaction_loop import (
    Answers,
    TransactionFigures,
    run_transactions,
)
from halfpast_loadtest.transaction_request import begin_request
from halfpast_loadtest.write_bench import RECORD_OVERHEAD_BYTES

NAME = "transactions"
GROUP = "bench-producers"
TOPIC = "bench-transactions"
ANY_ID = b"00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """`callers` producers over plain HTTP, `in_flight` transactions through the SDK.

    `through`: http, sdk or both. `open`: begin so many and leave them open instead.
    """

    callers: int = 16
    in_flight: int = 256
    through: str = "both"
    seconds: float = 8.0
    warmup_s: float = 2.0
    body_bytes: int = 300
    open: int = 0
    mode: str = "dev"
    folder: str = ""
    baseline: int = 1  # 0 leaves the baselines out


DEFAULTS = TransactionSettings()
Drive = Callable[[ServerProcess, Callable[[], None]], Awaitable[TransactionFigures]]


async def measure(settings: TransactionSettings) -> BenchResult:
    """Transactions per second, latency of both phases, check-backs, CPU."""
    result = BenchResult(bench=NAME, settings=settings_of(settings))
    where = settings.folder or None
    with tempfile.TemporaryDirectory(prefix="halfpast-bench-", dir=where) as folder:
        if settings.open:
            await _measure_open(Path(folder), settings, result)
            return result
        datas = bodies(settings.body_bytes, 2000)
        answer_bytes = 0
        for name, drive in _drives(settings, datas).items():
            server = ServerProcess(Path(folder) / name, mode=settings.mode)
            seen = await _measure_part(server, name, drive, result)
            answer_bytes = seen.answer_bytes or answer_bytes
        if settings.baseline:
            await _measure_baselines(
                Path(folder), settings, datas, answer_bytes, result
            )
    from_part(result, next(iter(result.parts)))
    return result


def _drives(settings: TransactionSettings, datas: list[bytes]) -> dict[str, Drive]:
    """How transactions are made, by the name of the part."""

    def by_http(
        server: ServerProcess, on_window: Callable[[], None]
    ) -> Awaitable[TransactionFigures]:
        begins = [begin_request(GROUP, TOPIC, data) for data in datas]
        config = _loop_config(settings, settings.callers)
        return run_transactions(
            server.host, server.port, begins, config, on_window=on_window
        )

    def by_sdk(
        server: ServerProcess, on_window: Callable[[], None]
    ) -> Awaitable[TransactionFigures]:
        config = _loop_config(settings, settings.in_flight)
        return run_sdk_transactions(
            server.address, GROUP, TOPIC, datas, config, on_window=on_window
        )

    drives: dict[str, Drive] = {"http": by_http, "sdk": by_sdk}
    if settings.through not in (*drives, "both"):
        raise BadSetting("through", settings.through, (*drives, "both"))
    chosen = [*drives] if settings.through == "both" else [settings.through]
    return {name: drives[name] for name in chosen}


async def _measure_part(
    server: ServerProcess, name: str, drive: Drive, result: BenchResult
) -> TransactionFigures:
    """One run on a server of its own, as one part of the result."""
    usages: list[TreeUsage] = []
    async with server.running():
        before = await read_metrics(server.host, server.port)
        seen = await drive(server, lambda: usages.append(server.usage()))
        after = await read_metrics(server.host, server.port)
        client = PatientClient(server.host, server.port)
        stored = await count_messages(client, (TOPIC,))
        client.close()
    began, ended = usages
    part = BenchResult(bench="", settings={}, rate_per_s=round(seen.rate_per_s, 1))
    with_latency(part, summarise(seen.commits_ms))
    part.check_backs = grown(before, after, "checks_total")
    part.lost = max(seen.committed - stored, 0)
    part.duplicates = max(stored - seen.committed, 0)
    part.failed = seen.failed
    part.rss_mb = round(ended.rss_mb, 1)
    part.anonymous_mb = round(ended.anonymous_mb, 1)
    cpu_us = (ended.cpu_s - began.cpu_s) * 1e6
    part.server_cpu_us_per_message = round(cpu_us / max(seen.window_committed, 1), 2)
    client_cpu_us = seen.window_cpu_s * 1e6 / max(seen.window_committed, 1)
    result.parts[name] = {
        **figures(part),
        **begin_figures(seen.begins_ms),
        "client_cpu_us_per_message": round(client_cpu_us, 2),
    }
    return seen


def begin_figures(values_ms: Iterable[float]) -> dict[str, Any]:
    """Latency of the first phase, as it stands beside that of the second one."""
    begins = BenchResult(bench="", settings={})
    with_latency(begins, summarise(values_ms))
    return {f"begin_{name}": value for name, value in figures(begins).items()}


async def _measure_open(
    folder: Path, settings: TransactionSettings, result: BenchResult
) -> None:
    server = ServerProcess(folder / "data", mode=settings.mode)
    async with server.running():
        found = await measure_open(
            server, GROUP, TOPIC, settings.open, settings.body_bytes
        )
    result.lost = found.lost
    result.rss_mb = found.rss_mb
    result.anonymous_mb = found.anonymous_mb
    result.parts["open"] = found.shown()


async def _measure_baselines(
    folder: Path,
    settings: TransactionSettings,
    datas: list[bytes],
    answer_bytes: int,
    result: BenchResult,
) -> None:
    """The disk alone, and an echo server that answers both requests of each.

    At best every sync brings all that is in flight one phase further, so it takes
    two to finish so many transactions.
    """
    ceilings = {
        name: _disk_ceiling(folder, in_flight, settings)
        for name, in_flight in (
            ("http", settings.callers),
            ("sdk", settings.in_flight),
        )
        if name in result.parts
    }
    echo = ServerProcess(folder / "echo", program=echo_program(answer_bytes or 300))
    async with echo.running():
        echoed = await run_transactions(
            echo.host,
            echo.port,
            [begin_request(GROUP, TOPIC, data) for data in datas],
            LoopConfig(callers=settings.callers, seconds=3.0, warmup_s=0.5),
            answers=Answers(find_id=_any_id, is_committed=_any_answer),
        )
    for name, ceiling in ceilings.items():
        part = result.parts[name]
        part["baseline"] = {
            "disk_ceiling_per_s": round(ceiling, 1),
            "echo_per_s": round(echoed.rate_per_s, 1),
        }
        part["ratio"] = {
            "of_disk_ceiling": round(part["rate_per_s"] / ceiling, 3),
            "of_echo": round(part["rate_per_s"] / echoed.rate_per_s, 3),
        }


def _disk_ceiling(folder: Path, in_flight: int, settings: TransactionSettings) -> float:
    record_bytes = settings.body_bytes + RECORD_OVERHEAD_BYTES
    begin_bytes = record_bytes + RECORD_OVERHEAD_BYTES  # the transaction's own record
    commit_bytes = record_bytes + RECORD_OVERHEAD_BYTES  # the outcome's
    group_bytes = in_flight * (begin_bytes + commit_bytes) // 2
    return syncs_per_second(folder, group_bytes) * in_flight / 2


def _any_id(_: Response) -> bytes:
    return ANY_ID


def _any_answer(_: Response) -> bool:
    return True


def _loop_config(settings: TransactionSettings, callers: int) -> LoopConfig:
    return LoopConfig(
        callers=callers, seconds=settings.seconds, warmup_s=settings.warmup_s
    )

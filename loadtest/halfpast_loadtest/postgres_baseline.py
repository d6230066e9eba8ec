"""What a table in PostgreSQL does, in the same run and on the same disk.

The server is installed and started for the bench, and syncs every commit. Where it
cannot be had, the result says so in its notes.
"""

import asyncio
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfpast_loadtest.bench_result import BenchResult
from halfpast_loadtest.closed_loop import LoopConfig
from halfpast_loadtest.errors import PostgresUnavailable
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.postgres_process import (
    PostgresServer,
    find_binaries,
    postgres_running,
)
from halfpast_loadtest.process_tree import TreeUsage
from halfpast_loadtest.request_set import bodies, far_ahead
from halfpast_loadtest.write_bench import ScheduleSettings

if TYPE_CHECKING:  # needs psycopg, which is an extra
    from halfpast_loadtest.postgres_queue import Taken

SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
}
VALUES_MAX = 20_000  # rows made beforehand
INSERT_PER_S = 40_000  # certainly faster than this, so that rows are in before due
GRACE_MS = 10_000.0


@contextmanager
def postgres_table(
    folder: str, result: BenchResult
) -> Generator[PostgresServer | None]:
    """A server with the empty table; None where there is none, which is noted."""
    with ExitStack() as stack:
        try:
            server = _started(stack, Path(folder) if folder else None)
        except PostgresUnavailable as unavailable:
            result.notes.append(f"without its baseline: {unavailable}")
            yield None
            return
        yield server


def _started(stack: ExitStack, where: Path | None) -> PostgresServer:
    if find_binaries() is None:
        print("installing PostgreSQL for the baseline", file=sys.stderr)
    server = stack.enter_context(postgres_running(where, SETTINGS))
    server.start()
    from halfpast_loadtest.postgres_queue import TABLE

    with server.connect() as connection:
        for statement in TABLE:
            connection.execute(statement.encode())
    return server


async def add_insert_rate(
    result: BenchResult, settings: ScheduleSettings, parts: Sequence[str] = ()
) -> None:
    """Rows of `events_per_request` in a statement by as many callers, for the same
    time; beside the result, or beside these parts of it."""
    with postgres_table(settings.folder, result) as server:
        if server is None:
            return
        found = await _insert_rate(server, settings)
    targets: list[dict[str, Any]] = [result.parts[name] for name in parts]
    for target in targets:
        target["baseline"] = target.get("baseline", {}) | found
        ratio = round(target["rate_per_s"] / found["postgres_per_s"], 3)
        target["ratio"] = target.get("ratio", {}) | {"of_postgres": ratio}
    result.baseline |= found
    ratio = round((result.rate_per_s or 0.0) / found["postgres_per_s"], 3)
    result.ratio |= {"of_postgres": ratio}


async def _insert_rate(
    server: PostgresServer, settings: ScheduleSettings
) -> dict[str, float]:
    from halfpast_loadtest import postgres_queue

    size = settings.events_per_request
    datas = bodies(settings.body_bytes, max(min(VALUES_MAX, size * 40), 2000))
    next_due = far_ahead("deliver_at")
    dues = [next_due().due_ms or 0 for _ in datas]
    if size == 1:
        statement = postgres_queue.INSERT_ONE
        values = [postgres_queue.one_row(*row) for row in zip(dues, datas, strict=True)]
    else:
        statement = postgres_queue.INSERT_MANY
        values = [
            postgres_queue.many_rows(dues[at : at + size], datas[at : at + size])
            for at in range(0, len(datas) - size + 1, size)
        ]
    config = LoopConfig(
        callers=settings.callers, seconds=settings.seconds, warmup_s=settings.warmup_s
    )
    usages: list[TreeUsage] = []
    seen = await postgres_queue.run_inserts(
        server.url, statement, values, config, lambda: usages.append(server.usage())
    )
    began, ended = usages
    latency = summarise(seen.latencies_ms)
    cpu_us = (ended.cpu_s - began.cpu_s) * 1e6 / max(seen.window_events, 1)
    return {
        "postgres_per_s": round(seen.rate_per_s, 1),
        "postgres_p50_ms": round(latency.p50_ms, 3),
        "postgres_p99_ms": round(latency.p99_ms, 3),
        "postgres_cpu_us_per_row": round(cpu_us, 2),
    }


async def take_due(
    server: PostgresServer, due_offsets_ms: Sequence[int], body_bytes: int, pollers: int
) -> tuple["Taken", float]:
    """Insert rows that come due at these times from a base on, and take them then.

    What was taken, and that base (epoch ms).
    """
    from halfpast_loadtest import postgres_queue

    datas = bodies(body_bytes, 1000)
    lead_ms = 1500 + len(due_offsets_ms) * 1000 // INSERT_PER_S
    while True:
        base_ms = now_ms() + lead_ms
        dues = [base_ms + offset for offset in due_offsets_ms]
        await postgres_queue.insert_all(server.url, dues, datas)
        with server.connect() as connection:
            connection.execute("VACUUM ANALYZE delayed")
            connection.execute("CHECKPOINT")
            spare_ms = base_ms - now_ms()
            if spare_ms > 0:
                break
            lead_ms *= 2
            connection.execute("TRUNCATE delayed")
    await asyncio.sleep(max(spare_ms - 200, 0) / 1000)
    until_ms = dues[-1] + GRACE_MS + len(dues) * 1000 / INSERT_PER_S * 4
    taken = await postgres_queue.take_all(server.url, len(dues), until_ms, pollers)
    return taken, float(base_ms)

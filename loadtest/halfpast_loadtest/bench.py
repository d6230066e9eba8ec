"""`halfpast bench`: the benchmarks by name, each against a real server of its own.

    python -m halfpast_loadtest.bench --list
    python -m halfpast_loadtest.bench publish-single --json seconds=4 callers=32

Each runs its own server on a temporary folder and drives it over HTTP from this
process.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop
from rich.console import Console

from halfpast_loadtest import (
    audit_bench,
    burst,
    cancel,
    lateness,
    overload,
    pending,
    produce_consume,
    publish_batch,
    publish_single,
    rocketmq_bench,
    schedule_batch,
    schedule_single,
    transaction_lanes,
    transactions,
)
from halfpast_loadtest.bench_result import BenchResult, print_table, to_line
from halfpast_loadtest.bench_settings import changed
from halfpast_loadtest.errors import BadSetting, LoadtestError, UnknownBench

STOPPED = 128 + signal.SIGTERM


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A benchmark: what it is called, what it shows, how it is run."""

    name: str
    summary: str
    defaults: Any
    measure: Callable[[Any], Awaitable[BenchResult]]


BENCHES = tuple(
    Bench(
        name=module.NAME,
        summary=(module.__doc__ or "").splitlines()[0].partition(": ")[2],
        defaults=module.DEFAULTS,
        measure=module.measure,
    )
    for module in (
        publish_single,
        publish_batch,
        schedule_single,
        schedule_batch,
        lateness,
        pending,
        burst,
        cancel,
        produce_consume,
        transactions,
        transaction_lanes,
        overload,
        rocketmq_bench,
        audit_bench,
    )
)


def find(name: str) -> Bench:
    """The benchmark of this name. Raises UnknownBench."""
    for bench in BENCHES:
        if bench.name == name:
            return bench
    raise UnknownBench(name, tuple(bench.name for bench in BENCHES))


def names() -> dict[str, str]:
    """Every benchmark with what it measures."""
    return {bench.name: bench.summary for bench in BENCHES}


def measure(name: str, settings: Mapping[str, str] | None = None) -> BenchResult:
    """Run one benchmark. Raises LoadtestError, or CancelledError after a SIGTERM or
    SIGHUP: its servers are gone then, and so are their files."""
    bench = find(name)
    wanted = changed(bench.defaults, settings or {})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measured(bench, wanted))


def run(
    name: str, json: bool = False, settings: Mapping[str, str] | None = None
) -> int:
    """Run one benchmark and print it; the exit status.

    With `json` one JSON object on one line, else a table. Status 2 for a wrong
    name or setting, 1 if it could not be measured or a promise was broken, 143 if it
    was told to stop.
    """
    try:
        result = measure(name, settings)
    except asyncio.CancelledError:
        print("stopped", file=sys.stderr)
        return STOPPED
    except LoadtestError as error:
        notes: list[str] = getattr(error, "__notes__", [])
        print(f"error: {error}", *notes, sep="\n", file=sys.stderr)
        return 2 if isinstance(error, UnknownBench | BadSetting) else 1
    if json:
        print(to_line(result), flush=True)
    else:
        print_table(result, Console())
    return 1 if result.early or result.lost or result.duplicates else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: a name, --json, --list, and settings as name=value."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = {word for word in words if word.startswith("-")}
    texts = [word for word in words if "=" in word and word not in options]
    plain = [word for word in words if word not in options and word not in texts]
    if "--list" in options:
        for name, summary in names().items():
            print(f"{name:18} {summary}")
        return 0
    if len(plain) != 1 or options - {"--json"}:
        print(
            "usage: bench NAME [--json] [setting=value ...] | --list", file=sys.stderr
        )
        return 2
    pairs = (text.partition("=") for text in texts)
    settings = {name: value for name, _, value in pairs}
    return run(plain[0], "--json" in options, settings)


async def _measured(bench: Bench, settings: Any) -> BenchResult:
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await bench.measure(settings)


if __name__ == "__main__":
    sys.exit(main())

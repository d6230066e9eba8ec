"""The audits through `spark-submit`, where nothing but this zip and Spark is there.

    spark-submit --master spark://host:7077 --py-files halfpast-audit.zip \\
        halfpast_audit.py run --store /data --database postgresql://… --window-ms 300000

The same jobs as `halfpast audit`, with plain options; times are epoch ms. Exit status 0
if the results are written, 1 if they are not, 2 for wrong options.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from halfpast_core_store.errors import StoreError

from .errors import AuditError
from .job_config import GRACE_MS, WINDOW_MS, RunConfig
from .results_database import ResultsDatabase
from .retention import KEEP_MS, ROWS_MAX, RetentionConfig, prune_afterwards
from .rules import Rules, read_rules
from .session import open_session
from .stream_config import MEMORY_MS, StreamConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .event_source import EventSource


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; ends the process with its exit status."""
    given = parser().parse_args(arguments)
    try:
        given.work(given)
    except (AuditError, StoreError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def parser() -> argparse.ArgumentParser:
    """All options of both jobs."""
    made = argparse.ArgumentParser(prog="halfpast_audit.py", description=__doc__)
    jobs = made.add_subparsers(required=True, metavar="run|stream")
    run = jobs.add_parser("run", help="replace the results of windows")
    run.set_defaults(work=run_job)
    run.add_argument("--export", default="", help="read what has been exported there")
    run.add_argument("--from-ms", type=int, help="the start of the data")
    run.add_argument("--to-ms", type=int, help="as far as the log is known")
    run.add_argument("--details", default="", help="where tables by id go")
    stream = jobs.add_parser("stream", help="keep live counts")
    stream.set_defaults(work=stream_job)
    stream.add_argument("--checkpoint", required=True, help="a folder of its own")
    stream.add_argument("--available-now", action="store_true", help="then end")
    stream.add_argument("--memory-ms", type=int, default=MEMORY_MS)
    stream.add_argument("--restart", action="store_true", help="forget its counts")
    for job in (run, stream):
        job.add_argument("--store", default="", help="the data folder")
        job.add_argument("--database", required=True, help="where results go, a URL")
        job.add_argument("--window-ms", type=int, default=WINDOW_MS)
        job.add_argument("--grace-ms", type=int, default=GRACE_MS)
        job.add_argument("--rules", help="SLAs and bounds, in TOML")
        job.add_argument("--keep-ms", type=int, default=KEEP_MS)
        job.add_argument("--keep-rows", type=int, default=ROWS_MAX)
        job.add_argument("--master", help="if spark-submit has not named one")
    return made


def run_job(given: argparse.Namespace) -> None:
    """Prints what was run, as one JSON object."""
    rules, retention = _rules(given), _retention(given)
    spark = open_session("halfpast audit run", master=given.master)
    from .jobs import run_audits

    config = RunConfig(
        database=given.database,
        from_ms=given.from_ms,
        to_ms=given.to_ms,
        window_ms=given.window_ms,
        grace_ms=given.grace_ms,
        rules=rules.sla,
        details=given.details,
    )
    run = run_audits(_source(spark, given), config)
    prune_afterwards(ResultsDatabase(given.database), retention)
    print(json.dumps(asdict(run)), flush=True)
    spark.stop()


def stream_job(given: argparse.Namespace) -> None:
    """Runs until SIGTERM; prints how far it came."""
    rules = _rules(given)
    spark = open_session("halfpast audit stream", master=given.master)
    from .stream_job import StreamJob

    config = StreamConfig(
        store=given.store,
        database=given.database,
        checkpoint=given.checkpoint,
        window_ms=given.window_ms,
        grace_ms=given.grace_ms,
        rules=rules.sla,
        available_now=given.available_now,
        restart=given.restart,
        memory_ms=given.memory_ms,
        retention=_retention(given),
    )
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    seen = StreamJob(spark, config).run(lambda: bool(stopped))
    print(json.dumps(seen._asdict()), flush=True)
    spark.stop()


def _retention(given: argparse.Namespace) -> RetentionConfig:
    return RetentionConfig(keep_ms=given.keep_ms, rows_max=given.keep_rows)


def _rules(given: argparse.Namespace) -> Rules:
    return Rules() if given.rules is None else read_rules(Path(given.rules))


def _source(spark: "SparkSession", given: argparse.Namespace) -> "EventSource":
    from .event_source import open_both, open_log, open_parquet

    if given.store and given.export:
        return open_both(spark, given.store, given.export)
    if given.export:
        return open_parquet(spark, given.export)
    return open_log(spark, given.store)

"""One run of the audits over the broken log, for all tests that hold theirs against it.

A test module says `pytest_plugins = [..., "tests.integration.audit_runs"]`, with
`audit_store` and `spark_session` beside it, and asks for `from_log`.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Table, select
from tests.integration.audit_store import PATIENT, Written

from halfpast_api.metadata.migrate import migrate
from halfpast_spark import result_tables as tables
from halfpast_spark.job_config import RunConfig
from halfpast_spark.results import Run
from halfpast_spark.results_database import ResultsDatabase
from halfpast_spark.summaries import Summaries, summarise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halfpast_spark.event_source import EventSource

WINDOW_MS = 1000  # so that there are several
COUNTED: dict[Table, frozenset[str]] = {
    table: frozenset(it.name for it in table.c if it.type.python_type is int)
    - {"horizon_ms"}
    for table in (tables.transactions, tables.on_time)
}


@dataclass(frozen=True)
class Audited:
    """A run and what it has found."""

    run: Run
    found: Summaries
    url: str


def audit(source: "EventSource", url: str) -> Audited:
    """Run all audits of a source, into a new database."""
    from halfpast_spark.jobs import run_audits

    migrate(url)
    config = RunConfig(database=url, grace_ms=0, window_ms=WINDOW_MS, rules=PATIENT)
    run = run_audits(source, config)
    with ResultsDatabase(url).transaction() as connection:
        found = summarise(
            connection,
            window_ms=run.window_ms,
            from_ms=run.from_ms,
            to_ms=run.to_ms,
        )
    return Audited(run, found, url)


@pytest.fixture(scope="session")
def from_log(
    written: Written, spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> Audited:
    from halfpast_spark.event_source import open_log

    folder = tmp_path_factory.mktemp("from_log")
    source = open_log(spark, str(written.broken))
    return audit(source, f"sqlite:///{folder}/metadata.sqlite")


def window_rows(url: str, table: Table, run: Run) -> set[tuple[tuple[str, Any], ...]]:
    """The rows of the windows of a run, as far as they are keys and counts."""
    names = {it.name for it in table.primary_key.columns} | COUNTED[table]
    start = table.c.window_start_ms
    wanted = select(table).where(start >= run.from_ms, start < run.to_ms)
    with ResultsDatabase(url).transaction() as connection:
        rows = list(connection.execute(wanted).mappings())
    return {_row(row, names - {"source"}) for row in rows}


def _row(row: Mapping[Any, Any], names: set[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, row[name]) for name in sorted(names))

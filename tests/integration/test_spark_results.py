"""Results in the database: all windows of a run, or none of them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, select
from tests.integration.postgres_server import PostgresServer

from halfpast_api.metadata.migrate import migrate
from halfpast_spark import result_tables as tables
from halfpast_spark.job_errors import ResultsUnavailable
from halfpast_spark.results import Run, WindowRows, replace_windows
from halfpast_spark.results_database import ResultsDatabase
from halfpast_spark.windows import Period

pytest_plugins = ["tests.integration.postgres_server"]

PERIOD = Period(from_ms=300, to_ms=500, window_ms=100, horizon_ms=480, grace_ms=0)
RUN = Run(
    run_id="one",
    source="batch",
    read_from="log",
    store_id="store",
    window_ms=100,
    from_ms=300,
    to_ms=500,
    grace_ms=0,
    horizon_ms=480,
    horizon_position=1,
    events=2,
    pending_later=0,
    started_ms=1,
    finished_ms=2,
    details="",
    gaps="[]",
)


def row_of(table: Table, **known: Any) -> dict[str, Any]:
    """A row with a value in each column that the writer does not fill in."""
    shared = {"window_ms", "source", "horizon_ms"}
    row = {
        column.name: "a" if column.type.python_type is str else 1
        for column in table.columns
        if column.name not in shared
    }
    return {**row, **known}


def rows_of(value: int, *starts: int) -> WindowRows:
    """One row a window and table; `value` tells whose they are."""
    found = WindowRows()
    for table, rows in found.by_table():
        number = {"offenders": "due_ms", "histograms": "count"}
        name = number.get(table.name.removeprefix(tables.PREFIX), "horizon_ms")
        for start in starts:
            rows.append(row_of(table, window_start_ms=start) | {name: value})
    return found


def values(database: ResultsDatabase, table: Table) -> dict[int, Any]:
    number = {"offenders": "due_ms", "histograms": "count"}
    name = number.get(table.name.removeprefix(tables.PREFIX), "horizon_ms")
    with database.transaction() as connection:
        found = connection.execute(select(table.c.window_start_ms, table.c[name]))
        return {start: value for start, value in found}


def test_windows_of_the_period_are_replaced(database_url: str) -> None:
    migrate(database_url)
    database = ResultsDatabase(database_url)
    database.check()
    wide = replace(PERIOD, from_ms=200, to_ms=600)
    replace_windows(database, wide, rows_of(1, 200, 300, 400, 500), RUN)
    replace_windows(database, PERIOD, rows_of(2, 300), replace(RUN, run_id="two"))
    longer = Period(from_ms=0, to_ms=1000, window_ms=1000, horizon_ms=9, grace_ms=0)
    replace_windows(database, longer, rows_of(3, 0), replace(RUN, run_id="three"))
    for table in tables.RESULTS:
        assert values(database, table) == {200: 1, 300: 2, 500: 1, 0: 3}, table.name


class Breaking(list[dict[str, Any]]):
    """Rows in the middle of which the server ends the connection."""

    def __init__(self, rows: list[dict[str, Any]], server: PostgresServer) -> None:
        super().__init__(rows)
        self._server = server

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from super().__iter__()
        self._server.stop()


@pytest.mark.postgres
def test_a_database_that_goes_away_mid_write_changes_nothing(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_database()
    migrate(url)
    database = ResultsDatabase(url)
    replace_windows(database, PERIOD, rows_of(1, 300, 400), RUN)
    broken = rows_of(2, 300, 400)
    broken.offenders = Breaking(broken.offenders, postgres)
    with pytest.raises(ResultsUnavailable, match="postgresql"):
        replace_windows(database, PERIOD, broken, replace(RUN, run_id="two"))
    with pytest.raises(ResultsUnavailable):
        database.check()
    postgres.start()
    for table in tables.RESULTS:
        assert values(database, table) == {300: 1, 400: 1}, table.name
    with database.transaction() as connection:
        assert list(connection.execute(select(tables.runs.c.run_id))) == [("one",)]


def test_a_database_that_was_never_migrated_says_so(
    database_url: str, tmp_path: Path
) -> None:
    if database_url.startswith("sqlite"):
        with pytest.raises(ResultsUnavailable, match="no such file"):
            ResultsDatabase(database_url).check()
        (tmp_path / "metadata.sqlite").touch()
    with pytest.raises(ResultsUnavailable, match="has not been migrated"):
        ResultsDatabase(database_url).check()


def test_only_one_writes_at_a_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/metadata.sqlite"
    migrate(url)
    first, second = ResultsDatabase(url), ResultsDatabase(url, lock_wait_s=0)
    with first.transaction(), pytest.raises(ResultsUnavailable, match="locked"):
        second.check()


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "mysql://root:secret@host/db", "sqlite://", "secret:word"],
)
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ResultsUnavailable) as refusal:
        ResultsDatabase(url).check()
    assert "secret@" not in str(refusal.value)


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    url = f"postgresql://halfpast:secret@/halfpast?host={tmp_path}"
    with pytest.raises(ResultsUnavailable) as refusal:
        ResultsDatabase(url).check()
    assert "secret" not in str(refusal.value)

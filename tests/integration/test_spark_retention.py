"""What is kept of results, and for how long."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from sqlalchemy import func, insert, select
from tests.integration.test_spark_results import RUN, row_of

from halfpast_api.metadata.migrate import migrate
from halfpast_spark import result_tables as tables
from halfpast_spark.errors import BadOption
from halfpast_spark.job_errors import ResultsUnavailable
from halfpast_spark.results import insert_rows
from halfpast_spark.results_database import ResultsDatabase
from halfpast_spark.retention import (
    DAY_MS,
    STARTS_AT_ONCE,
    STREAM_SPARE_MS,
    Pruned,
    RetentionConfig,
    prune,
    prune_afterwards,
)

pytest_plugins = ["tests.integration.postgres_server"]

HOUR_MS = 3_600_000
NOW_MS = 1_000 * DAY_MS
ROWS_A_WINDOW = 100


@pytest.fixture
def database(database_url: str) -> ResultsDatabase:
    migrate(database_url)
    return ResultsDatabase(database_url)


def fill(
    database: ResultsDatabase,
    *starts: int,
    window_ms: int = HOUR_MS,
    source: str = tables.BATCH,
    rows: int = 1,
) -> None:
    """So many rows of each window in the table of histograms, one in the others."""
    shared = {"window_ms": window_ms, "source": source, "horizon_ms": NOW_MS}
    with database.transaction() as connection:
        for table in tables.RESULTS:
            count = rows if table is tables.histograms else 1
            name = "bucket" if table is tables.histograms else "horizon_ms"
            insert_rows(
                connection,
                table,
                (
                    {**shared, **row_of(table, window_start_ms=start), name: number}
                    for start in starts
                    for number in range(count)
                ),
            )


def starts_of(database: ResultsDatabase, **where: Any) -> set[int]:
    """The windows that all tables have."""
    found: list[set[int]] = []
    with database.snapshot() as connection:
        for table in tables.RESULTS:
            same = (table.c[name] == value for name, value in where.items())
            wanted = select(table.c.window_start_ms).where(*same)
            found.append(set(connection.execute(wanted).scalars()))
    assert all(it == found[0] for it in found)
    return found[0]


def test_windows_that_ended_too_long_ago_are_deleted(database: ResultsDatabase) -> None:
    config = RetentionConfig(keep_ms=DAY_MS)
    border = NOW_MS - DAY_MS
    old = [border - HOUR_MS * n for n in range(1, 2 * STARTS_AT_ONCE + 2)]
    fill(database, border, NOW_MS, *old)
    fill(database, border - HOUR_MS, border - DAY_MS, window_ms=DAY_MS)
    early = prune(database, config, now_ms=NOW_MS - 1)
    assert set(early.deleted.values()) == {len(old) - 1}
    pruned = prune(database, config, now_ms=NOW_MS)
    assert pruned.deleted.keys() == {
        *("transactions", "on_time", "end_to_end", "histograms", "offenders")
    }
    assert set(pruned.deleted.values()) == {2}
    assert pruned.left == 5 * 3
    assert starts_of(database, window_ms=HOUR_MS) == {border, NOW_MS}
    assert starts_of(database, window_ms=DAY_MS) == {border - HOUR_MS}
    assert prune(database, config, now_ms=NOW_MS) == Pruned(left=15)


def test_of_too_many_rows_the_oldest_windows_go(database: ResultsDatabase) -> None:
    starts = [NOW_MS - n * HOUR_MS for n in range(12)]
    fill(database, *starts, rows=ROWS_A_WINDOW - 4)
    config = RetentionConfig(rows_max=10 * ROWS_A_WINDOW)
    pruned = prune(database, config, now_ms=NOW_MS)
    assert (pruned.rows, pruned.left) == (2 * ROWS_A_WINDOW, config.rows_max)
    assert starts_of(database) == set(starts[:10])
    assert prune(database, config, now_ms=NOW_MS).rows == 0


def test_what_a_stream_may_still_change_stays(database: ResultsDatabase) -> None:
    stream = row_of(
        tables.streams,
        window_ms=HOUR_MS,
        horizon_ms=NOW_MS - 9 * DAY_MS,  # it was stopped then
        memory_ms=DAY_MS,
    )
    with database.transaction() as connection:
        connection.execute(insert(tables.streams), [{"horizon_ms": 0, **stream}])
    floor = NOW_MS - 10 * DAY_MS - HOUR_MS - STREAM_SPARE_MS
    starts = floor - 1, floor, NOW_MS - 5 * DAY_MS
    for source in (tables.BATCH, tables.STREAM):
        fill(database, *starts, source=source)
    fill(database, *starts, source=tables.STREAM, window_ms=DAY_MS)  # of no stream
    prune(database, RetentionConfig(keep_ms=DAY_MS), now_ms=NOW_MS)
    assert starts_of(database, window_ms=HOUR_MS, source=tables.BATCH) == set()
    live = starts_of(database, window_ms=HOUR_MS, source=tables.STREAM)
    assert live == {floor, NOW_MS - 5 * DAY_MS}
    assert starts_of(database, window_ms=DAY_MS) == set()


def test_the_last_run_of_each_window_length_stays(database: ResultsDatabase) -> None:
    old_ms = NOW_MS - 2 * DAY_MS
    runs = [
        replace(RUN, run_id="old", to_ms=old_ms, finished_ms=1),
        replace(RUN, run_id="last", to_ms=old_ms, finished_ms=2),
        replace(RUN, run_id="other", to_ms=old_ms, finished_ms=1, window_ms=7),
        replace(RUN, run_id="new old", to_ms=NOW_MS, finished_ms=1, window_ms=9),
        replace(RUN, run_id="new", to_ms=NOW_MS, finished_ms=2, window_ms=9),
    ]
    with database.transaction() as connection:
        insert_rows(connection, tables.runs, map(asdict, runs))
    pruned = prune(database, RetentionConfig(keep_ms=DAY_MS), now_ms=NOW_MS)
    assert pruned.deleted == {"runs": 1}
    with database.snapshot() as connection:
        left = set(connection.execute(select(tables.runs.c.run_id)).scalars())
    assert left == {"last", "other", "new old", "new"}


def test_while_rows_are_counted_others_write(database: ResultsDatabase) -> None:
    fill(database, NOW_MS)
    count = select(func.count()).select_from(tables.on_time)
    with database.snapshot() as connection:
        assert connection.execute(count).scalar() == 1
        fill(database, 0)
        if connection.dialect.name == "sqlite":  # of one moment
            assert connection.execute(count).scalar() == 1


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(BadOption, match="'keep' cannot be '0 ms'"):
        RetentionConfig(keep_ms=0)
    with pytest.raises(BadOption, match="keep 1,000 rows at least"):
        RetentionConfig(rows_max=999)


def test_a_run_that_is_done_does_not_fail_for_it(database: ResultsDatabase) -> None:
    away = ResultsDatabase("sqlite:////nowhere/metadata.sqlite")
    with pytest.raises(ResultsUnavailable):
        prune(away, RetentionConfig())
    assert prune_afterwards(away, RetentionConfig()) == Pruned()
    fill(database, 0)
    assert prune_afterwards(database, RetentionConfig()).rows == len(tables.RESULTS)

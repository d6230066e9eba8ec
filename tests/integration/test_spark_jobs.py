"""A whole run: from events to the rows in the database."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Table, create_engine, select
from tests.integration.spark_events import EventLine, id_text

from halfpast_api.metadata.migrate import migrate
from halfpast_spark import result_tables as tables
from halfpast_spark.job_config import RunConfig
from halfpast_spark.job_errors import (
    BadPeriod,
    NothingToAudit,
    ResultsUnavailable,
    SparkFailed,
)
from halfpast_spark.result_tables import BATCH
from halfpast_spark.results import Run
from halfpast_spark.sla import Sla, SlaRules

pytest.importorskip("pyspark")

from halfpast_spark.event_source import PARQUET, EventSource
from halfpast_spark.jobs import run_audits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest_plugins = ["tests.integration.spark_session"]
pytestmark = pytest.mark.spark

T0 = 1_760_000_100_000
WINDOW = 300_000
RULES = SlaRules(Sla(50, 0.999))


def write(line: EventLine) -> None:
    """A commit, a late message, a lost one, and one that is due much later."""
    key = id_text(T0, 1)
    shop = {"transaction_id": key, "group": "shop"}
    half = {"event_id": id_text(T0, 1, 1), "transaction_id": key}
    line.add(
        T0,
        {"kind": "transaction", "event_id": key, **shop},
        {"kind": "half", **half, "group": "shop"},
    )
    line.add(T0 + 6000, {"kind": "check", "event_id": key, "check": 1, **shop})
    line.add(
        T0 + 6500,
        {"kind": "message", **half, "offset": 0},
        {"kind": "op", "event_id": key, "outcome": "committed", "check": 1, **shop}
        | {"from_check": True},
    )
    for number, due_ms in ((2, T0 + 100), (3, T0 + 100), (4, T0 + 9 * WINDOW)):
        event_id = id_text(T0, number, 1)
        line.add(T0 + 1, {"kind": "schedule", "event_id": event_id, "due_ms": due_ms})
    late = {"event_id": id_text(T0, 2, 1), "due_ms": T0 + 100}
    line.add(
        T0 + 200,
        {"kind": "delivered", "offset": 1, **late},
        {"kind": "fired", **late},
    )
    gap = {"kind": "gap", "offset": 990, "reason": "checksum", "event_id": None}
    line.add(T0 + WINDOW + 20_000, gap)


@pytest.fixture(scope="module")
def events(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Any:
    line = EventLine()
    write(line)
    place = str(tmp_path_factory.mktemp("events") / "events.parquet")
    line.frame(spark).write.parquet(place)
    return spark.read.parquet(place)


def source_of(events: "DataFrame", **changes: Any) -> EventSource:
    known: dict[str, Any] = {
        "read_from": PARQUET,
        "place": "somewhere",
        "store_id": "store",
        "events": events,
        "start_position": 0,
        "horizon_position": 1000,
        "horizon_ms": T0 + WINDOW + 20_000,
    }
    return EventSource(**{**known, **changes})


Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Audited:
    """A run over the events, and what it wrote."""

    config: RunConfig
    run: Run
    told: list[str]
    rows: dict[Table, Rows]


@pytest.fixture(scope="module")
def audited(events: "DataFrame", tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("results")
    url = f"sqlite:///{folder}/metadata.sqlite"
    migrate(url)
    details = str(folder / "details")
    config = RunConfig(database=url, rules=RULES, details=details)
    told: list[str] = []
    run = run_audits(source_of(events), config, told.append)
    return Audited(config, run, told, all_rows(url))


def all_rows(url: str) -> dict[Table, Rows]:
    return {table: rows_of(url, table) for table in tables.RESULTS}


def rows_of(url: str, table: Table) -> Rows:
    with create_engine(url).connect() as connection:
        return [dict(row) for row in connection.execute(select(table)).mappings()]


def test_a_run_tells_what_it_saw(audited: Audited) -> None:
    run = audited.run
    assert (run.from_ms, run.to_ms) == (T0, T0 + 2 * WINDOW)
    assert (run.events, run.pending_later) == (10, 1)
    assert json.loads(run.gaps) == ["positions 800 to 990: checksum"]
    assert audited.told[0] == "reading the events"
    assert audited.told[-1] == "writing the results"
    [row] = rows_of(audited.config.database, tables.runs)[:1]
    assert row == asdict(run)


def test_windows_are_written_with_all_that_they_need(audited: Audited) -> None:
    rows = audited.rows
    [shop] = [row for row in rows[tables.transactions] if row["topic"] != "*"]
    assert (shop["window_ms"], shop["window_start_ms"]) == (WINDOW, T0)
    assert (shop["source"], shop["horizon_ms"]) == (BATCH, T0 + WINDOW + 20_000)
    assert (shop["half"], shop["committed"], shop["second_phase_lost"]) == (1, 1, 1)
    assert shop["outcome_max_ms"] == 6500
    [orders] = [row for row in rows[tables.on_time] if row["topic"] != "*"]
    assert (orders["scheduled"], orders["fired"], orders["lost"]) == (2, 1, 1)
    assert (orders["sla_ms"], orders["sla_share"]) == (50, 0.999)
    assert {
        (row["measure"], row["lower"], row["upper"], row["count"])
        for row in rows[tables.histograms]
        if row["topic"] == "orders"
    } == {
        ("lateness_ms", 96, 103, 1),
        ("outcome_ms", 6144, 6655, 1),
        ("checks", 1, 1, 1),
    }


def test_id_level_tables_are_kept_as_parquet(
    audited: Audited, spark: "SparkSession"
) -> None:
    folder = Path(audited.run.details)
    names = {"messages", "offenders", "settled", "timers", "transactions"}
    assert {it.name for it in folder.iterdir()} == names
    timers = spark.read.parquet(str(folder / "timers"))
    assert sorted(row["state"] for row in timers.collect()) == ["fired", "open", "open"]
    assert [it.name for it in folder.parent.iterdir()] == [audited.run.run_id]


def test_offenders_have_their_time_line(audited: Audited) -> None:
    rows = audited.rows[tables.offenders]
    found = {(row["audit"], row["reason"]): row for row in rows}
    assert set(found) == {
        ("transactions", "second_phase_lost"),
        ("on_time", "late"),
        ("on_time", "lost"),
        ("end_to_end", "lost"),
    }
    phase = found["transactions", "second_phase_lost"]
    assert (phase["group_name"], phase["event_id"]) == ("shop", id_text(T0, 1))
    line = json.loads(phase["timeline"])
    kinds = ["transaction", "half", "check", "message", "op"]
    assert [entry["what"] for entry in line] == kinds
    check = {"topic": "orders", "group": "shop", "check": 1}
    assert line[2] == {"at": T0 + 6000, "what": "check", **check}
    late = found["on_time", "late"]
    assert (late["event_id"], late["lateness_ms"]) == (id_text(T0, 2, 1), 100)
    kinds = ["schedule", "delivered", "fired"]
    assert [entry["what"] for entry in json.loads(late["timeline"])] == kinds


def test_another_run_replaces_its_windows_and_no_others(
    audited: Audited, events: "DataFrame"
) -> None:
    url = audited.config.database
    rules = SlaRules(Sla(200, 0.5))
    config = replace(audited.config, details="", rules=rules, from_ms=T0 + WINDOW)
    second = run_audits(source_of(events), config)
    assert second.details == ""
    assert all_rows(url) == audited.rows  # the second window holds nothing
    run_audits(source_of(events), replace(config, from_ms=None, window_ms=60_000))
    found = rows_of(url, tables.on_time)
    kept = [row for row in found if row["window_ms"] == WINDOW]
    assert kept == audited.rows[tables.on_time]
    [orders] = [row for row in found if row not in kept and row["topic"] == "orders"]
    assert (orders["in_sla"], orders["sla_ms"]) == (1, 200)
    assert len(rows_of(url, tables.runs)) == 3


def test_what_cannot_be_audited_is_told_before_the_work(
    audited: Audited, events: "DataFrame"
) -> None:
    url = audited.config.database
    with pytest.raises(NothingToAudit, match="no event"):
        run_audits(source_of(events.where("kind = 'gap'")), audited.config)
    gone = replace(audited.config, database=f"{url}.gone")
    with pytest.raises(ResultsUnavailable, match="no such file"):
        run_audits(source_of(events), gone)


def test_windows_that_end_in_the_future_are_refused_before_anything_is_read(
    audited: Audited, events: "DataFrame"
) -> None:
    told: list[str] = []
    later = replace(audited.config, to_ms=T0 + 3 * WINDOW)
    with pytest.raises(BadPeriod, match="in the future"):
        run_audits(source_of(events), later, told.append)
    assert told == []


def test_a_database_that_goes_away_before_the_end_leaves_no_trace(
    audited: Audited, events: "DataFrame", tmp_path: Path
) -> None:
    file = tmp_path / "metadata.sqlite"
    url = f"sqlite:///{file}"
    migrate(url)

    def tell(step: str) -> None:
        if step == "writing the results":
            file.rename(tmp_path / "away")

    details = tmp_path / "details"
    config = RunConfig(database=url, details=str(details), window_ms=60_000)
    with pytest.raises(ResultsUnavailable, match="no such file"):
        run_audits(source_of(events), config, tell)
    assert list(details.iterdir()) == []
    (tmp_path / "away").rename(file)
    assert not any(all_rows(url).values())
    assert rows_of(url, tables.runs) == []


def test_what_spark_says_when_it_fails_is_one_of_our_errors(
    audited: Audited, events: "DataFrame", spark: "SparkSession", tmp_path: Path
) -> None:
    place = tmp_path / "events.parquet"
    events.limit(1).write.parquet(str(place))
    gone = spark.read.schema(events.schema).parquet(str(place))
    for file in place.iterdir():
        file.unlink()
    with pytest.raises(SparkFailed, match=r"\w"):
        run_audits(source_of(gone), audited.config)

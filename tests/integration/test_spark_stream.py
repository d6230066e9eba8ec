"""Live counts: those of the journal and of a run in batch, whatever happens."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest
from sqlalchemy import func, insert, select
from tests.integration.audit_store import Written, counted, punctual

from halfpast_api.metadata.migrate import migrate
from halfpast_core_store.errors import NewerFormat
from halfpast_core_store.folder import MANIFEST
from halfpast_loadtest.audit_expectation import Expected, expected_of
from halfpast_spark import result_tables as tables
from halfpast_spark.checkpoint import REMEMBERED
from halfpast_spark.errors import BadOption, NoStore
from halfpast_spark.job_errors import BadPeriod, SparkFailed, StreamConflict
from halfpast_spark.log_file import DAMAGED, DELETED
from halfpast_spark.results_database import ResultsDatabase
from halfpast_spark.summaries import Summaries, summarise

pytest.importorskip("pyspark")

from tests.integration.audit_runs import COUNTED, Audited, window_rows
from tests.integration.stream_deaths import POINTS, MortalStream, config_of

from halfpast_spark.stream_config import StreamConfig
from halfpast_spark.stream_job import StreamJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = [
    "tests.integration.audit_store",
    "tests.integration.audit_runs",
    "tests.integration.spark_session",
]
pytestmark = pytest.mark.spark

LONG_MS = 1_800_000  # less than what the pending ones still wait
DEATHS = [(number // 3, POINTS[number % 3]) for number in range(10)]
# A process of its own takes ten seconds each: most die in this one.
KILLS = int(os.environ.get("HALFPAST_STREAM_KILLS", "1"))


class Crash(Exception):
    """Stands for the death of the process: Spark notes nothing of this batch."""


@dataclass(frozen=True)
class Found:
    """What a stream has left in the database."""

    batches: int
    events: int
    gaps: str
    summaries: Summaries


def found_in(url: str) -> Found:
    with ResultsDatabase(url).transaction() as connection:
        stream = connection.execute(select(tables.streams)).mappings().one()
        summaries = summarise(
            connection, window_ms=stream["window_ms"], from_ms=0, to_ms=1 << 50
        )
    return Found(stream["batch_id"] + 1, stream["events"], stream["gaps"], summaries)


def new_config(store: Path, folder: Path) -> StreamConfig:
    url = f"sqlite:///{folder}/metadata.sqlite"
    migrate(url)
    return config_of(str(store), url, str(folder / "checkpoint"))


def finish(job: StreamJob) -> None:
    """Run to the end, and let so much time pass that what is lost is told to be."""
    seen = job.run()
    live = job._live  # pyright: ignore[reportPrivateUsage]
    assert live is not None
    live.move_horizon(seen.horizon_ms + LONG_MS)


def crash(job: MortalStream) -> None:
    with pytest.raises(SparkFailed) as failed:
        job.run()
    assert "Crash" in str(failed.value.__cause__)


def check(found: Found, expected: Expected) -> None:
    """A stream also counts what is due later than the windows of a run."""
    on_time = {key: Counter(counts) for key, counts in expected.on_time.items()}
    for topic, count in expected.later.items():
        for key in ((topic,), ("*",)):
            later = Counter(scheduled=count, pending=count)
            on_time.setdefault(key, Counter()).update(later)
    summaries = found.summaries
    assert counted(summaries.transactions, "transactions") == expected.transactions
    assert counted(summaries.on_time, "on_time") == on_time
    assert punctual(summaries.on_time) == expected.punctual
    assert found.gaps == "[]"


@pytest.fixture(scope="module")
def config(written: Written, tmp_path_factory: pytest.TempPathFactory) -> StreamConfig:
    return new_config(written.broken, tmp_path_factory.mktemp("stream"))


@pytest.fixture(scope="module")
def undisturbed(spark: "SparkSession", config: StreamConfig) -> Found:
    finish(StreamJob(spark, config))
    return found_in(config.database)


def test_live_counts_are_those_of_the_journal(
    written: Written, undisturbed: Found
) -> None:
    assert undisturbed.batches > 5
    check(undisturbed, expected_of(written.journal, written.faults))


@pytest.mark.usefixtures("undisturbed")
def test_live_counts_are_those_of_a_run_in_batch(
    config: StreamConfig, from_log: Audited
) -> None:
    starts = set[int]()
    for table in COUNTED:
        expected = window_rows(from_log.url, table, from_log.run)
        assert window_rows(config.database, table, from_log.run) == expected
        starts |= {dict(row)["window_start_ms"] for row in expected}
    assert len(starts) > 1


def test_ten_deaths_change_nothing(
    written: Written, spark: "SparkSession", undisturbed: Found, tmp_path: Path
) -> None:
    def die() -> NoReturn:
        raise Crash

    config = new_config(written.broken, tmp_path)
    remembered = Path(config.checkpoint) / REMEMBERED
    for number, (batch, point) in enumerate(DEATHS):
        if number % 2:  # then all must come from the log
            shutil.rmtree(remembered)
        crash(MortalStream(spark, config, batch, point, die))
    finish(StreamJob(spark, config))
    assert found_in(config.database) == undisturbed


def test_kills_double_nothing(
    written: Written, spark: "SparkSession", undisturbed: Found, tmp_path: Path
) -> None:
    """The last one leaves the database ahead of what Spark has noted."""
    config = new_config(written.broken, tmp_path)
    for batch, point in [*DEATHS[: KILLS - 1], (3, POINTS[2])]:
        killed = kill(config, batch, point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    assert found_in(config.database).batches == 4
    noted = {it.name for it in (Path(config.checkpoint) / "commits").iterdir()}
    assert {name for name in noted if name.isdigit()} == {"0", "1", "2"}
    finish(StreamJob(spark, config))
    assert found_in(config.database) == undisturbed


def kill(
    config: StreamConfig, batch: int, point: str
) -> "subprocess.CompletedProcess[bytes]":
    words = (config.store, config.database, config.checkpoint, str(batch), point)
    return subprocess.run(
        [sys.executable, "-m", "tests.integration.stream_deaths", *words],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=False,
    )


def test_counts_are_never_mixed(
    spark: "SparkSession", config: StreamConfig, undisturbed: Found, tmp_path: Path
) -> None:
    """Of a stream that has come to its end, and settings or places that are others."""
    for name in ("grace_ms", "memory_ms"):
        other = replace(config, **cast(Any, {name: 5}))
        with pytest.raises(StreamConflict, match=f"a {name[:-3]} of .* not of 5 ms"):
            StreamJob(spark, other).run()
    with pytest.raises(StreamConflict, match=r"another checkpoint; --restart"):
        StreamJob(spark, replace(config, checkpoint=str(tmp_path / "new"))).run()
    empty = f"sqlite:///{tmp_path}/metadata.sqlite"
    migrate(empty)
    with pytest.raises(StreamConflict, match=r"no longer in the database; --restart"):
        StreamJob(spark, replace(config, database=empty)).run()
    assert StreamJob(spark, config).run().events == undisturbed.events


def test_a_restart_counts_anew(
    spark: "SparkSession", config: StreamConfig, undisturbed: Found, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/metadata.sqlite"
    shutil.copy(config.database.removeprefix("sqlite:///"), tmp_path)
    shutil.copytree(config.checkpoint, tmp_path / "checkpoint")
    again = replace(
        config,
        database=url,
        checkpoint=str(tmp_path / "checkpoint"),
        batch_bytes=1 << 30,
        restart=True,
    )
    finish(StreamJob(spark, again))
    found = found_in(url)
    assert found.batches < undisturbed.batches
    assert found == replace(undisturbed, batches=found.batches)


def test_a_restart_deletes_no_other_folder(
    spark: "SparkSession", config: StreamConfig, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    wrong = replace(config, checkpoint=str(tmp_path), restart=True)
    with pytest.raises(StreamConflict, match=r"'thesis.tex', so it is no checkpoint"):
        StreamJob(spark, wrong).run()
    assert (tmp_path / "thesis.tex").exists()


def test_what_cannot_be_a_stream_is_refused(config: StreamConfig) -> None:
    for wrong in ({"window_ms": 0}, {"grace_ms": -1}, {"memory_ms": 0}):
        with pytest.raises(BadPeriod, match="more than 0 ms"):
            replace(config, **cast(Any, wrong))
    with pytest.raises(BadOption, match="'every' cannot be '0 ms'"):
        replace(config, every_ms=0)
    with pytest.raises(BadOption, match="Spark Connect"):
        StreamJob(cast(Any, object()), config)


def test_what_cannot_be_read_is_told_and_the_rest_is_counted(
    written: Written, spark: "SparkSession", undisturbed: Found, tmp_path: Path
) -> None:
    """Damage in one segment; and retention deletes another amid the work."""

    def die() -> NoReturn:
        raise Crash

    store = tmp_path / "store"
    shutil.copytree(written.broken, store)
    segments = sorted((store / "log").iterdir())
    damaged, deleted, behind = (int(it.stem) for it in segments[1:4])
    with segments[1].open("r+b") as file:
        file.write(b"damage")
    config = new_config(store, tmp_path)
    crash(MortalStream(spark, config, 1, POINTS[2], die))
    for segment in segments[:3]:
        segment.unlink()
    finish(StreamJob(spark, config))
    found = found_in(config.database)
    assert f"positions {damaged} to " in found.gaps
    assert DAMAGED in found.gaps
    assert f"to {behind}: {DELETED}" in found.gaps
    assert deleted < behind
    assert 0 < found.events < undisturbed.events
    assert found.summaries.transactions != []


def test_what_retention_deletes_while_it_is_down_is_remembered(
    written: Written, spark: "SparkSession", undisturbed: Found, tmp_path: Path
) -> None:
    """All that was counted may go: what follows it counts as if it were there. But
    without what was saved, that is told."""
    whole, store = tmp_path / "whole", tmp_path / "store"
    shutil.copytree(written.broken, whole)
    shutil.copytree(written.broken, store)
    segments = sorted((store / "log").iterdir())
    later = segments[len(segments) // 2 :]
    for segment in later:
        segment.unlink()
    config = new_config(store, tmp_path)
    StreamJob(spark, config).run()
    half = found_in(config.database)
    assert 0 < half.events < undisturbed.events
    for segment in segments[: len(segments) // 2 - 1]:
        segment.unlink()
    for segment in later:
        shutil.copy(whole / "log" / segment.name, segment)
    forgetful = tmp_path / "forgetful"
    forgetful.mkdir()
    shutil.copytree(config.checkpoint, forgetful / "checkpoint")
    shutil.rmtree(forgetful / "checkpoint" / "remembered")
    shutil.copy(tmp_path / "metadata.sqlite", forgetful)

    finish(StreamJob(spark, config))
    found = found_in(config.database)
    assert found == replace(undisturbed, batches=found.batches)

    url = f"sqlite:///{forgetful}/metadata.sqlite"
    without = replace(config, database=url, checkpoint=str(forgetful / "checkpoint"))
    finish(StreamJob(spark, without))
    assert DELETED in found_in(url).gaps


def test_a_stream_waits_for_a_log_that_is_empty(
    written: Written, spark: "SparkSession", undisturbed: Found, tmp_path: Path
) -> None:
    """A broker that has never started has written no more than what store it is."""
    store = tmp_path / "store"
    store.mkdir()
    shutil.copy(written.broken / MANIFEST, store)
    config = new_config(store, tmp_path)
    for _ in range(2):
        seen = StreamJob(spark, config).run()
        assert (seen.events, seen.position) == (0, -1)
    shutil.copytree(written.broken / "log", store / "log")
    finish(StreamJob(spark, config))
    found = found_in(config.database)
    assert found == replace(undisturbed, batches=found.batches)


def test_a_log_that_is_not_the_one_that_was_counted_is_refused(
    spark: "SparkSession", config: StreamConfig, undisturbed: Found, tmp_path: Path
) -> None:
    """Another store in its place; the same one as it was earlier; one of a release to
    come; none."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(config.checkpoint, checkpoint)
    store = tmp_path / "store"
    shutil.copytree(config.store, store)
    again = replace(config, store=str(store), checkpoint=str(checkpoint))
    last = sorted((store / "log").iterdir())[-1]
    last.unlink()
    with pytest.raises(StreamConflict, match="an older state of it has been put back"):
        StreamJob(spark, again).run()
    told = json.loads((store / MANIFEST).read_text())
    for changed, error, text in (
        ({"store_id": "f" * 16}, StreamConflict, "of another store's log; --restart"),
        ({"format_version": 99}, NewerFormat, "99"),
    ):
        (store / MANIFEST).write_text(json.dumps({**told, **changed}))
        with pytest.raises(error, match=text):
            StreamJob(spark, again).run()
    (store / MANIFEST).unlink()
    with pytest.raises(NoStore, match="no data folder of Halfpast"):
        StreamJob(spark, again).run()
    assert found_in(config.database) == undisturbed


def test_results_are_pruned_while_it_runs(
    spark: "SparkSession", config: StreamConfig, undisturbed: Found, tmp_path: Path
) -> None:
    shutil.copy(config.database.removeprefix("sqlite:///"), tmp_path)
    url = f"sqlite:///{tmp_path}/metadata.sqlite"
    old = {name: 1 for name in ("window_ms", "window_start_ms", "horizon_ms")}
    row = {it.name: 0 for it in tables.histograms.c} | {"topic": "", "measure": ""}
    with ResultsDatabase(url).transaction() as connection:
        row |= {"producer_group": "", "source": tables.BATCH, **old}
        connection.execute(insert(tables.histograms), [row])
    again = replace(config, database=url, available_now=False, every_ms=50)
    StreamJob(spark, again).run(lambda: not old_rows(url))
    assert found_in(url) == undisturbed


def old_rows(url: str) -> int:
    table = tables.histograms
    wanted = select(func.count()).where(table.c.window_ms == 1)
    with ResultsDatabase(url).snapshot() as connection:
        return connection.execute(wanted).scalar() or 0

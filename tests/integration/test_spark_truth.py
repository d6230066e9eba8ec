"""What the audits find in a real store is what its journal says, class by class.

The store is written by the real services, through the API; the faults are put into a
copy of its log. The same must come out of the log and of what was exported of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.audit_runs import Audited, audit
from tests.integration.audit_store import Written, counted, punctual

from halfpast_loadtest.audit_expectation import Expected, expected_of
from halfpast_loadtest.audit_journal import FATES, REFUSED_FATES, TIMER_FATES

pytest.importorskip("pyspark")

from halfpast_spark.event_source import open_parquet
from halfpast_spark.export import Exporter
from halfpast_spark.log_folder import LogFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = [
    "tests.integration.audit_store",
    "tests.integration.audit_runs",
    "tests.integration.spark_session",
]
pytestmark = pytest.mark.spark


def check(audited: Audited, expected: Expected) -> None:
    run, found = audited.run, audited.found
    assert run.gaps == "[]"
    assert run.pending_later == expected.pending_later
    assert counted(found.transactions, "transactions") == expected.transactions
    assert counted(found.on_time, "on_time") == expected.on_time
    assert punctual(found.on_time) == expected.punctual
    assert counted(found.end_to_end, "end_to_end") == expected.end_to_end


def test_the_store_holds_every_fate(written: Written) -> None:
    journal = written.journal
    assert set(journal.transactions.values()) == set(FATES)
    fates = {fate for _, fate in journal.timers.values()}
    assert fates == {*TIMER_FATES, *REFUSED_FATES}
    assert journal.occurrences
    assert journal.delayed
    assert journal.given_up < journal.consumed < journal.messages.keys()


def test_each_fault_is_found(written: Written, from_log: Audited) -> None:
    assert all(written.faults.count(name) for name in written.faults.hit)
    assert len(written.faults.hit) == 7
    check(from_log, expected_of(written.journal, written.faults))


def test_a_sound_log_has_no_faults_also_as_it_was_exported(
    written: Written, spark: "SparkSession", from_log: Audited, tmp_path: Path
) -> None:
    exported = tmp_path / "events"
    with Exporter(LogFolder(str(written.sound)), exported) as exporter:
        while exporter.step() is not None:
            pass
        assert len(exporter.manifest.files) > 3
    source = open_parquet(spark, str(exported))
    audited = audit(source, f"sqlite:///{tmp_path}/metadata.sqlite")
    check(audited, expected_of(written.journal))
    assert (from_log.run.read_from, audited.run.read_from) == ("log", "parquet")

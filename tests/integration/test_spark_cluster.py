"""The same job on a standalone cluster, through spark-submit and Spark Connect."""

import json
from pathlib import Path

import pytest
from tests.integration.audit_store import Written, counted
from tests.integration.cli_process import halfpast
from tests.integration.spark_cluster import Cluster, connect_server

from halfpast_api.metadata.migrate import migrate
from halfpast_loadtest.audit_expectation import Expected, expected_of
from halfpast_spark.results_database import ResultsDatabase
from halfpast_spark.summaries import summarise

pytest.importorskip("pyspark")

pytest_plugins = [
    "tests.integration.audit_store",
    "tests.integration.spark_cluster",
]
pytestmark = pytest.mark.spark


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/metadata.sqlite"
    migrate(url)
    return url


def check(url: str, window_ms: int, expected: Expected) -> None:
    with ResultsDatabase(url).transaction() as connection:
        found = summarise(connection, window_ms=window_ms, from_ms=0, to_ms=1 << 50)
    assert counted(found.transactions, "transactions") == expected.transactions
    assert counted(found.on_time, "on_time") == expected.on_time
    assert counted(found.end_to_end, "end_to_end") == expected.end_to_end


def test_spark_submit_on_two_workers(
    written: Written, cluster: Cluster, url: str
) -> None:
    words = ("--store", str(written.broken), "--database", url, "--grace-ms", "0")
    done = cluster.submit("run", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["store_id"]
    check(url, told["window_ms"], expected_of(written.journal, written.faults))
    # Both workers had executors, and those ran the packages of the zip.
    for number in (1, 2):
        executors = list((cluster.folder / f"worker-{number}").glob("app-*/*"))
        assert executors
        assert any((it / cluster.archive.name).exists() for it in executors)


def test_the_command_through_spark_connect(
    written: Written, cluster: Cluster, url: str
) -> None:
    """The server has nothing of ours but what the command sends it."""
    words = ("--data", str(written.broken), "--metadata", url, "--grace", "0s")
    with connect_server(cluster) as address:
        done = halfpast(
            *("audit", "run", *words, "--master", address, "--json"), timeout_s=300
        )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert set(told["steps_s"]) >= {"balancing transactions", "writing the results"}
    run = told["run"]
    check(url, run["window_ms"], expected_of(written.journal, written.faults))

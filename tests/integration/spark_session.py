"""One Spark for all tests that need one: started on first use, stopped at the end.

A test module says `pytest_plugins = ["tests.integration.spark_session"]` and
`pytestmark = pytest.mark.spark`, and asks for `spark`. Without pyspark in the
environment its tests are skipped.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.integration.java_runtime import missing_java
from tests.integration.unavailable import unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",  # few steps, since there is little to do
    # To compile takes longest; the tests on a cluster do that.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "Pacific/Chatham",  # never ours to rely on
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.level=error"
    ),
}


def have_spark() -> bool:
    """Whether pyspark is installed; pytest's own imports leave it alone."""
    return importlib.util.find_spec("pyspark") is not None


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    need_spark()
    from halfpast_spark.session import open_session

    # What a session through Spark Connect, in a test before, has left behind.
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    session = open_session("tests", master="local[2]", settings=QUICK)
    yield session
    session.stop()


def need_spark() -> None:
    """Skip the test where pyspark was not asked for (see scripts/venv), or where there
    is no Java for it; the latter fails in CI."""
    if not have_spark():
        pytest.skip("pyspark is not installed: see scripts/venv")
    if reason := missing_java():
        unavailable(reason)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

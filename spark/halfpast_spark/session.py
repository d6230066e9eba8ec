"""Starting Spark, with what the audits need of it.

Time zone UTC, so that nothing depends on a cluster's; the interpreter of this process
for Python workers, since another one would lack pyarrow; and on a cluster the packages
of this release.
"""

import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .job_errors import MasterUnreachable, SparkMissing
from .masters import Master, MasterKind, need_answer, parse_master
from .packages import write_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL = "pip install 'halfpast[spark]' (and Java 17 or newer)"
QUERY_SETTINGS = {"spark.sql.session.timeZone": "UTC"}
START_SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LEAN_SETTINGS = {
    JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
}
"""For a Spark that does small things for a long time: half of its CPU would go into
compiling them to perfection."""
CONNECT_RETRIES = 5  # half a minute; Spark's own number takes ten
WORKERS_WAIT_S = 60.0
LOOK_S = 0.2


def open_session(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session on this master (`local[*]`, `spark://…`, `sc://…` for Connect), or on
    the one that `spark-submit` has given. `settings` count where Spark is started here.

    Raises SparkMissing, BadMaster, MasterUnreachable.
    """
    if master is None:
        return _on_workers(_started(name, {}, settings), "the master")
    known = parse_master(master)
    need_answer(known)
    if known.kind is MasterKind.CONNECT:
        return _shipped(_connected(known))
    spark = _started(name, {"spark.master": master}, settings)
    if known.kind is MasterKind.LOCAL:
        return spark
    return _on_workers(_shipped(spark), master)


def _started(
    name: str, given: Mapping[str, str], settings: Mapping[str, str] | None
) -> "SparkSession":
    """A Spark whose driver is this process."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing(f"Spark is not installed: {INSTALL}") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    wanted = {**QUERY_SETTINGS, **START_SETTINGS, **_quiet(), **(settings or {})}
    wanted |= given
    if JAVA_OPTIONS in wanted:
        both = (_quiet().get(JAVA_OPTIONS, ""), (settings or {}).get(JAVA_OPTIONS, ""))
        wanted[JAVA_OPTIONS] = " ".join(both).strip()
    for key, value in wanted.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        if "JAVA_GATEWAY" in str(error) or isinstance(error, FileNotFoundError):
            why = f"Spark does not start; is there a Java? {INSTALL}"
            raise SparkMissing(why) from error
        where = given.get("spark.master", "local")
        raise MasterUnreachable(where, _first_line(error)) from error


def _quiet() -> dict[str, str]:
    """Errors alone are logged, unless somebody has configured Spark."""
    path = Path(__file__).with_name("log4j2.properties")
    if "SPARK_CONF_DIR" in os.environ or " " in str(path) or not path.is_file():
        return {}
    return {JAVA_OPTIONS: f"-Dlog4j2.configurationFile={path}"}


def _connected(master: Master) -> "SparkSession":
    """A session of a Connect server, which has been started with its own settings."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ImportError as error:
        reason = f"Spark Connect is not installed ({error}): {INSTALL}"
        raise SparkMissing(reason) from error
    try:
        spark = SparkSession.builder.remote(master.text).create()
        client: Any = spark.client
        client.set_retry_policies([DefaultPolicy(max_retries=CONNECT_RETRIES)])
        for key, value in QUERY_SETTINGS.items():
            spark.conf.set(key, value)
    except (PySparkException, OSError, RuntimeError) as error:
        raise MasterUnreachable(master.text, _first_line(error)) from error
    return spark


def _shipped(spark: "SparkSession") -> "SparkSession":
    """The same, and its workers have the packages of this release."""
    folder = tempfile.mkdtemp(prefix="halfpast-audit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # workers fetch it late
    spark.addArtifacts(str(write_zip(Path(folder))), pyfile=True)
    return spark


def _on_workers(spark: "SparkSession", master: str) -> "SparkSession":
    """The same, once a worker of a standalone cluster has given us a core: without one
    Spark would wait for ever, and say so in its log only."""
    context: Any = spark.sparkContext
    if not str(context.master).startswith("spark://"):
        return spark
    give_up_s = time.monotonic() + WORKERS_WAIT_S
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver is one
        if time.monotonic() > give_up_s:
            spark.stop()
            why = (
                f"it answers, but no worker has given us a core in {WORKERS_WAIT_S:.0f}"
                " s; are there workers, and have they cores that nobody else uses?"
            )
            raise MasterUnreachable(master, why)
        time.sleep(LOOK_S)
    return spark


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)

"""A Spark standalone cluster of this machine: a master and two workers.

The wheel of pyspark has no scripts that start them, but `spark-class` starts the
classes. Executors run in processes of their own, with the packages of the zip that
`make audit-zip` builds.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.spark_session import need_spark

HOST = "127.0.0.1"
READY_S = 60
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"

# Quick to start, as for other tests; and the cluster's clock is in another zone.
ZONE = "Pacific/Chatham"
JAVA = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone={ZONE}"
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": HOST,
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA,
    "spark.executorEnv.TZ": ZONE,
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.locality.wait": "0s",  # all is on this machine
}


@dataclass(frozen=True)
class Cluster:
    """Where the master is, and the zip with our packages and its main script."""

    master: str
    archive: Path
    main: Path
    folder: Path

    def submit(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run one of the jobs through spark-submit on the cluster."""
        return subprocess.run(
            [
                str(program("spark-submit")),
                *("--master", self.master, "--py-files", str(self.archive)),
                *as_words(SETTINGS),
                str(self.main),
                *words,
            ],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_spark()
    folder = tmp_path_factory.mktemp("cluster")
    root = Path(__file__).resolve().parents[2]
    subprocess.run(
        [sys.executable, str(root / "scripts" / "audit-zip"), str(folder)],
        check=True,
        capture_output=True,
    )
    port = free_port()
    address = f"spark://{HOST}:{port}"
    words = ("--host", HOST, "--webui-port", "0")
    with running(folder, "master", MASTER, *words, "--port", str(port)) as log:
        wait_for(log, "I have been elected leader")
        with worker(folder, 1, address), worker(folder, 2, address):
            wait_for(log, "Registering worker", count=2)
            yield Cluster(
                address,
                folder / "halfpast-audit.zip",
                folder / "halfpast_audit.py",
                folder,
            )


@contextmanager
def worker(folder: Path, number: int, address: str) -> Generator[Path]:
    name = f"worker-{number}"
    words = [
        *("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "600m"),
        *("--work-dir", str(folder / name)),
    ]
    with running(folder, name, WORKER, *words, address) as log:
        yield log


@contextmanager
def connect_server(cluster: Cluster) -> Generator[str]:
    """A Spark Connect server that works on the cluster; its address."""
    port = free_port()
    settings = {
        **SETTINGS,
        # To compile takes longest; what spark-submit runs does that.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.cores.max": "1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": HOST,
    }
    words = ["--master", cluster.master, *as_words(settings)]
    words += ["--class", CONNECT, "spark-internal"]
    submit = "org.apache.spark.deploy.SparkSubmit"
    with running(cluster.folder, "connect", submit, *words) as log:
        wait_for(log, "Spark Connect server started")
        yield f"sc://{HOST}:{port}"


@contextmanager
def running(folder: Path, name: str, *words: str) -> Generator[Path]:
    """A process of Spark's own, and the file with all that it prints."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(program("spark-class")), *words],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def as_words(settings: Mapping[str, str]) -> list[str]:
    pairs = (("--conf", f"{name}={value}") for name, value in settings.items())
    return [word for pair in pairs for word in pair]


def wait_for(log: Path, text: str, *, count: int = 1) -> None:
    """Until the process has said so."""
    give_up_s = time.monotonic() + READY_S
    while log.read_text(errors="replace").count(text) < count:
        is_dead = "Exception in thread" in log.read_text(errors="replace")
        if is_dead or time.monotonic() > give_up_s:
            pytest.fail(f"{log.name}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def program(name: str) -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "bin" / name


def environment() -> dict[str, str]:
    """Executors take the interpreter of the tests, which has what the audits need."""
    return {
        **os.environ,
        "SPARK_LOCAL_IP": HOST,
        "TZ": ZONE,
        "SPARK_DAEMON_MEMORY": "512m",  # also a Connect server's
        "PYSPARK_PYTHON": sys.executable,
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port

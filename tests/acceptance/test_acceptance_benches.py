"""The benches of the Delay Server on a real one, as small as they can be.

What they find must hold at any size; how fast it was is of no interest here.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.integration.unavailable import unavailable

from halfpast_loadtest import bench
from halfpast_loadtest.errors import ClientUnavailable
from halfpast_loadtest.process_tree import is_alive, tree_of

SMALL: Mapping[str, Mapping[str, str]] = {
    "pending": {"count": "2100", "queries": "30", "settle_s": "0"},
    "burst": {"count": "2000", "lead_s": "7", "consumers": "all", "baseline": "0"},
    "cancel": {"count": "1200", "singles": "200"},
}


@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_early_lost_or_doubled(name: str) -> None:
    result = bench.measure(name, {"mode": "dev", **SMALL[name]})
    assert (result.early, result.lost, result.duplicates or 0) == (0, 0, 0)
    assert result.rate_per_s
    assert result.rate_per_s > 0


def test_under_overload_the_rest_is_refused_and_nothing_taken_is_lost() -> None:
    settings = {"seconds": "1.5", "warmup_s": "0.5", "connections": "600"}
    result = bench.measure("overload", settings)
    overload = result.parts["overload"]
    assert (result.lost, result.duplicates, result.failed) == (0, 0, 0)
    assert overload["accepted_requests"] > 0
    assert overload["refused_requests"] > 0
    for name in ("commits", "health"):
        assert result.parts[name]["answered"] > 0
        assert result.parts[name]["refused"] == 0


def test_rocketmqs_client_is_measured_beside_its_ceiling() -> None:
    settings = {"seconds": "1", "warmup_s": "0.5", "through": "async"}
    try:
        result = bench.measure("rocketmq", settings)
    except ClientUnavailable as error:
        unavailable(str(error))
    assert (result.lost, result.duplicates, result.failed) == (0, 0, 0)
    assert result.server_cpu_us_per_message
    assert result.parts["async"]["ratio"]["of_stub"] > 0


def test_a_bench_that_is_told_to_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    arguments = ["pending", "count=1000000", "mode=dev", f"folder={tmp_path}"]
    program = [sys.executable, "-m", "halfpast_loadtest.bench", *arguments]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("*/data/log")):  # the server is running
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pids = tree_of(process.pid)
    os.kill(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == bench.STOPPED
    assert not out
    assert not [pid for pid in pids if is_alive(pid)]
    assert not list(tmp_path.iterdir())

"""Requests of all kinds, made from the description, find nothing wrong.

schemathesis makes them: examples, each bound of each member, random ones; right and
wrong. No 5xx, no status, type or body that is not described, nothing wrong that is
taken, no method that is not there. It runs as a program, with a fixed seed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.integration.cli_process import Suite

from halfpast_api.openapi.catalogue import OPERATIONS

HERE = Path(__file__).parent
SEED = 20261120
REQUESTS_PER_OPERATION = 4

# Python 3.11 may meet this when Hypothesis reads source text deep in a recursion
# (python/cpython#106905). It says nothing about the server; another seed avoids it.
GENERATOR_DEFECT = "AST constructor recursion depth mismatch"


def test_the_server_does_what_the_description_says(tmp_path: Path) -> None:
    server = Suite("dev", tmp_path / "data", "--port", "0")
    try:
        server.wait_ready()
        done = run(server.address, tmp_path, SEED)
        if GENERATOR_DEFECT in done.stdout:
            done = run(server.address, tmp_path, SEED + 1)
    finally:
        server.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    tested = re.search(r"Tested: (\d+)", done.stdout)
    assert tested, done.stdout
    assert int(tested[1]) == len(OPERATIONS) - 1  # all but the description itself
    count = re.search(r"([\d,]+) generated", done.stdout)
    assert count, done.stdout
    assert int(count[1].replace(",", "")) > 2000


def run(address: str, folder: Path, seed: int) -> subprocess.CompletedProcess[str]:
    words = [
        *("--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{address}/openapi.json"),
        *("--phases", "examples,coverage,fuzzing"),
        *("--seed", str(seed), "--max-examples", str(REQUESTS_PER_OPERATION)),
        *("--workers", "2", "--continue-on-failure", "--no-shrink"),
        *("--generation-database", "none"),
    ]
    return subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *words],
        cwd=folder,
        env={
            **os.environ,
            "NO_COLOR": "1",
            "PYTHONPATH": str(HERE),
            "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

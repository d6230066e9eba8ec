"""Spark's workers read the log with little more than Spark itself needs."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

UNNEEDED = (
    *("aiohttp", "alembic", "cronsim", "pydantic", "rocksdict", "sqlalchemy"),
    *("structlog", "typer", "uuid_utils", "uvloop"),
)
PROGRAM = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ImportError(f"{name} must not be needed on a worker")

sys.meta_path.insert(0, Refuse())
__import__("halfpast_spark." + sys.argv[1])
"""


MODULES = ["log_reader", "log_parts", "options", "names", "live_events"]


@pytest.mark.parametrize("module", MODULES)
def test_reading_needs_no_server_code(repository_root: Path, module: str) -> None:
    command = [sys.executable, "-c", PROGRAM, module, *UNNEEDED]
    done = subprocess.run(command, cwd=repository_root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["data_source", "live_source"])
def test_neither_do_the_sources(repository_root: Path, module: str) -> None:
    pytest.importorskip("pyspark")
    test_reading_needs_no_server_code(repository_root, module)

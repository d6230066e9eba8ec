"""The SDK without SQLAlchemy: it imports none, and says what is missing."""

import subprocess
import sys

import pytest

import halfpast
from halfpast import local_barrier


def test_the_sdk_imports_no_sqlalchemy() -> None:
    program = "import sys, halfpast; assert 'sqlalchemy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_sqlalchemy_there_is_no_barrier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_nothing(name: str) -> None:
        assert name == "sqlalchemy"

    monkeypatch.setattr(local_barrier, "find_spec", find_nothing)
    with pytest.raises(ImportError, match="pip install"):
        halfpast.barrier_table()

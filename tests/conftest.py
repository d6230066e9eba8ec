"""What every test shares: Hypothesis settings, marks by folder, the repository."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
ID_SIZE_MAX = 24
FOLDERS_SKIPPED = {"build", "dist", "node_modules", "__pycache__"}

# The machines that run these tests are shared: a slow example is no failure.
settings.register_profile("halfpast", deadline=None, print_blob=True)
settings.load_profile("halfpast")


def pytest_configure() -> None:
    """A shell that runs something in the background lets it ignore Ctrl-C, and so would
    every program that a test starts, and interrupts. And servers that are started at
    the same time would all want the one port for RocketMQ's clients."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("HALFPAST_API_GRPC_ADDRESS", "off")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long values are named after their parameter and counted. They make no good name,
    and some differ in each process (a key, a time within packed data), while workers
    that share the tests must call each the same."""
    is_long = isinstance(val, str) and len(val) > ID_SIZE_MAX
    is_data = isinstance(val, bytes) and len(val) > ID_SIZE_MAX // 4
    return argname if is_long or is_data else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its folder, so that `-m "not acceptance"` works; and with
    what one worker does alone when several share the work: a file, or all of Spark,
    whose session is dear to start.
    """
    for item in items:
        is_spark = item.path.name.startswith("test_spark_")
        item.add_marker(
            pytest.mark.xdist_group("spark" if is_spark else item.path.stem)
        )
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        if folder in {"unit", "simulation", "integration", "acceptance"}:
            item.add_marker(folder)


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """The folder that holds pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def repository_files(repository_root: Path) -> list[Path]:
    """Every file that is, or would be, committed; absolute and sorted.

    Asks git, so that new files count and ignored ones do not. Outside of a clone (an
    unpacked sdist) it walks the folders instead and leaves out hidden ones.
    """
    files = _files_by_git(repository_root) or _files_by_walk(repository_root)
    assert repository_root / "pyproject.toml" in files
    return sorted(files)


def _files_by_git(root: Path) -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    paths = [root / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]  # not those just deleted


def _files_by_walk(root: Path) -> list[Path]:
    found: list[Path] = []
    for path in root.iterdir():
        if path.is_file():
            found.append(path)
        elif path.name not in FOLDERS_SKIPPED and not path.name.startswith("."):
            found.extend(_files_by_walk(path))
    return found

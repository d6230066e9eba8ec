"""What every test shares: Hypothesis settings, marks by folder, the repository."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
ID_SIZE_MAX = 24
FOLDERS = ("acceptance", "integration", "simulation", "unit")
SPARK = "test_spark_"
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
    """Mark each test with its folder, so that `-m "not acceptance"` works. Those that
    take long come first, so that at the end no worker is left with one of them."""
    for item in items:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        if folder in FOLDERS:
            item.add_marker(folder)
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """Sorting keeps the order of a file, and of those in a folder."""
    if item.path.name.startswith(SPARK):
        return 0
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    return 1 + FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS) + 1


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """One worker does all of a file, in its order, since its tests may share a server;
    and all that is about Spark, whose session is dear to start."""

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        return SPARK if path.name.startswith(SPARK) else str(path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """What `-n` uses."""
    config.option.loadscopereorder = False
    return ByFile(config, log)


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

"""RocketMQ's official Python client, in an environment of its own.

It must not get into ours: it writes logs into the home directory as it is imported, and
what it needs clashes with what we need. The environment is made once for each set of
pins (`rocketmq_client.txt`) and kept in the user's cache.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from halfpast_loadtest.errors import ClientUnavailable

PINS: Final = Path(__file__).with_name("rocketmq_client.txt")
_MARK: Final = ".complete"
_TIMEOUT_S: Final = 600


def client_python() -> Path:
    """The Python that can import `rocketmq`; installs it if need be. Raises
    ClientUnavailable."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = f"rocketmq-python-{version}-{fingerprint(PINS)}"
    with kept_folder(name) as (folder, is_new):
        python = folder / "bin" / "python"
        if is_new:
            for words in _installing(folder, python):
                run(words)
        return python


def client_environment(home: Path) -> dict[str, str]:
    """What it runs with: nothing of ours, and a home into which it may write logs."""
    kept = {"PATH", "LANG", "TZ", "LD_LIBRARY_PATH"}
    known = {name: it for name, it in os.environ.items() if name in kept}
    return {**known, "HOME": str(home), "PYTHONUNBUFFERED": "1"}


@contextmanager
def kept_folder(name: str) -> Generator[tuple[Path, bool]]:
    """A folder in the cache, and whether it has to be filled; whoever fills it does so
    alone, and what is filled only in part is thrown away."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "halfpast" / name
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_new = not (folder / _MARK).exists()
            if is_new and folder.exists():
                shutil.rmtree(folder)
            folder.mkdir(exist_ok=True)
            yield folder, is_new
            (folder / _MARK).touch()
    except OSError as error:
        raise ClientUnavailable(f"{folder}: {error}") from None


def fingerprint(*files: Path) -> str:
    """Tells whether the files are other ones."""
    joined = b"\0".join(file.read_bytes() for file in files)
    return hashlib.sha256(joined).hexdigest()[:12]


def run(words: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Raises ClientUnavailable with what it said, if it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClientUnavailable(str(error)) from None
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        raise ClientUnavailable(f"{words[0]} failed:\n{said[-2000:]}")


def _installing(folder: Path, python: Path) -> Iterator[list[str | Path]]:
    pins: list[str | Path] = ["--quiet", "--require-hashes", "--requirement", PINS]
    if find_spec("uv") is not None:
        uv = (sys.executable, "-m", "uv")
        yield [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder]
        yield [*uv, "pip", "install", "--python", python, *pins]
    else:
        yield [sys.executable, "-m", "venv", "--clear", folder]
        yield [python, "-m", "pip", "install", "--disable-pip-version-check", *pins]

"""Debian's packages, for what benches and tests need beside Python."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_INSTALL: Final = ("install", "-y", "-qq", "--no-install-recommends")


def install(packages: Sequence[str], is_there: Callable[[], bool]) -> str:
    """Install these unless `is_there`; gives what went wrong, or nothing.

    Several processes may ask at once: one installs, the others wait and then find
    that it is there.
    """
    if is_there():
        return ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "there is none, and only root on Debian installs it"
    lock = Path(tempfile.gettempdir()) / "halfpast-apt-get.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        failure = ""
        for words in (
            (*_INSTALL, *packages),
            ("update", "-qq"),
            (*_INSTALL, *packages),
        ):
            if is_there():
                return ""
            failure = _run(words)
    return "" if is_there() else failure or f"{' '.join(packages)} did not bring it"


def _run(words: Sequence[str]) -> str:
    done = subprocess.run(
        ["apt-get", *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    return f"apt-get {' '.join(words)} failed:\n{done.stdout}{done.stderr}"

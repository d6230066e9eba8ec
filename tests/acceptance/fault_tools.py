"""What fault tests need from the system: strace, loop devices, a way to get them.

Whatever cannot be had here skips the test that needs it, with the reason.
"""

import functools
import os
import shutil
import subprocess

import pytest

from halfpast_loadtest.debian_packages import install

PACKAGES = {
    "strace": "strace",
    "mkfs.ext4": "e2fsprogs",
    "losetup": "mount",
    "mount": "mount",
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """A system command to its end, whatever its status."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def need(*programs: str) -> None:
    """Have these programs, installing them if we may, or skip the test."""
    for program in programs:
        if not _installed(program):
            pytest.skip(f"needs {program} (Debian package {PACKAGES[program]})")


def need_strace() -> None:
    """Have a strace that may trace what it starts, or skip the test."""
    need("strace")
    if why := _why_no_tracing():
        pytest.skip(f"strace cannot trace here: {why}")


def need_loop_mounts() -> None:
    """Be somebody who may mount an image, or skip the test."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system of our own needs root")
    need("mkfs.ext4", "losetup", "mount")


@functools.cache
def _installed(program: str) -> bool:
    return not install([PACKAGES[program]], lambda: shutil.which(program) is not None)


@functools.cache
def _why_no_tracing() -> str:
    probe = run("strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "true")
    return "" if probe.returncode == 0 else probe.stderr.strip() or "no reason given"

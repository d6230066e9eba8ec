"""A Java for Spark: Debian's is installed if there is none and we are root."""

import os
import shutil
from pathlib import Path

from halfpast_loadtest.debian_packages import install

PACKAGES = ("openjdk-17-jre-headless", "default-jre-headless")


def find_java() -> str | None:
    """The program that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home and (found := shutil.which("java", path=str(Path(home) / "bin"))):
        return found
    return shutil.which("java")


def missing_java() -> str:
    """Why there is no Java, after trying to install one; empty if there is one."""
    failures = [_missing(package) for package in PACKAGES]
    return "" if "" in failures else failures[0]


def _missing(package: str) -> str:
    return install([package], lambda: find_java() is not None)

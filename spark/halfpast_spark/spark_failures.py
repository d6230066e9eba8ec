"""What Spark says when it gives up, in a sentence: the rest is in its own log."""

import importlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .job_errors import SparkFailed

REASON_MAX = 400
_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|[a-z]Store)): (.+)$", re.M)
_JAVA = re.compile(r"java\.lang\.OutOfMemoryError: [\w ]+")
_HINTS = (
    (
        "No module named",
        "the workers' Python lacks it; name one that has it in PYSPARK_PYTHON",
    ),
    ("OutOfMemoryError", "give Spark more with --memory, or audit a shorter time"),
    ("No space left", "Spark needs room to sort in; name a folder in SPARK_LOCAL_DIRS"),
)


@contextmanager
def spark_failures() -> Generator[None, None, None]:
    """Whatever Spark raises inside comes as SparkFailed."""
    from pyspark.errors import PySparkException

    gateway: Any = importlib.import_module("py4j.protocol")  # it has no types
    try:
        yield
    except (PySparkException, gateway.Py4JError) as error:
        raise SparkFailed(reason_of(str(error))) from error


def reason_of(text: str) -> str:
    """The line that tells what happened, and what may be done about it."""
    found = _line_of(text)[:REASON_MAX]
    for word, hint in _HINTS:
        if word in text:
            return f"{found} ({hint})"
    return found


def _line_of(text: str) -> str:
    """What a Python worker raised, if one did; else the first line."""
    memory = _JAVA.search(text)
    if memory is not None:
        return memory.group()
    _, traceback, behind = text.rpartition("Traceback (most recent call last)")
    lines = _PYTHON.findall(behind) if traceback else []
    if lines:
        return ": ".join(lines[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it does not say why"

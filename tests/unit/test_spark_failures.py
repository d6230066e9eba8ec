"""What is left of Spark's words when it gives up."""

import pytest

from halfpast_spark.spark_failures import reason_of

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
{}
"""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "ModuleNotFoundError: No module named 'numpy'",
            "ModuleNotFoundError: No module named 'numpy' (the workers' Python lacks "
            "it; name one that has it in PYSPARK_PYTHON)",
        ),
        (
            "halfpast_spark.errors.NoStore: /data is no data folder of Halfpast",
            "NoStore: /data is no data folder of Halfpast",
        ),
    ],
)
def test_what_a_worker_raised(line: str, reason: str) -> None:
    assert reason_of(WORKER.format(line)) == reason


def test_memory() -> None:
    text = (
        "Job aborted: Task 3 failed:\njava.lang.OutOfMemoryError: Java heap space\nat"
    )
    assert reason_of(text) == (
        "java.lang.OutOfMemoryError: Java heap space (give Spark more with --memory, "
        "or audit a shorter time)"
    )


def test_anything_else_is_its_first_line() -> None:
    assert reason_of("\n[CODE] It is so.\nmore\n") == "[CODE] It is so."
    assert reason_of("") == "it does not say why"

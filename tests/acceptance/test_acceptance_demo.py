"""`make demo` on a real server: every promise kept, in less than a minute."""

import subprocess
import sys
import time


def test_the_demo_keeps_every_promise_within_a_minute() -> None:
    began = time.monotonic()
    demo = subprocess.run(
        [sys.executable, "-m", "halfpast_loadtest.demo"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "All promises kept" in demo.stdout
    assert time.monotonic() - began < 60
    rows = counts(demo.stdout)
    assert rows["orders delivered"] == rows["orders in the database"] > 100
    assert rows["refused orders"] + rows["orders in the database"] == 200
    assert rows["kills of the service"] == 4
    assert rows["committed by check-back"] >= 4  # those whose service was killed
    assert rows["unbalanced orders"] == 0


def counts(printed: str) -> dict[str, int]:
    """The numbers of the report's table, by what they count."""
    cells = (line.split("│") for line in printed.splitlines() if line.startswith("│"))
    return {row[1].strip(): int(row[2]) for row in cells if row[2].strip().isdigit()}

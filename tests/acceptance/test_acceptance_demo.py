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

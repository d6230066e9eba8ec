"""The promises under SIGKILL, with real processes: see crash_driver.py.

HALFPAST_CRASH_SEED=N repeats the choices of an earlier run.
"""

import os
import random

import pytest
from tests.acceptance.crash_driver import CrashConfig, CrashReport, run_crashes


@pytest.mark.asyncio
@pytest.mark.parametrize(("mode", "kill_count"), [("dev", 12), ("up", 10)])
async def test_nothing_is_lost_early_or_twice_under_sigkill(
    mode: str, kill_count: int
) -> None:
    drawn = random.SystemRandom().getrandbits(32)
    seed = int(os.environ.get("HALFPAST_CRASH_SEED", drawn))
    report = await run_crashes(CrashConfig(mode=mode, kill_count=kill_count, seed=seed))
    print(report)
    assert not report.problems, str(report)
    assert_the_run_was_no_idle_one(report, kill_count)


def assert_the_run_was_no_idle_one(report: CrashReport, kill_count: int) -> None:
    done = report.tally.counts
    assert sum(report.kills.counts.values()) >= kill_count, str(report)
    assert done.get("acked now", 0) > 100, str(report)
    assert done.get("acked later", 0) > 100, str(report)
    assert done.get("cancelled", 0) > 10, str(report)
    assert done.get("moved", 0) > 10, str(report)

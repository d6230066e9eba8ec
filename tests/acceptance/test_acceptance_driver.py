"""The crash driver itself: it passes an honest server and catches lying ones."""

import shutil
import sys

import pytest
from tests.acceptance.crash_driver import CrashConfig, CrashReport, run_crashes

FAKE = (sys.executable, "-m", "tests.acceptance.fake_server")


async def crash_fake(fault: str, mode: str = "dev") -> CrashReport:
    extra = ("--fault", fault) if fault else ()
    report = await run_crashes(
        CrashConfig(
            mode=mode,
            kill_count=2,
            seed=7,
            alive_s=(0.2, 0.4),
            delay_ms_max=600,
            quiet_s=0.4,
            program=(*FAKE, *extra),
        )
    )
    shutil.rmtree(report.folder, ignore_errors=True)
    return report


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["dev", "up"])
async def test_an_honest_server_passes(mode: str) -> None:
    report = await crash_fake("", mode)
    assert not report.problems, str(report)
    assert sum(report.kills.counts.values()) >= 2


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("amnesia", "lost"),
        ("early", "early"),
        ("double", "duplicate"),
        ("deaf", "cancelled_but_delivered"),
    ],
)
async def test_a_lying_server_is_caught(fault: str, kind: str) -> None:
    report = await crash_fake(fault)
    assert kind in {problem.kind for problem in report.problems}, str(report)

"""Transactions under SIGKILL, with real processes: see transaction_crashes.py.

HALFPAST_CRASH_SEED=N repeats the choices of an earlier run.
"""

import os
import random
import shutil
import sys

import pytest
from tests.acceptance.transaction_crashes import (
    TransactionCrashConfig,
    TransactionCrashReport,
    run_transaction_crashes,
)

LIAR = (sys.executable, "-m", "tests.acceptance.transaction_liar")


def some_seed() -> int:
    drawn = random.SystemRandom().getrandbits(32)
    return int(os.environ.get("HALFPAST_CRASH_SEED", drawn))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("mode", "kill_count", "stop_count", "count"),
    [("dev", 6, 3, 600), ("up", 30, 8, 5000)],
)
async def test_what_is_delivered_is_what_the_databases_say(
    mode: str, kill_count: int, stop_count: int, count: int
) -> None:
    config = TransactionCrashConfig(
        mode=mode,
        kill_count=kill_count,
        stop_count=stop_count,
        seed=some_seed(),
        transaction_count=count,
    )
    report = await run_transaction_crashes(config)
    print(report)
    assert not report.problems, str(report)
    assert_the_run_was_no_idle_one(report, config)


def assert_the_run_was_no_idle_one(
    report: TransactionCrashReport, config: TransactionCrashConfig
) -> None:
    assert report.books is not None
    assert report.kills.total() - report.kills["between both phases"] >= (
        config.kill_count
    )
    assert report.kills["between both phases"] >= 1, str(report)
    assert len(report.books.placed) > config.transaction_count * 0.6, str(report)
    assert len(report.books.outcomes) >= config.transaction_count, str(report)
    for ending, share in {
        "committed by producer": 0.3,
        "committed by check": 0.02,
        "rolled_back by producer": 0.02,
        "rolled_back by check": 0.02,
    }.items():
        wanted = config.transaction_count * share
        assert report.books.endings[ending] > wanted, str(report)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("lie", "kinds"),
    [
        ("guesses", {"lost", "wrong_outcome"}),
        ("leaks", {"not_committed"}),
        ("doubles", {"duplicate"}),
        ("hurries", {"wrong_due_time"}),
    ],
)
async def test_a_lying_server_is_caught(lie: str, kinds: set[str]) -> None:
    report = await run_transaction_crashes(
        TransactionCrashConfig(
            mode="dev",
            kill_count=1,
            seed=11,
            transaction_count=60,
            producer_count=1,
            stop_count=0,
            check_after_ms=400,
            delay_ms_max=600,
            settle_s=3,
            program=(*LIAR, "--lie", lie),
        )
    )
    shutil.rmtree(report.folder, ignore_errors=True)
    assert kinds <= {problem.kind for problem in report.problems}, str(report)

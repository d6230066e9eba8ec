"""Seeded runs of the whole system, and proof that planted bugs are found.

A failure prints its seed; `scripts/simulate 1234` repeats that run, and
`scripts/simulate --minutes 30` looks for new ones.
"""

import os
from collections import Counter
from typing import Any

import pytest
from tests.simulation.sim_bugs import BUGS
from tests.simulation.sim_run import run
from tests.simulation.sim_settings import FOCUS_OF_SEED

from halfpast_core_store.record import RecordKind
from halfpast_txn.transactions import TransactionState

RUNS = int(os.environ.get("HALFPAST_SIMULATION_RUNS", "1200"))
BUG_RUNS = 900

DECIDED = {
    RecordKind.CANCEL,
    RecordKind.RESCHEDULE,
    RecordKind.REPLACE,
    RecordKind.FAILED,
    RecordKind.DEAD,
    RecordKind.REDRIVEN,
    RecordKind.OCCURRED,
    RecordKind.RECURRING_ENDED,
    RecordKind.BULK_CANCEL,
    RecordKind.BULK_RESCHEDULE,
}

# Seeds that once found a bug, kept for ever.
REGRESSIONS: list[int] = []


def fails(seed: int, **planted: Any) -> bool:
    """Whether this run ends in anything but peace. A planted bug that does not fit
    the code any more proves nothing, so it is not taken for found."""
    try:
        run(seed, **planted)
    except (AttributeError, NameError, TypeError):
        raise
    except Exception:
        return True
    return False


@pytest.mark.parametrize("part", range(8))
def test_every_promise_holds_whatever_crashes(part: int) -> None:
    crashes = 0
    checks = 0
    check_backs = 0
    states: Counter[TransactionState] = Counter()
    decided: Counter[int] = Counter()
    for seed in [*REGRESSIONS, *range(RUNS)][part::8]:
        try:
            world = run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        crashes += world.crashes
        checks += world.model.checks
        check_backs += world.transaction_model.check_count
        states.update(world.transaction_model.states)
        decided.update(world.timers.counts)
    assert crashes > 0
    assert checks > 0
    assert check_backs > 0
    assert states.keys() == {*TransactionState}
    assert states.pop(TransactionState.PREPARED) == 0
    assert min(states.values()) > 0
    assert decided.keys() >= DECIDED, "something never happens"


@pytest.mark.parametrize("seed", range(len(FOCUS_OF_SEED)))
def test_a_seed_replays_exactly(seed: int) -> None:
    first, second = run(seed), run(seed)
    assert first.disk.memory.names() == second.disk.memory.names()
    assert first.index.contents() == second.index.contents()
    assert first.delay.index.contents() == second.delay.index.contents()
    indexes = first.transactions.index, second.transactions.index
    assert indexes[0].contents() == indexes[1].contents()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    assert any(fails(seed, **BUGS[bug]) for seed in range(BUG_RUNS)), bug

"""Looking for seeds that fail, or at one that did. See `scripts/simulate`."""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping

from tests.simulation.sim_run import run
from tests.simulation.sim_world import World

from halfpast_core_store.record import RecordKind


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="the one run to repeat")
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    if options.seed is not None:
        world = run(options.seed)
        print(f"seed {options.seed}: every promise held, {world.crashes} crashes")
        print(told(world))
        return 0
    end = time.monotonic() + options.minutes * 60
    runs = crashes = 0
    begun = check_backs = 0
    decided: Counter[int] = Counter()
    failed: list[int] = []
    while time.monotonic() < end:
        seed = random.getrandbits(48)
        runs += 1
        try:
            world = run(seed)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {error!r}", flush=True)
        else:
            crashes += world.crashes
            begun += sum(world.transaction_model.states.values())
            check_backs += world.transaction_model.check_count
            decided.update(world.timers.counts)
    print(f"{runs} runs, {crashes} crashes, {len(failed)} failed")
    print(f"{begun} transactions, {check_backs} check-backs")
    print(f"records about timers: {told_of(decided)}")
    return 1 if failed else 0


def told(world: World) -> str:
    """What became of the transactions of one run."""
    states = world.transaction_model.states.items()
    ends = ", ".join(f"{count} {state.name.lower()}" for state, count in states)
    backs = world.transaction_model.check_count
    timers = told_of(world.timers.counts)
    return f"transactions: {ends}; {backs} check-backs; records about timers: {timers}"


def told_of(counts: Mapping[int, int]) -> str:
    """How often each kind of record was written."""
    kinds = sorted(counts.items())
    return ", ".join(f"{count} {RecordKind(kind).name}" for kind, count in kinds)


if __name__ == "__main__":
    sys.exit(main())

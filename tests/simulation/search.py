"""Looking for seeds that fail, or at one that did. See `scripts/simulate`."""

import argparse
import random
import sys
import time

from tests.simulation.sim_world import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="the one run to repeat")
    parser.add_argument("--minutes", type=float, default=5.0)
    options = parser.parse_args()
    if options.seed is not None:
        world = run(options.seed)
        print(f"seed {options.seed}: every promise held, {world.crashes} crashes")
        return 0
    end = time.monotonic() + options.minutes * 60
    runs = crashes = 0
    failed: list[int] = []
    while time.monotonic() < end:
        seed = random.getrandbits(48)
        runs += 1
        try:
            crashes += run(seed).crashes
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {error!r}", flush=True)
    print(f"{runs} runs, {crashes} crashes, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

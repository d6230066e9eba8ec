"""One run of a world: so many things happen, in an order that the seed chooses.

How often each happens changes a few times within a run, and some things do not happen
at all for a while: what hides in the quiet between two kinds of work is found too.
"""

from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Any

from tests.simulation.sim_ending import finish
from tests.simulation.sim_settings import STEPS, Focus
from tests.simulation.sim_world import World

Act = Callable[[World], None]

MACHINES: list[tuple[Act, float]] = [
    (World.store_step, 40),
    (World.delay_step, 25),
    (lambda world: world.processes.step(), 25),
    (World.time_step, 12),
    (lambda world: world.calls.deliver(), 20),
    (World.check, 1),
]
CLIENTS: list[tuple[Act, float]] = [
    (lambda world: world.clients.publish(), 8),
    (lambda world: world.clients.publish_keyed(), 3),
    (lambda world: world.clients.decide(), 5),
    (lambda world: world.clients.put(), 2),
    (lambda world: world.readers.pop(), 4),
    (lambda world: world.readers.settle(), 4),
    (lambda world: world.followers.pop(), 4),
    (lambda world: world.followers.settle(), 4),
]
PRODUCERS: list[tuple[Act, float]] = [
    (lambda world: world.producers.begin(), 6),
    (lambda world: world.producers.advance(), 25),
    (lambda world: world.producers.operate(), 1),
    (lambda world: world.endpoints.answer(), 8),
]
SCHEDULERS: list[tuple[Act, float]] = [
    (lambda world: world.schedulers.make_schedule(), 3),
    (lambda world: world.schedulers.change_schedule(), 2),
    (lambda world: world.schedulers.begin_operation(), 3),
    (lambda world: world.schedulers.cancel_operation(), 0.3),
    (lambda world: world.schedulers.redrive(), 4),
    (lambda world: world.settings.change(), 7),
    (lambda world: world.delay.look_at_settings(), 2),
    (World.clock_step, 0.6),
    (World.stand_still, 2),
]
MISHAPS: list[tuple[Act, float]] = [
    (World.flush_step, 3),
    (World.crash_broker, 0.6),
    (World.crash_delay, 0.6),
    (lambda world: world.processes.cut(), 1),
    (lambda world: world.processes.crash(), 0.6),
    (lambda world: world.delay.connection.cut(), 0.6),
]
ACTORS = (*CLIENTS, *PRODUCERS, *SCHEDULERS)
ACTS = [act for act, _ in (*MACHINES, *ACTORS, *MISHAPS)]
SHARES = (0, 0.5, 1, 1, 2)
SHARES_IF_QUIET = (0, 0, 0, 0, 1, 3)
SHARES_IF_FORGETFUL = (1, 2, 4)
PHASES = 3


def weights(random: Random, focus: Focus, *, forgets: bool) -> list[float]:
    """How often each of them happens for a while."""
    of_transactions = 0 if focus == Focus.TIMERS else 1
    of_timers = 0 if focus == Focus.BROKER else 1
    shares = SHARES if random.random() < 0.6 else SHARES_IF_QUIET
    shares_of_mishaps = SHARES_IF_FORGETFUL if forgets else SHARES
    return [
        *(weight for _, weight in MACHINES),
        *(weight * random.choice(shares) for _, weight in CLIENTS),
        *(weight * random.choice(shares) * of_transactions for _, weight in PRODUCERS),
        *(weight * random.choice(shares) * of_timers for _, weight in SCHEDULERS),
        *(weight * random.choice(shares_of_mishaps) for _, weight in MISHAPS),
    ]


def run(seed: int, **planted: Any) -> World:
    """One whole run; raises Broken when a promise was."""
    world = World(seed, **planted)
    for _ in range(PHASES):
        often = [*accumulate(weights(world.random, world.focus, forgets=world.forgets))]
        for act in world.random.choices(ACTS, cum_weights=often, k=STEPS // PHASES):
            act(world)
    finish(world)
    return world

"""Letting a run come to rest, and checking all that is left."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.sim_checks import check_rebuilt, check_transactions
from tests.simulation.sim_model import demand
from tests.simulation.sim_settings import Focus

from halfpast_chronos import keys

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

ROUNDS_MAX = 250
ROUND_NS = 20_000_000
LONG_ROUND_NS = 60_000_000  # where things recur, and are seconds ahead
LATE_MS = 400
MS_NS = 1_000_000
SECOND_NS = 1_000_000_000


def finish(world: "World") -> None:
    """Let everything that is due come, then check it all."""
    world.armed = False
    world.processes.former = None
    # First what refuses goes on to do so: only what is dead, or recurs, is left.
    world.settings.let_go()
    world.delay.look_at_settings()
    settle(world, lambda: is_quiet(world))
    check_pending(world)
    world.check()
    # Then all is taken, also what was dead: nothing is left.
    world.create_late_topic()
    world.settings.open_all()
    world.delay.look_at_settings()
    settle(world, lambda: is_over(world))
    world.drain_store()
    world.delay.catch_up()
    world.transactions.catch_up()
    world.check(final=True)
    check_transactions(world)
    check_timers(world)
    world.clock.pass_ns(SECOND_NS)  # nothing is hidden any more
    world.clock.pass_ns(world.clock.set_back_ms * MS_NS)
    world.readers.consume_all()
    world.followers.consume_all()
    if world.store.log.start == 0:
        check_rebuilt(world)


def settle(world: "World", is_done: Callable[[], bool]) -> None:
    is_plain = world.focus == Focus.BROKER
    for _ in range(ROUNDS_MAX):
        world.clock.pass_ns(ROUND_NS if is_plain else LONG_ROUND_NS)
        world.drain_store()
        world.delay.step()
        world.processes.step()
        for _ in range(3):
            world.producers.advance()
            world.endpoints.answer()
        while world.calls.waiting:
            world.calls.deliver()
        if is_done():
            break


def is_quiet(world: "World") -> bool:
    """Whether nothing comes but what recurs."""
    end = world.store.log.durable_end
    return (
        not world.store.lanes
        and world.transactions.claims.live
        and not world.transactions.core.claims
        and world.delay.live
        and not world.delay.core.claims
        and world.delay.core.position == end
        and world.transactions.core.position == end
        and not world.delay.operations.running()
        and not world.transactions.index.scan(b"T", b"U", 1)
        and not any(timer.is_pending for timer in world.timers.timers.values())
        and not late(world)
    )


def is_over(world: "World") -> bool:
    """Whether nothing will come any more: all that recurs is ended, and all that is
    dead is tried again."""
    if not world.delay.live:
        return False
    ended, redriven = world.schedulers.end_all(), world.schedulers.redrive_all()
    return ended and redriven and is_quiet(world)


def late(world: "World") -> list[str]:
    """What should have fired for a while."""
    pending = world.delay.index.scan_keys(b"T", b"U", 10_000)
    until_ms = world.now_ms - LATE_MS
    return [key.hex() for key in pending if keys.timer_due_ms(key) < until_ms]


def check_pending(world: "World") -> None:
    """Nothing that is due is forgotten."""
    forgotten = late(world)
    demand(not forgotten, 2, f"{forgotten} are due, and nobody fires them")


def check_timers(world: "World") -> None:
    """Nothing is held for ever."""
    core = world.delay.core
    left = world.delay.index.scan_keys(b"T", b"U", 10_000)
    demand(not left, 2, f"{left} are pending for ever")
    demand(not core.claims, 7, f"{core.claims} are claimed for ever")
    running = world.delay.operations.running()
    demand(not running, 9, f"{running} run for ever")
    while core.due_counts.step() or core.history.step():
        pass
    demand(core.due_counts.is_exact, 7, "counts are in doubt for ever")
    world.timers.check(world.delay)

"""Letting a run come to rest, and checking all that is left."""

from typing import TYPE_CHECKING

from tests.simulation.sim_checks import check_rebuilt, check_transactions

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

ROUNDS_MAX = 250
ROUND_NS = 20_000_000
SECOND_NS = 1_000_000_000


def finish(world: "World") -> None:
    """Let everything that is due come, then check it all."""
    world.armed = False
    world.processes.former = None
    for _ in range(ROUNDS_MAX):
        world.clock.pass_ns(ROUND_NS)
        world.drain_store()
        world.core_step()
        world.processes.step()
        for _ in range(3):
            world.producers.advance()
            world.endpoints.answer()
        while world.calls.waiting:
            world.calls.deliver()
        if is_quiet(world):
            break
    world.drain_store()
    world.catch_up()
    world.transactions.catch_up()
    world.check(final=True)
    check_transactions(world)
    world.clock.pass_ns(SECOND_NS)  # nothing is hidden any more
    world.readers.consume_all()
    if world.store.log.start == 0:
        check_rebuilt(world)


def is_quiet(world: "World") -> bool:
    """Whether nothing will come any more."""
    end = world.store.log.durable_end
    return (
        not world.store.lanes
        and world.transactions.claims.live
        and not world.transactions.core.claims
        and world.core.position == end
        and world.transactions.core.position == end
        and not world.delay_index.scan(b"T", b"U", 1)
        and not world.transactions.index.scan(b"T", b"U", 1)
    )

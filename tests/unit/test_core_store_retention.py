"""Retention never takes what somebody still needs."""

import pytest
from tests.unit.core_store_world import World

from halfpast_core_store.pending import Sealed


def filled() -> World:
    """Four segments of old messages, and a flushed index."""
    world = World()
    for _ in range(8):
        world.publish([bytes(7000)])
        world.clock.advance(10)
    world.clock.advance(world.config.log.retention_ms)
    assert len(world.store.log.segments) == 4
    return world


def release(world: World) -> None:
    """The Delay Server has taken over everything."""
    token, end = world.store.acquire("chronos")
    world.store.hold("chronos", token, end)


def bases(world: World) -> list[int]:
    return [segment.base for segment in world.store.log.segments]


def test_old_segments_go_at_last() -> None:
    world = filled()
    world.store.flush(world.store.log.durable_end)
    release(world)
    world.store.housekeep()
    assert len(bases(world)) == 1
    assert len(world.disk.names()) == 5, "they are not deleted yet"
    world.store.log.delete_forgotten()
    assert len(world.disk.names()) == 2, "the one that is written, and the next"
    world.crash()
    assert len(bases(world)) == 1


def test_nothing_goes_before_the_index_is_flushed() -> None:
    world = filled()
    release(world)
    world.store.housekeep()
    assert len(bases(world)) == 4


def test_nothing_goes_before_the_delay_server_has_it() -> None:
    world = filled()
    world.store.flush(world.store.log.durable_end)
    world.store.housekeep()
    assert len(bases(world)) == 4
    token, _ = world.store.acquire("chronos")
    world.store.hold("chronos", token, bases(world)[2] + 8)
    world.store.housekeep()
    assert len(bases(world)) == 2


@pytest.mark.parametrize("flushed", [True, False])
def test_a_hold_is_kept_over_a_restart_or_else_everything_is(flushed: bool) -> None:
    world = filled()
    token, end = world.store.acquire("chronos")
    world.store.hold("chronos", token, end)
    if flushed:
        world.index.flush()
    world.crash()
    world.store.flush(world.store.log.durable_end)
    world.store.housekeep()
    assert len(bases(world)) == (1 if flushed else 4)


def test_messages_that_are_kept_are_read_after_retention_and_restart() -> None:
    world = filled()
    world.publish([b"fresh"])
    world.store.flush(world.store.log.durable_end)
    release(world)
    world.store.housekeep()
    world.store.log.delete_forgotten()
    for restart in (world.pump, world.crash):
        restart()
        topic = world.topic().id
        begin = world.store.queues.begin(topic, 0)
        assert begin > 0
        found = world.store.queues.read(topic, 0, begin, 10, 1 << 30)
        assert found[-1].offset == 8


def test_a_crash_between_forgetting_and_deleting_is_harmless() -> None:
    world = filled()
    world.store.flush(world.store.log.durable_end)
    release(world)
    world.index.flush()
    while not world.store.housekeep():
        pass
    world.index.flush()
    world.crash()  # the files are still there
    assert world.store.log.start == 0
    world.publish([b"fresh"])
    plan = world.pop(count=100)
    assert [message.offset for message in plan.delivered][-1] == 8
    world.store.housekeep()
    world.store.log.delete_forgotten()
    assert world.store.log.start > 0


def test_who_takes_a_role_for_the_first_time_holds_the_log_for_good() -> None:
    world = filled()
    world.store.acquire("txn")
    world.crash()
    world.store.flush(world.store.log.durable_end)
    release(world)
    world.store.housekeep()
    assert len(bases(world)) == 4


def test_the_last_applied_frame_stays_if_nothing_was_stored_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.publish([bytes(7000)])
    world.publish([bytes(7000)])
    world.index.flush()

    def lose_power() -> None:
        raise OSError("no power")

    def write_unsynced(sealed: Sealed) -> None:
        monkeypatch.setattr(sealed.write.segment.file, "sync", lose_power)
        world.store.log.write(sealed.write)

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write", write_unsynced)
        with pytest.raises(OSError, match="no power"):
            world.publish([bytes(7000)])
    world.crash()
    _, behind = bases(world)
    assert world.store.log.durable_end == behind
    world.store.flush(behind)
    release(world)
    world.publish([b"fresh"])
    world.clock.advance(2 * world.config.log.retention_ms)
    world.store.housekeep()
    world.store.log.delete_forgotten()
    world.crash()
    assert world.store.log.durable_end > behind

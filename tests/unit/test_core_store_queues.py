"""Consume queues: what stands in them, in order, and what retention leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core_store_world import World

from halfpast_core_store.errors import CorruptLog, OffsetOutOfRange
from halfpast_core_store.queues import QueuedRecord
from halfpast_core_store.record import decode_record
from halfpast_core_store.segment import segment_name

ALL = 1 << 40


def read(
    world: World,
    offset: int = 0,
    count: int = 1000,
    size_max: int = ALL,
    queue: int = 0,
) -> list[QueuedRecord]:
    topic = world.topic().id
    return world.store.queues.read(topic, queue, offset, count, size_max)


def bodies(found: list[QueuedRecord]) -> list[bytes]:
    return [decode_record(queued.record).body for queued in found]


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % i for i in range(first, first + count)]


@given(
    st.lists(st.integers(1, 5), max_size=6),
    st.integers(0, 30),
    st.integers(1, 10),
    st.integers(1, 800),
)
def test_any_stretch_can_be_read_across_runs(
    requests: list[int], offset: int, count: int, size_max: int
) -> None:
    world = World()
    world.topic()
    total = 0
    for size in requests:
        world.publish(numbered(size, total))
        total += size
    if offset > total:
        with pytest.raises(OffsetOutOfRange) as raised:
            read(world, offset)
        assert (raised.value.offset_min, raised.value.offset_max) == (0, total)
        return
    found = read(world, offset, count, size_max)
    assert bodies(found) == numbered(len(found), offset)
    assert [queued.offset for queued in found] == list(
        range(offset, offset + len(found))
    )
    assert len(found) <= min(count, total - offset)
    sizes = [len(queued.record) for queued in found]
    assert len(found) == 1 or sum(sizes) <= size_max
    assert found or offset == total, "one at least, if there is one"


def test_reading_on_and_on_reaches_everything() -> None:
    world = World()
    for first in range(0, 600, 2):
        world.publish(numbered(2, first))
    offset = 0
    while found := read(world, offset, count=599):
        assert bodies(found)[0] == b"%d" % offset
        offset = found[-1].offset + 1
    assert offset == 600


def test_queues_of_a_topic_are_apart() -> None:
    world = World()
    world.topic(queue_count=3)
    world.publish([b"a"], queue=0)
    world.publish([b"b"], queue=2)
    world.publish([b"c"], queue=2)
    assert bodies(read(world, queue=0)) == [b"a"]
    assert read(world, queue=1) == []
    assert bodies(read(world, queue=2)) == [b"b", b"c"]


def test_an_empty_queue_begins_and_ends_at_zero() -> None:
    world = World()
    topic = world.topic().id
    assert (world.store.queues.begin(topic, 0), world.store.queues.end(topic, 0)) == (
        0,
        0,
    )
    assert read(world) == []
    with pytest.raises(OffsetOutOfRange):
        read(world, 1)


@pytest.mark.parametrize("offset", [-1, -(2**70), 4, 2**63, 2**64, 2**70])
def test_offsets_outside_of_the_queue_are_refused(offset: int) -> None:
    world = World()
    world.publish(numbered(3))
    with pytest.raises(OffsetOutOfRange) as raised:
        read(world, offset)
    error = raised.value
    assert (error.offset, error.offset_min, error.offset_max) == (offset, 0, 3)


def test_at_its_end_a_queue_gives_nothing() -> None:
    world = World()
    world.publish(numbered(3))
    assert read(world, 3) == []


def test_store_times_are_told() -> None:
    world = World()
    first = world.publish([b"a"])
    world.clock.advance(10)
    second = world.publish([b"b"])
    assert [q.stored_ms for q in read(world)] == [first.stored_ms, second.stored_ms]


def test_a_flipped_bit_is_reported_after_a_restart() -> None:
    world = World()
    position = world.publish([b"a" * 50]).position
    world.index.flush()
    world.publish([b"b"])
    world.index.flush()
    world.crash()
    world.disk.damage(segment_name(0), position + 150, 1)
    with pytest.raises(CorruptLog):
        read(world)
    assert bodies(read(world, 1)) == [b"b"]


# --- retention ----------------------------------------------------------------


def trimmed() -> World:
    """A world of which the first segments are gone, with their index entries
    still there."""
    world = World()
    topic = world.topic("orders", 3)
    world.publish([b"z"], queue=2)
    for first in range(0, 40, 4):
        world.publish([number.ljust(800) for number in numbered(4, first)])
    assert world.store.queues.begin(topic.id, 0) == 0
    world.store.log.forget(world.store.log.segments[:2])
    world.store.log.delete_forgotten()
    assert 0 < world.store.queues.begin(topic.id, 0) < 40
    return world


def purge(world: World, limit: int = 200) -> None:
    start: bytes | None = b""
    for _ in range(1000):
        assert start is not None
        start = world.store.queues.purge(start, limit)
        if start is None:
            return
    pytest.fail("the purge has no end")


@pytest.mark.parametrize("limit", [0, 2, 3, 200])
def test_a_queue_begins_behind_what_is_gone(limit: int) -> None:
    world = trimmed()
    begin = world.store.queues.begin(world.topic().id, 0)
    if limit:
        purge(world, limit)
    for offset in (0, 1, begin - 1):
        with pytest.raises(OffsetOutOfRange) as raised:
            read(world, offset)
        assert (raised.value.offset_min, raised.value.offset_max) == (begin, 40)
    assert len(read(world, begin)) == 40 - begin
    assert bodies(read(world, begin, 1)) == [(b"%d" % begin).ljust(800)]


def test_a_purge_leaves_what_can_be_read_and_the_last_run() -> None:
    world = trimmed()
    topic = world.topic().id
    before = [k for k in world.index.contents() if k[:1] == b"Q"]
    purge(world)
    after = [k for k in world.index.contents() if k[:1] == b"Q"]
    assert len(after) < len(before)
    # All of queue 2 is gone, but the next message must not get an old offset.
    queues = world.store.queues
    assert (queues.begin(topic, 2), queues.end(topic, 2)) == (1, 1)
    assert read(world, 1, queue=2) == []
    with pytest.raises(OffsetOutOfRange):
        read(world, 0, queue=2)
    world.crash(batches=10_000)
    world.publish([b"y"], queue=2)
    assert [q.offset for q in read(world, 1, queue=2)] == [1]


def test_a_purge_skips_the_rest_of_a_queue() -> None:
    world = World()
    world.topic("a")
    for _ in range(50):
        world.publish([b"x"], topic="a")
    world.publish([b"y"], topic="b")
    steps = 0
    start: bytes | None = b""
    while start is not None:
        start = world.store.queues.purge(start, 10)
        steps += 1
    assert steps == 2


def test_housekeeping_is_tidy_when_nothing_is_left_to_purge() -> None:
    world = trimmed()
    calls = 1
    while not world.store.housekeep():
        calls += 1
        assert calls < 100
    assert world.store.housekeep()

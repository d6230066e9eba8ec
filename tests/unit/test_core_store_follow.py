"""Following the log: the wanted records, in order, each once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core_store_world import World

from halfpast_core_store.broker import Follow, Followed, Run
from halfpast_core_store.errors import OffsetOutOfRange
from halfpast_core_store.follow import follow
from halfpast_core_store.record import Family, RecordKind
from halfpast_core_store.topics import SYS_FIRED, SYS_SCHEDULE, SYS_TRANS_HALF

TIMERS = Family.TIMERS


def ask(
    world: World, position: int = 0, families: int = TIMERS, size_max: int = 1 << 30
) -> Followed:
    return follow(world.store.log, Follow(position, families, 0, size_max))


def schedule(world: World, body: bytes) -> bytes:
    record = world.record(body, kind=RecordKind.SCHEDULE)
    world.append([Run(SYS_SCHEDULE, 0, [record])])
    return record


def everything(world: World, size_max: int = 1 << 30) -> list[bytes]:
    """Follow on and on until the end."""
    records: list[bytes] = []
    position = 0
    while True:
        found = ask(world, position, size_max=size_max)
        for frame in found.frames:
            records += frame.records
        if found.next_position == found.log_end:
            return records
        assert found.next_position > position
        position = found.next_position


def test_an_empty_log_has_nothing_to_follow() -> None:
    assert ask(World()) == Followed([], 0, 0)


def test_only_wanted_records_are_given() -> None:
    world = World()
    world.publish([b"message"])
    wanted = schedule(world, b"timer")
    fired = world.record(b"fired", kind=RecordKind.FIRED)
    half = world.record(b"half", kind=RecordKind.HALF)
    message = world.record(b"message")
    world.append(
        [
            Run(1024, 0, [message]),
            Run(SYS_FIRED, 0, [fired]),
            Run(SYS_TRANS_HALF, 0, [half]),
        ]
    )
    found = ask(world)
    assert [frame.records for frame in found.frames] == [[wanted], [fired]]
    assert found.next_position == found.log_end == world.store.log.durable_end
    both = ask(world, families=TIMERS | Family.TRANSACTIONS)
    assert both.frames[-1].records == [fired, half]


def test_frames_tell_where_they_are() -> None:
    world = World()
    schedule(world, b"1")
    end = world.store.log.durable_end
    schedule(world, b"2")
    first, second = ask(world).frames
    assert (first.position, first.end, second.position) == (0, end, end)
    assert ask(world, end).frames == [second]


def test_following_from_the_end_gives_nothing_yet() -> None:
    world = World()
    schedule(world, b"1")
    end = world.store.log.durable_end
    assert ask(world, end) == Followed([], end, end)
    record = schedule(world, b"2")
    assert ask(world, end).frames[0].records == [record]


def test_what_is_not_durable_is_not_followed() -> None:
    world = World()
    schedule(world, b"1")
    end = world.store.log.durable_end
    with pytest.raises(OffsetOutOfRange):
        ask(world, end + 8)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3000)), max_size=25),
    st.integers(1, 5000),
)
def test_every_wanted_record_comes_once_and_in_order(
    sizes: list[tuple[bool, int]], size_max: int
) -> None:
    world = World()
    wanted: list[bytes] = []
    for timer, size in sizes:
        if timer:
            wanted.append(schedule(world, bytes(size)))
        else:
            world.publish([bytes(size)])
    assert everything(world, size_max) == wanted
    world.crash()
    assert everything(world, size_max) == wanted


def test_many_frames_are_followed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfpast_core_store.follow.FRAMES_MAX", 3)
    world = World()
    for _ in range(10):
        world.publish([b"x"])
    wanted = schedule(world, b"timer")
    assert ask(world).frames == []
    assert everything(world) == [wanted]


def test_what_retention_took_cannot_be_followed() -> None:
    world = World()
    schedule(world, bytes(9000))
    kept = schedule(world, bytes(9000))
    world.store.log.forget(world.store.log.segments[:1])
    assert everything(world) == [kept]
    with pytest.raises(OffsetOutOfRange) as raised:
        ask(world, 8)
    assert raised.value.offset_min == world.store.log.start

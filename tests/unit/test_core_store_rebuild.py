"""Every projection can be deleted: the log gives the same answers again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core_store_world import START_MS, World

from halfpast_core_store.broker import (
    Append,
    CommitOffsets,
    Dedup,
    GroupPolicy,
    Lane,
    Run,
    SettleAction,
)
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_core_store.topics import SYS_SCHEDULE


def busy_world(steps: list[int]) -> World:
    """A store in which a little of everything has happened, by numbers."""
    world = World()
    receipts: list[bytes] = []
    policy = GroupPolicy(attempts_max=2)
    for step, what in enumerate(steps):
        if what == 0:
            world.publish([b"%d" % step] * 3, topic=f"t{step % 3}", tag=b"x")
        elif what == 1:
            world.topic("t0", step % 7 + 1)
        elif what == 2 and world.store.registry.topic("t0"):
            plan = world.pop(topic="t0", count=2, policy=policy, invisible_ms=50)
            receipts += [message.receipt for message in plan.delivered]
        elif what == 3:
            world.settle(SettleAction(step % 3), receipts[-2:], delay_ms=10)
        elif what == 4:
            record = world.record(kind=RecordKind.SCHEDULE)
            seed = b"%016d" % (step % 4)
            dedup = Dedup(seed, b"f" * 16, record[16:32], START_MS * 1_000_000)
            world.append([Run(SYS_SCHEDULE, 0, [record])], dedup=dedup)
        elif what == 5 and world.store.registry.topic("t0"):
            request = CommitOffsets("readers", "t0", {0: 0})
            now_ms = world.clock.now_ms
            world.consumers.commit_offsets(request, now_ms, lambda _: None)
            world.pump()
        elif what == 6:
            world.clock.advance(40)
        elif what == 7:
            world.index.flush()
        elif what == 8:
            world.crash(batches=step % 5)
    return world


steps = st.lists(st.integers(0, 8), max_size=30)


@settings(max_examples=60)
@given(steps)
def test_the_index_is_rebuilt_to_the_same_contents(steps: list[int]) -> None:
    world = busy_world(steps)
    live = world.contents()
    world.rebuild()
    assert world.contents() == live


@settings(max_examples=60)
@given(steps, st.integers(0, 100))
def test_the_index_catches_up_from_wherever_it_was(
    steps: list[int], batches: int
) -> None:
    world = busy_world(steps)
    live = world.contents()
    world.crash(batches=batches)
    assert world.contents() == live


def test_a_crash_while_catching_up_is_made_good() -> None:
    world = busy_world([0, 2, 3, 0, 2, 4] * 5)
    live = world.contents()
    for batches in range(8):
        world.crash(batches=0)
        assert world.contents() == live
        world.index = world.index.crash(batches)
        world.open()
        assert world.contents() == live


def test_requests_of_several_kinds_in_one_frame_are_rebuilt() -> None:
    world = World()
    number = world.topic().id
    for i in range(6):
        runs = [
            Run(number, 0, [world.record(block=100 + i, place=p) for p in range(3)]),
            Run(SYS_SCHEDULE, 0, [world.record(kind=RecordKind.SCHEDULE)]),
        ]
        world.store.submit(Append(runs, Lane(i % 4)), lambda _: None)
    world.pump()
    live = world.contents()
    world.rebuild()
    assert world.contents() == live


# --- finding events ------------------------------------------------------------


def test_every_event_of_a_request_is_found_by_its_id() -> None:
    world = World()
    number = world.topic("orders", 2).id
    first = [world.record(b"a%d" % i, block=7, place=i) for i in range(3)]
    second = [world.record(b"b%d" % i, block=7, place=3 + i) for i in range(3)]
    later = [
        world.record(b"c%d" % i, kind=RecordKind.SCHEDULE, block=7, place=6 + i)
        for i in range(2)
    ]
    answer = world.append(
        [Run(number, 0, first), Run(number, 1, second), Run(SYS_SCHEDULE, 0, later)]
    )
    for restart in (world.pump, world.crash, world.rebuild):
        restart()
        for record in [*first, *second, *later]:
            found = world.store.events.find(record[16:32])
            assert (found.record, found.stored_ms) == (record, answer.stored_ms)


@pytest.mark.parametrize("lane", [Lane.END_TRANSACTION, Lane.SYSTEM])
def test_events_of_many_blocks_in_one_run_are_found(lane: Lane) -> None:
    # Commits of many transactions, or occurrences of many schedules: the live index
    # knew the first and the last, and a rebuilt one knew all.
    world = World()
    number = world.topic().id
    records = [world.record(b"%d" % i, block=50 + i) for i in range(5)]
    world.store.submit(Append([Run(number, 0, records)], lane), lambda _: None)
    world.pump()
    for record in records:
        assert world.store.events.find(record[16:32]).record == record
    live = world.contents()
    world.rebuild()
    assert world.contents() == live


def test_an_event_behind_a_replacement_in_one_run_is_found() -> None:
    world = World()
    replaced = world.record(kind=RecordKind.REPLACE, block=1)
    created = world.record(kind=RecordKind.SCHEDULE, block=2)
    world.append([Run(SYS_SCHEDULE, 0, [replaced, created])])
    assert world.store.events.find(created[16:32]).record == created
    assert world.store.events.find(replaced[16:32]).record is None


def test_an_unknown_event_is_not_found() -> None:
    world = World()
    world.publish([b"x"])
    assert world.store.events.find(bytes(16)).record is None
    stranger = world.record(place=5, block=world.events)  # of a block that is known
    assert world.store.events.find(stranger[16:32]).record is None


def test_a_delivered_timer_is_found_where_it_was_scheduled() -> None:
    world = World()
    number = world.topic().id
    record = world.record(kind=RecordKind.SCHEDULE)
    due = record[:40] + (START_MS).to_bytes(8, "little") + record[48:]
    world.append([Run(SYS_SCHEDULE, 0, [due])])
    fired = due[:4] + bytes([RecordKind.NORMAL]) + due[5:]
    world.append([Run(number, 0, [fired])])
    found = world.store.events.find(due[16:32]).record
    assert found is not None
    assert decode_record(found).kind == RecordKind.SCHEDULE


def test_an_event_that_retention_took_is_not_found_and_is_purged() -> None:
    world = World()
    world.topic()
    old = world.record(bytes(9000))
    number = world.topic().id
    world.append([Run(number, 0, [old])])
    world.clock.advance(1)
    new = world.record(bytes(9000))
    world.append([Run(number, 0, [new])])
    world.clock.advance(world.config.log.retention_ms + 5)
    world.store.flush(world.store.log.durable_end)
    assert not world.store.housekeep() or world.store.log.start == 0
    assert world.store.events.find(old[16:32]).record == old, "chronos still needs it"
    token, end = world.store.acquire("chronos")
    world.store.hold("chronos", token, end)
    while not world.store.housekeep():
        pass
    assert world.store.log.start > 0
    assert world.store.events.find(old[16:32]).record is None
    assert world.store.events.find(new[16:32]).record == new
    assert sum(key[:1] == b"E" for key in world.index.contents()) == 1

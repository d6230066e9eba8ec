"""Dead letters that are offered again, and messages that were not tried."""

import pytest
from tests.unit.core_store_world import World

from halfpast_core_store.broker import CommitOffsets, GroupPolicy, SettleAction
from halfpast_core_store.group_plan import Plan
from halfpast_core_store.group_standing import DescribeGroup
from halfpast_core_store.record import decode_record
from halfpast_core_store.revival import Revive

ONCE = GroupPolicy(attempts_max=1)
DEAD = "%DLQ%readers"


def world_with_dead(count: int) -> World:
    world = World()
    world.topic("orders", 1)
    for i in range(count):
        world.publish([b"%d" % i])
    receipts = [m.receipt for m in world.pop(count=count).delivered]
    assert len(receipts) == count
    world.settle(SettleAction.NACK, receipts, policy=ONCE)
    return world


def revive(world: World, *offsets: int, discard: bool = False) -> list[str]:
    got: list[list[str] | Exception] = []
    request = Revive("readers", list(offsets), discard)
    world.consumers.revive(request, world.clock.now_ms, got.append)
    world.pump()
    (codes,) = got
    assert isinstance(codes, list)
    return codes


def popped(world: World, group: str = "readers") -> list[tuple[bytes, int]]:
    return [
        (decode_record(m.record).body, m.attempt)
        for m in world.pop(group=group).delivered
    ]


def left(world: World) -> int:
    """Dead letters that nobody has dealt with."""
    found = world.consumers.describe(DescribeGroup("readers", DEAD))
    (queue,) = found.queues
    return queue.offset_max - queue.offset + found.in_flight


def test_a_dead_letter_is_offered_to_its_group_alone_as_if_for_the_first_time() -> None:
    world = world_with_dead(2)
    assert popped(world, "others") == [(b"0", 1), (b"1", 1)]
    assert left(world) == 2
    assert revive(world, 0) == [""]
    assert left(world) == 1
    assert popped(world, "others") == []
    assert popped(world) == [(b"0", 1)]


def test_each_dead_letter_can_be_dealt_with_once_and_in_any_order() -> None:
    world = world_with_dead(3)
    assert revive(world, 2, 7) == ["", "not_dead"]
    assert revive(world, 2, 0) == ["not_dead", ""]
    assert left(world) == 1
    assert revive(world, 1, discard=True) == [""]
    assert revive(world, 1) == ["not_dead"]
    assert left(world) == 0
    assert sorted(popped(world)) == [(b"0", 1), (b"2", 1)]


@pytest.mark.parametrize("end", ["reopen", "rebuild"])
def test_what_was_dealt_with_stays_so_over_a_restart(end: str) -> None:
    world = world_with_dead(3)
    assert revive(world, 1) == [""]
    world.crash(lambda _: True) if end == "reopen" else world.rebuild()
    assert revive(world, 1) == ["not_dead"]
    assert left(world) == 2
    assert popped(world) == [(b"1", 1)]


def test_a_revived_message_can_die_again_and_be_revived_again() -> None:
    world = world_with_dead(1)
    assert revive(world, 0) == [""]
    (message,) = world.pop().delivered
    world.settle(SettleAction.NACK, [message.receipt], policy=ONCE)
    assert revive(world, 0, 1) == ["not_dead", ""]
    assert popped(world) == [(b"0", 1)]


def test_a_discarded_dead_letter_is_not_offered() -> None:
    world = world_with_dead(1)
    assert revive(world, 0, discard=True) == [""]
    assert popped(world) == []
    assert left(world) == 0


def test_a_group_that_was_moved_back_gets_the_message_once() -> None:
    world = world_with_dead(1)
    done: list[Plan | Exception] = []
    back = CommitOffsets("readers", "orders", {0: 0})
    world.consumers.commit_offsets(back, world.clock.now_ms, done.append)
    world.pump()
    assert revive(world, 0) == [""]
    assert popped(world) == [(b"0", 1)]


def test_a_message_that_retention_has_taken_is_gone_and_stays_a_dead_letter() -> None:
    world = World()
    world.topic("orders", 1)
    for i in range(30):  # three segments
        world.publish([(b"%02d" % i).ljust(1400)])
    first = world.pop(count=1).delivered
    world.settle(SettleAction.NACK, [first[0].receipt], policy=ONCE)
    world.store.log.forget(world.store.log.segments[:1])
    world.store.log.delete_forgotten()
    while not world.store.housekeep():
        pass
    assert revive(world, 0) == ["gone"]
    assert left(world) == 1
    assert revive(world, 0, discard=True) == [""]


def test_nobody_has_dead_letters_whose_group_or_topic_is_unknown() -> None:
    world = World()
    assert revive(world, 0) == ["not_dead"]


def test_a_released_message_has_used_no_attempt() -> None:
    world = World()
    world.topic("orders", 1)
    world.publish([b"0"])
    for _ in range(5):
        (message,) = world.pop(policy=ONCE).delivered
        assert message.attempt == 1
        results = world.settle(SettleAction.RELEASE, [message.receipt], delay_ms=50)
        assert [result.code for result in results] == [""]
        assert world.pop(policy=ONCE).delivered == []
        world.clock.advance(50)
    assert left_in_flight(world) == [(0, 0, 0, True)]


def test_messages_in_flight_are_listed_by_place() -> None:
    world = World()
    world.topic("orders", 2)
    for queue in (1, 0):
        world.publish([b"a", b"b"], queue=queue)
    messages = world.pop(count=3).delivered
    world.settle(SettleAction.NACK, [messages[0].receipt], delay_ms=5_000)
    listed = left_in_flight(world)
    assert [place[:2] for place in listed] == [(0, 0), (0, 1), (1, 0)]
    assert [place[3] for place in listed].count(True) == 1
    found = world.consumers.describe(DescribeGroup("readers", "orders", 1, (0, 0)))
    assert [(it.queue, it.offset) for it in found.messages] == [(0, 1)]


def left_in_flight(world: World) -> list[tuple[int, int, int, bool]]:
    found = world.consumers.describe(DescribeGroup("readers", "orders", 100))
    return [(it.queue, it.offset, it.attempt, it.is_waiting) for it in found.messages]


def test_a_group_that_is_moved_may_drop_what_it_has_in_flight() -> None:
    world = World()
    world.topic("orders", 1)
    for i in range(4):
        world.publish([b"%d" % i])
    receipts = [message.receipt for message in world.pop(count=3).delivered]
    world.settle(SettleAction.ACK, receipts[:1])
    world.settle(SettleAction.NACK, receipts[1:2], delay_ms=5_000)
    done: list[Plan | Exception] = []
    moved = CommitOffsets("readers", "orders", {0: 4}, drops=True)
    world.consumers.commit_offsets(moved, world.clock.now_ms, done.append)
    world.pump()
    world.clock.advance(60_000)
    assert popped(world) == []
    assert left_in_flight(world) == []
    (result,) = world.settle(SettleAction.ACK, receipts[2:])
    assert result.code == "receipt_expired"

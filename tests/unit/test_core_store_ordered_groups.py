"""Ordered groups: of each key one message at a time, in the order of the offsets."""

from collections.abc import Callable

import msgspec
import pytest
from tests.unit.core_store_world import World

from halfpast_core_store import groups, ordered_planner
from halfpast_core_store.broker import (
    CommitOffsets,
    Delivered,
    GroupPolicy,
    Pop,
    SettleAction,
)
from halfpast_core_store.check_point import CheckPoint
from halfpast_core_store.consumers import Consumers
from halfpast_core_store.errors import CorruptLog
from halfpast_core_store.group_standing import DescribeGroup, GroupDescription
from halfpast_core_store.group_state import CHECK_POINT_DECODER, POP_DECODER
from halfpast_core_store.order_book import OrderBook
from halfpast_core_store.record import decode_record
from halfpast_core_store.revival import Revive
from halfpast_core_store.segment import segment_name

ACK, NACK, EXTEND = SettleAction.ACK, SettleAction.NACK, SettleAction.EXTEND
ORDERED = GroupPolicy(
    attempts_max=3, backoff_initial_ms=1000, backoff_max_ms=3000, ordered=True
)
FREE = GroupPolicy(attempts_max=3)


def world_with(*messages: str) -> World:
    """One queue; the first letter of a message is its key, `-` for none."""
    world = World()
    world.topic("orders", 1)
    publish(world, *messages)
    return world


def publish(world: World, *messages: str) -> None:
    for message in messages:
        key = b"" if message[0] == "-" else message[:1].encode()
        world.publish([message.encode()], key=key)


def take(
    world: World,
    *,
    count: int = 32,
    policy: GroupPolicy = ORDERED,
    invisible_ms: int = 10_000,
) -> dict[str, Delivered]:
    plan = world.pop(count=count, policy=policy, invisible_ms=invisible_ms)
    return {decode_record(it.record).body.decode(): it for it in plan.delivered}


def names(world: World, *, count: int = 32, policy: GroupPolicy = ORDERED) -> list[str]:
    return list(take(world, count=count, policy=policy))


def settle(
    world: World,
    action: SettleAction,
    *messages: Delivered,
    delay_ms: int | None = None,
) -> list[str]:
    receipts = [message.receipt for message in messages]
    results = world.settle(action, receipts, delay_ms=delay_ms, policy=ORDERED)
    return [result.code for result in results]


def described(world: World) -> GroupDescription:
    return world.consumers.describe(DescribeGroup("readers", "orders", ordered=True))


def dead_letters(world: World) -> list[bytes]:
    found = world.pop(group="undertaker", topic="%DLQ%readers").delivered
    return [decode_record(message.record).body for message in found]


# --- one at a time ----------------------------------------------------------------


def test_a_key_gives_one_message_at_a_time_and_others_go_on() -> None:
    world = world_with("a1", "a2", "b1", "-1", "a3", "-2", "b2")
    first = take(world)
    assert list(first) == ["a1", "b1", "-1", "-2"]
    assert names(world) == []
    assert settle(world, ACK, first["a1"]) == [""]
    second = take(world)
    assert list(second) == ["a2"]
    settle(world, ACK, first["b1"], second["a2"])
    assert sorted(names(world)) == ["a3", "b2"]


def test_an_unordered_group_of_the_same_topic_is_not_concerned() -> None:
    world = world_with("a1", "a2")
    assert names(world) == ["a1"]
    plan = world.pop(group="others")
    assert [m.attempt for m in plan.delivered] == [1, 1]


def test_the_first_attempt_of_what_was_held_back_is_number_one() -> None:
    world = world_with("a1", "a2")
    settle(world, ACK, take(world)["a1"])
    assert take(world)["a2"].attempt == 1


def test_keys_of_different_queues_have_nothing_to_do_with_each_other() -> None:
    world = World()
    world.topic("orders", 2)
    world.publish([b"0"], queue=0, key=b"a")
    world.publish([b"1"], queue=1, key=b"a")
    assert sorted(names(world)) == ["0", "1"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_long_line_comes_out_in_its_order(count: int) -> None:
    sent = [f"a{i:03}" for i in range(300)]
    world = world_with()
    for first in range(0, 300, 100):
        some = sent[first : first + 100]
        world.publish([it.encode() for it in some], key=b"a")
    got: list[str] = []
    for _ in sent:
        found = take(world, count=count)
        got += found
        settle(world, ACK, *found.values())
    assert got == sent
    assert described(world).in_flight == 0


# --- what holds a line back -------------------------------------------------------


def test_a_refused_message_holds_its_line_for_the_back_off() -> None:
    world = world_with("a1", "a2", "b1")
    settle(world, NACK, take(world)["a1"])
    assert names(world) == []
    world.clock.advance(999)
    assert names(world) == []
    world.clock.advance(1)
    again = take(world)
    assert (list(again), again["a1"].attempt) == (["a1"], 2)


def test_a_message_whose_time_ran_out_comes_again_before_the_later_ones() -> None:
    world = world_with("a1", "a2")
    first = take(world, invisible_ms=500)
    world.clock.advance(500)
    again = take(world, invisible_ms=500)
    assert (list(again), again["a1"].attempt) == (["a1"], 2)
    assert settle(world, ACK, first["a1"]) == ["receipt_expired"]
    assert names(world) == []
    settle(world, ACK, again["a1"])
    assert names(world) == ["a2"]


def test_an_extended_message_holds_its_line_for_longer() -> None:
    world = world_with("a1", "a2")
    first = take(world, invisible_ms=500)
    settle(world, EXTEND, first["a1"], delay_ms=2000)
    world.clock.advance(1999)
    assert names(world) == []
    world.clock.advance(1)
    assert names(world) == ["a1"]


def test_a_message_that_was_given_back_untried_holds_its_line() -> None:
    world = world_with("a1", "a2")
    settle(world, SettleAction.RELEASE, take(world)["a1"], delay_ms=300)
    assert names(world) == []
    world.clock.advance(300)
    again = take(world)
    assert (list(again), again["a1"].attempt) == (["a1"], 1)


def test_a_dead_letter_lets_the_next_one_go() -> None:
    world = world_with("a1", "a2")
    for attempt in (1, 2, 3):
        found = take(world)
        assert (list(found), found["a1"].attempt) == (["a1"], attempt)
        settle(world, NACK, found["a1"], delay_ms=0)
    assert dead_letters(world) == [b"a1"]
    assert names(world) == ["a2"]


def test_a_message_that_dies_in_silence_lets_the_next_one_go_in_the_same_pop() -> None:
    world = world_with("a1", "a2", "b1")
    for _ in range(3):
        assert sorted(take(world, invisible_ms=100)) == ["a1", "b1"]
        world.clock.advance(100)
    assert names(world) == ["a2"]
    assert sorted(dead_letters(world)) == [b"a1", b"b1"]


def test_what_a_filter_refuses_holds_nothing_back() -> None:
    world = World()
    world.topic("orders", 1)
    world.publish([b"1"], key=b"a", tag=b"no")
    world.publish([b"2"], key=b"a", tag=b"yes")
    plan = world.pop(policy=ORDERED, tags=["yes"])
    assert [decode_record(it.record).body for it in plan.delivered] == [b"2"]


# --- bounds -----------------------------------------------------------------------


def test_so_many_are_held_back_and_then_nobody_looks_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordered_planner, "HELD_BACK_MAX", 3)
    world = world_with("a1", "a2", "a3", "a4", "a5", "b1")
    first = take(world)
    assert list(first) == ["a1"]
    (queue,) = described(world).queues
    assert (queue.offset, described(world).held_back) == (4, 3)
    settle(world, ACK, first["a1"])
    second = take(world)
    assert list(second) == ["a2"]  # and a5 is held back now
    settle(world, ACK, second["a2"])
    assert sorted(names(world)) == ["a3", "b1"]


def test_one_pop_looks_at_so_many_and_asks_to_be_called_again() -> None:
    world = World()
    world.topic("orders", 1)
    world.publish([b"a%03d" % i for i in range(200)], key=b"a")
    publish(world, "b1")
    got: list[str] = []
    for _ in range(20):
        got += names(world)
    assert got == ["a000", "b1"]
    assert described(world).held_back == 199


def test_what_is_in_flight_bounds_what_is_held_back() -> None:
    policy = GroupPolicy(in_flight_max=3, ordered=True)
    world = world_with("a1", "a2", "a3", "a4", "b1")
    first = take(world, policy=policy)
    for _ in range(3):
        assert names(world, policy=policy) == []
    settle(world, ACK, first["a1"])
    assert "a2" in names(world, policy=policy)


def test_the_lag_counts_what_is_held_back() -> None:
    world = world_with("a1", "a2", "a3", "b1")
    take(world)
    found = described(world)
    (queue,) = found.queues
    lag = queue.offset_max - queue.offset + found.in_flight
    assert (lag, found.in_flight, found.held_back) == (4, 4, 2)


# --- restarts ---------------------------------------------------------------------


def crash(world: World) -> None:
    world.crash()


def rebuild(world: World) -> None:
    live = world.contents()
    world.rebuild()
    assert world.contents() == live


@pytest.mark.parametrize("restart", [crash, rebuild])
def test_the_order_holds_over_a_restart(restart: Callable[[World], None]) -> None:
    world = world_with("a1", "a2", "b1", "b2")
    first = take(world)
    settle(world, NACK, first["b1"])
    restart(world)
    assert names(world) == []
    settle(world, ACK, first["a1"])
    assert names(world) == ["a2"]
    restart(world)
    world.clock.advance(1000)
    assert names(world) == ["b1"]
    assert described(world).held_back == 1


# --- groups that were not always ordered ------------------------------------------


def test_what_an_unordered_group_had_taken_holds_back_what_is_behind_it() -> None:
    world = world_with("a1", "b1")
    free = take(world, policy=FREE)
    publish(world, "a2", "b2", "c1")
    assert names(world) == ["c1"]
    settle(world, ACK, free["a1"])
    assert names(world) == ["a2"]
    world.crash()
    assert names(world) == []


def test_two_of_a_key_that_are_out_both_hold_their_line() -> None:
    world = world_with("a1", "a2", "a3")
    take(world, policy=FREE, count=1)
    later = take(world, policy=FREE, count=1, invisible_ms=20_000)
    world.clock.advance(10_000)
    assert names(world) == []  # a1 could come, but somebody has a2
    settle(world, ACK, later["a2"])
    assert names(world) == ["a1"]


def test_much_that_was_taken_unordered_is_learnt_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "LEARN_MAX", 2)
    world = world_with("a1", "b1", "c1", "d1", "e1")
    for _ in range(5):
        take(world, policy=FREE, count=1)
    publish(world, "a2", "e2", "f1")
    got = [names(world) for _ in range(4)]
    assert got == [[], [], ["f1"], []]


def test_a_group_that_stops_being_ordered_gets_what_was_held_back() -> None:
    world = world_with("a1", "a2", "a3")
    take(world)
    assert sorted(names(world, policy=FREE)) == ["a2", "a3"]


def test_a_group_that_is_moved_back_gets_one_at_a_time_of_each_key() -> None:
    world = world_with("a1", "a2", "a3")
    first = take(world)
    settle(world, ACK, first["a1"])
    second = take(world)
    assert list(second) == ["a2"]
    request = CommitOffsets("readers", "orders", {0: 0})
    world.consumers.commit_offsets(request, world.clock.now_ms, lambda _: None)
    world.pump()
    assert names(world) == []
    settle(world, ACK, second["a2"])
    assert names(world) == ["a1"]
    assert names(world) == []


def test_a_dead_letter_that_is_offered_again_waits_for_who_is_out() -> None:
    once = GroupPolicy(attempts_max=1, ordered=True)
    world = world_with("a1", "a2", "a3")
    first = take(world, policy=once)
    world.settle(NACK, [first["a1"].receipt], policy=once)
    second = take(world)
    assert list(second) == ["a2"]
    request = Revive("readers", [0])
    world.consumers.revive(request, world.clock.now_ms, lambda _: None)
    world.pump()
    assert names(world) == []
    settle(world, ACK, second["a2"])
    third = take(world)
    assert list(third) == ["a1"]
    settle(world, ACK, third["a1"])
    assert names(world) == ["a3"]


# --- damage, retention, waking ----------------------------------------------------


def test_a_damaged_message_holds_up_its_line_and_no_other() -> None:
    world = world_with()
    bad = world.publish([b"a1" * 30], key=b"a")
    publish(world, "a2", "b1")
    settle(world, NACK, *take(world).values(), delay_ms=0)
    world.index.flush()
    world.crash()
    world.disk.damage(segment_name(0), bad.position + 150, 1)
    assert names(world) == ["b1"]
    for _ in range(2):
        with pytest.raises(CorruptLog):
            take(world)
        world.pump()
    world.disk.damage(segment_name(0), bad.position + 150, 1)  # mended
    world.crash(lambda _: True)
    assert names(world) == ["a1" * 30]


def test_messages_that_retention_has_taken_let_the_next_ones_go() -> None:
    world = world_with()
    for i in range(30):
        world.publish([(b"%02d" % i).ljust(1400)], key=b"a")
    assert len(take(world, invisible_ms=500)) == 1
    assert described(world).held_back > 20
    world.store.log.forget(world.store.log.segments[:1])
    world.store.log.delete_forgotten()
    begin = world.store.queues.begin(world.topic().id, 0)
    assert 3 < begin < 30
    world.clock.advance(500)
    (name,) = take(world)
    assert name.strip() == f"{begin:02}"


def test_an_acknowledgement_wakes_those_who_wait_for_the_next_one() -> None:
    world = world_with("a1", "a2", "b1")
    woken: list[int] = []
    world.consumers = Consumers(world.store, woken.append)
    first = take(world)
    settle(world, ACK, first["b1"])
    assert woken == []  # nothing stands behind it
    settle(world, ACK, first["a1"])
    assert len(woken) == 1


def test_a_pop_that_gets_nothing_is_told_when_the_next_line_is_due() -> None:
    world = world_with("a1", "a2", "b1")
    first = take(world, invisible_ms=5000)
    settle(world, NACK, first["b1"])
    request = Pop("readers", "orders", policy=ORDERED)
    now_ms = world.clock.now_ms
    assert world.consumers.pop(request, now_ms, lambda _: None) == now_ms + 1000


def test_groups_and_check_points_of_before_are_read() -> None:
    """They do not tell of keys."""
    old = msgspec.msgpack.encode([7, 0, 1, 1000, [5, 6], b"", False])
    assert CHECK_POINT_DECODER.decode(old).lines == []
    old = msgspec.msgpack.encode([7, 0, 1, 1000, [5, 6], 7, []])
    assert POP_DECODER.decode(old).lines == []


def test_long_times_do_not_let_the_memory_of_lines_grow() -> None:
    points: dict[int, CheckPoint] = {}
    book = OrderBook(points)
    for i in range(5000):
        point = points[i] = CheckPoint(i, 0, 1, 10**12 + i, [i], lines=[i + 1])
        book.add(point)
        book.remove(point, [0])
        del points[i]
    assert len(book._by_time) < 200  # pyright: ignore
    assert not book._lines  # pyright: ignore
    assert not book._names  # pyright: ignore

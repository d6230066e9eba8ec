"""Consumer groups: pop, settle, retry, dead letters, filters, offsets."""

from collections.abc import Callable, Sequence

import msgspec
import pytest
from tests.unit.core_store_world import World

from halfpast_core_store.broker import (
    CommitOffsets,
    Delivered,
    GroupPolicy,
    Pop,
    Settle,
    SettleAction,
    SettleResult,
)
from halfpast_core_store.check_point import CheckPoint
from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_core_store.errors import CorruptLog, StoreFull, UnknownTopic
from halfpast_core_store.group_plan import Plan
from halfpast_core_store.group_standing import DescribeGroup
from halfpast_core_store.group_state import GroupState
from halfpast_core_store.groups import backoff_ms, contiguous
from halfpast_core_store.receipt import Receipt, decode_receipt
from halfpast_core_store.record import RecordFlag, decode_record
from halfpast_core_store.segment import segment_name

ACK, NACK, EXTEND = SettleAction.ACK, SettleAction.NACK, SettleAction.EXTEND
POLICY = GroupPolicy(attempts_max=3, backoff_initial_ms=1000, backoff_max_ms=3000)


def world_with(count: int, queue_count: int = 1) -> World:
    world = World()
    world.topic("orders", queue_count)
    for i in range(count):
        world.publish([b"%d" % i], queue=i % queue_count)
    return world


def bodies(messages: Sequence[Delivered]) -> list[bytes]:
    return [decode_record(message.record).body for message in messages]


def popped(
    world: World,
    *,
    count: int = 32,
    invisible_ms: int = 10_000,
    size_max: int = 1 << 20,
) -> list[bytes]:
    plan = world.pop(
        count=count, invisible_ms=invisible_ms, size_max=size_max, policy=POLICY
    )
    return bodies(plan.delivered)


def codes(results: Sequence[SettleResult]) -> list[str]:
    return [result.code for result in results]


def in_flight(world: World, group: str = "readers") -> int:
    return world.consumers.describe(DescribeGroup(group, "orders")).in_flight


def dead_letters(world: World, group: str = "readers") -> list[Delivered]:
    try:
        return list(world.pop(group="undertaker", topic=f"%DLQ%{group}").delivered)
    except UnknownTopic:
        return []


def fill_up(write: Callable[[], object]) -> None:
    """Write until there is no room."""
    for _ in range(1000):
        try:
            write()
        except StoreFull:
            return
    pytest.fail("the disk has no end")


# --- pop ------------------------------------------------------------------------


def test_messages_come_in_order_and_are_then_hidden() -> None:
    world = world_with(5)
    assert popped(world, count=2) == [b"0", b"1"]
    assert popped(world) == [b"2", b"3", b"4"]
    assert popped(world) == []
    assert in_flight(world) == 5


def test_a_message_tells_where_it_is_and_how_often_it_came() -> None:
    world = world_with(1)
    (message,) = world.pop().delivered
    assert (message.queue, message.offset, message.attempt) == (0, 0, 1)
    world.clock.advance(10_000)
    (message,) = world.pop().delivered
    assert (message.queue, message.offset, message.attempt) == (0, 0, 2)


def test_groups_do_not_disturb_each_other() -> None:
    world = world_with(3)
    assert bodies(world.pop(group="a").delivered) == [b"0", b"1", b"2"]
    assert bodies(world.pop(group="b").delivered) == [b"0", b"1", b"2"]


def test_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(UnknownTopic):
        World().pop(topic="nobody")


def test_what_is_not_acknowledged_comes_back_after_its_time() -> None:
    world = world_with(2)
    popped(world, invisible_ms=500)
    world.clock.advance(499)
    assert popped(world) == []
    world.clock.advance(1)
    assert popped(world) == [b"0", b"1"]


def test_a_pop_of_nothing_tells_when_to_ask_again() -> None:
    world = world_with(1)
    request = Pop("readers", "orders", invisible_ms=700)
    now_ms = world.clock.now_ms
    assert world.consumers.pop(request, now_ms, lambda _: None) is None
    assert world.consumers.pop(request, now_ms, lambda _: None) == now_ms + 700
    other = Pop("others", "orders")
    world.consumers.pop(other, now_ms, lambda _: None)
    world.pump()
    world.settle(ACK, [m.receipt for m in world.pop(group="x").delivered], group="x")
    empty = Pop("x", "orders")
    assert world.consumers.pop(empty, now_ms, lambda _: None) == 2**63


def test_what_comes_back_goes_before_what_is_new() -> None:
    world = world_with(2)
    popped(world, invisible_ms=500)
    world.publish([b"new"])
    world.clock.advance(500)
    assert popped(world) == [b"0", b"1", b"new"]


def test_part_of_what_came_back_can_be_taken() -> None:
    world = world_with(5)
    popped(world, invisible_ms=500)
    world.clock.advance(500)
    assert popped(world, count=2) == [b"0", b"1"]
    assert popped(world, count=2) == [b"2", b"3"]
    assert popped(world, count=2) == [b"4"]
    assert in_flight(world) == 5


def test_queues_take_turns() -> None:
    world = world_with(6, queue_count=3)
    assert [popped(world, count=1) for _ in range(4)] == [
        [b"0"],
        [b"1"],
        [b"2"],
        [b"3"],
    ]


def test_a_pop_is_bounded_in_bytes_give_or_take_one_message() -> None:
    world = world_with(5)
    assert popped(world, size_max=1) == [b"0"]
    assert popped(world, size_max=100) == [b"1", b"2"]


def test_what_comes_back_is_bounded_in_bytes_too() -> None:
    world = world_with(4)
    popped(world, invisible_ms=500)
    world.clock.advance(500)
    assert popped(world, size_max=1) == [b"0"]
    assert popped(world) == [b"1", b"2", b"3"]


def test_no_more_than_permitted_is_in_flight() -> None:
    world = world_with(10)
    policy = GroupPolicy(in_flight_max=3)
    first = world.pop(count=5, policy=policy).delivered
    assert bodies(first) == [b"0", b"1", b"2"]
    assert bodies(world.pop(count=5, policy=policy).delivered) == []
    world.settle(ACK, [first[0].receipt])
    assert bodies(world.pop(count=5, policy=policy).delivered) == [b"3"]
    world.clock.advance(10_000)
    again = world.pop(count=10, policy=policy).delivered
    assert sorted(bodies(again)) == [b"1", b"2", b"3"], "they count already"


# --- settle ---------------------------------------------------------------------


def test_acknowledged_messages_do_not_come_back() -> None:
    world = world_with(4)
    messages = world.pop().delivered
    done = [messages[0].receipt, messages[2].receipt]
    assert codes(world.settle(ACK, done)) == ["", ""]
    assert in_flight(world) == 2
    world.clock.advance(10_000)
    assert popped(world) == [b"1", b"3"]


def test_a_receipt_serves_once() -> None:
    world = world_with(1)
    receipt = world.pop().delivered[0].receipt
    assert codes(world.settle(ACK, [receipt, receipt])) == ["", "receipt_expired"]
    assert codes(world.settle(ACK, [receipt])) == ["receipt_expired"]


def test_a_late_acknowledgement_counts_until_the_message_is_offered_again() -> None:
    world = world_with(2)
    first, second = world.pop().delivered
    world.clock.advance(99_999)
    assert codes(world.settle(ACK, [first.receipt])) == [""]
    assert popped(world) == [b"1"]
    assert codes(world.settle(ACK, [second.receipt])) == ["receipt_expired"]


def test_refused_messages_come_back_after_the_back_off() -> None:
    world = world_with(1)
    world.settle(NACK, [world.pop().delivered[0].receipt], policy=POLICY)
    world.clock.advance(999)
    assert popped(world) == []
    world.clock.advance(1)
    (message,) = world.pop(policy=POLICY).delivered
    assert message.attempt == 2
    world.settle(NACK, [message.receipt], policy=POLICY)
    world.clock.advance(1999)
    assert popped(world) == []
    world.clock.advance(1)
    assert popped(world) == [b"0"]


def test_the_consumer_may_choose_when_a_refused_message_comes_back() -> None:
    world = world_with(2)
    first, second = world.pop().delivered
    world.settle(NACK, [first.receipt], delay_ms=0)
    assert popped(world) == [b"0"]
    world.settle(NACK, [second.receipt], delay_ms=77)
    world.clock.advance(77)
    assert popped(world) == [b"1"]


def test_a_refused_message_has_no_receipt_while_it_waits() -> None:
    world = world_with(1)
    receipt = world.pop().delivered[0].receipt
    world.settle(NACK, [receipt])
    for action in SettleAction:
        assert codes(world.settle(action, [receipt], delay_ms=5)) == ["receipt_expired"]


def test_more_time_means_a_new_receipt() -> None:
    world = world_with(3)
    messages = world.pop(invisible_ms=500).delivered
    old = [message.receipt for message in messages[:2]]
    results = world.settle(EXTEND, old, delay_ms=5000)
    assert codes(results) == ["", ""]
    assert codes(world.settle(ACK, old)) == ["receipt_expired"] * 2
    world.clock.advance(500)
    assert popped(world) == [b"2"]
    assert codes(world.settle(ACK, [results[1].receipt])) == [""]
    world.clock.advance(4500)
    (message,) = world.pop(policy=POLICY).delivered
    assert decode_record(message.record).body == b"0"
    assert message.attempt == 2


def test_bad_receipts_spoil_nothing_for_the_good_ones() -> None:
    world = world_with(2)
    good = world.pop().delivered[0].receipt
    other = world.pop(group="others").delivered[0].receipt
    flipped = bytes([good[0] ^ 1]) + good[1:]
    results = world.settle(ACK, [b"", b"junk", flipped, good, other, good + b"x"])
    assert codes(results) == [
        "malformed_receipt",
        "malformed_receipt",
        "malformed_receipt",
        "",
        "receipt_of_another_group",
        "malformed_receipt",
    ]


def test_a_group_that_does_not_exist_has_no_receipts() -> None:
    world = world_with(1)
    receipt = world.pop().delivered[0].receipt
    results = world.settle(ACK, [receipt], group="nobody")
    assert codes(results) == ["receipt_of_another_group"]


def test_receipts_that_nobody_gave_are_expired() -> None:
    world = world_with(2)
    receipt = world.pop().delivered[0].receipt
    known = decode_receipt(receipt, world.store.log._salt)  # pyright: ignore
    assert known is not None
    for changed in (
        known._replace(place=60_000),
        known._replace(pop_id=2**64 - 1),
        known._replace(topic_id=7777),
        Receipt(known.group_id, 2, known.pop_id, 0),
    ):
        made = world.store.groups.encode_receipt(changed)
        assert codes(world.settle(ACK, [made])) == ["receipt_expired"]


def test_receipts_of_several_topics_can_be_settled_together() -> None:
    world = world_with(1)
    world.publish([b"x"], topic="other")
    receipts = [
        world.pop(topic="other").delivered[0].receipt,
        b"junk",
        world.pop().delivered[0].receipt,
    ]
    assert codes(world.settle(ACK, receipts)) == ["", "malformed_receipt", ""]


# --- dead letters -----------------------------------------------------------------


def test_a_message_that_is_never_acknowledged_ends_as_a_dead_letter() -> None:
    world = world_with(2)
    for attempt in (1, 2, 3):
        messages = world.pop(policy=POLICY).delivered
        assert [m.attempt for m in messages] == [attempt] * 2
        world.clock.advance(10_000)
    assert popped(world) == []
    assert in_flight(world) == 0
    letters = dead_letters(world)
    assert bodies(letters) == [b"0", b"1"]
    record = decode_record(letters[1].record)
    assert record.flags & RecordFlag.DEAD_LETTER
    properties = msgspec.msgpack.decode(record.properties)
    assert properties == {
        "dead_letter_reason": "not acknowledged within its last permitted attempt",
        "dead_letter_group": "readers",
        "dead_letter_topic": "orders",
        "dead_letter_queue": "0",
        "dead_letter_offset": "1",
        "dead_letter_attempts": "3",
    }


def test_a_message_refused_for_the_last_time_is_a_dead_letter_at_once() -> None:
    world = world_with(2)
    policy = GroupPolicy(attempts_max=1)
    first = world.pop(count=1).delivered[0]
    assert codes(world.settle(NACK, [first.receipt], policy=policy)) == [""]
    assert bodies(dead_letters(world)) == [b"0"]
    assert popped(world) == [b"1"]
    world.clock.advance(99_999)
    assert popped(world) == [b"1"]


def test_a_dead_letter_keeps_what_the_message_had() -> None:
    world = world_with(0)
    world.publish([b"body"], tag=b"blue")
    original = decode_record(world.pop().delivered[0].record)
    world.clock.advance(10_000)
    world.pop(policy=GroupPolicy(attempts_max=1))
    letter = decode_record(dead_letters(world)[0].record)
    assert letter._replace(flags=0, attempt=0, properties=b"") == original
    # It is found under its first place, not among the dead.
    assert world.store.events.find(letter.event_id).record is not None


def test_two_groups_have_two_places_for_their_dead() -> None:
    world = world_with(1)
    policy = GroupPolicy(attempts_max=1)
    for group in ("a", "b"):
        world.pop(group=group)
    world.clock.advance(10_000)
    for group in ("a", "b"):
        world.pop(group=group, policy=policy)
    assert (
        bodies(dead_letters(world, "a")) == bodies(dead_letters(world, "b")) == [b"0"]
    )


def test_first_deaths_that_wait_together_share_one_topic() -> None:
    world = world_with(2)
    policy = GroupPolicy(attempts_max=1)
    receipts = [m.receipt for m in world.pop().delivered]
    plans: list[Plan | Exception] = []
    for receipt in receipts:
        request = Settle("readers", NACK, [receipt], None, policy)
        world.consumers.settle(request, world.clock.now_ms, plans.append)
    world.pump()
    assert len(plans) == 2
    assert bodies(dead_letters(world)) == [b"0", b"1"]
    assert [t.name for t in world.store.registry.topics("", 9)] == [
        "%DLQ%readers",
        "orders",
    ]


@pytest.mark.parametrize("by_nack", [False, True])
def test_many_large_messages_die_in_several_frames(by_nack: bool) -> None:
    world = World()
    world.topic()
    count = 12
    for i in range(count):
        world.publish([(b"%02d" % i).ljust(1500)])
    policy = GroupPolicy(attempts_max=1)
    messages = world.pop(policy=policy).delivered
    assert len(messages) == count
    if by_nack:
        receipts = [message.receipt for message in messages]
        assert codes(world.settle(NACK, receipts, policy=policy)) == [""] * count
    world.clock.advance(10_000)
    letters: list[Delivered] = []
    for _ in range(50):
        world.pop(policy=policy)
        letters += dead_letters(world)
        if len(letters) == count:
            break
    assert [body[:2] for body in bodies(letters)] == [b"%02d" % i for i in range(count)]
    assert in_flight(world) == 0


def test_without_room_for_dead_letters_the_rest_goes_on() -> None:
    size = 2 * 1024 * 1024
    log = LogConfig(segment_size=size, frame_size_max=size)
    world = World(StoreConfig(log=log))
    for i in range(3):
        world.publish([b"%d" % i])
    policy = GroupPolicy(attempts_max=1)
    (poison,) = world.pop(count=1, policy=policy).delivered
    world.disk.space = 2 * size
    fill_up(lambda: world.publish([bytes(20_000)]))
    world.clock.advance(10_000)
    assert bodies(world.pop(count=2, policy=policy).delivered) == [b"1", b"2"]
    assert codes(world.settle(NACK, [poison.receipt], policy=policy)) == [""]
    assert dead_letters(world) == []
    world.disk.space = None
    world.store.log.prepare_next()
    world.pop(count=1, policy=policy)
    assert bodies(dead_letters(world)) == [b"0"]


# --- filters ----------------------------------------------------------------------


def test_a_filter_passes_over_what_it_does_not_want_for_good() -> None:
    world = World()
    for i, tag in enumerate([b"a", b"b", b"", b"c", b"a"]):
        world.publish([b"%d" % i], tag=tag)
    assert bodies(world.pop(tags=["a", "c"]).delivered) == [b"0", b"3", b"4"]
    assert popped(world) == []
    assert in_flight(world) == 3


def test_a_filter_that_wants_nothing_moves_on_durably() -> None:
    world = World()
    for _ in range(5):
        world.publish([b"x"], tag=b"a")
    assert world.pop(tags=["b"]).delivered == []
    world.crash()
    assert popped(world) == []


def test_tags_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(tag: bytes) -> int:
        return 7

    for module in ("record", "message_filter"):
        monkeypatch.setattr(f"halfpast_core_store.{module}.tag_hash", collide)
    world = World()
    world.publish([b"0"], tag=b"a")
    world.publish([b"1"], tag=b"b")
    assert bodies(world.pop(tags=["b"]).delivered) == [b"1"]


def test_a_needle_behind_much_hay_is_found_by_asking_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("halfpast_core_store.pop_planner.SCAN_MAX", 10)
    monkeypatch.setattr("halfpast_core_store.pop_planner.SCAN_COUNT", 4)
    world = World()
    world.topic("orders", 2)
    for i in range(50):
        world.publish([b"hay"], tag=b"hay", queue=i % 2)
    world.publish([b"needle"], tag=b"needle", queue=1)
    world.publish([b"behind"], tag=b"needle", queue=1)
    plans: list[Plan | Exception] = []
    asked: list[int | None] = []
    request = Pop("readers", "orders", 1, tags=["needle"])
    while not plans:
        again_ms = world.consumers.pop(request, world.clock.now_ms, plans.append)
        world.pump()
        asked.append(again_ms)
    # At once, that is, since there is more to look through.
    assert asked == [world.clock.now_ms] * (len(asked) - 1) + [None]
    assert len(asked) > 3
    (plan,) = plans
    assert isinstance(plan, Plan)
    assert bodies(plan.delivered) == [b"needle"]
    assert bodies(world.pop(tags=["needle"]).delivered) == [b"behind"]


# --- offsets and retention ----------------------------------------------------------


def commit(world: World, offsets: dict[int, int]) -> None:
    plans: list[Plan | Exception] = []
    request = CommitOffsets("readers", "orders", offsets)
    world.consumers.commit_offsets(request, world.clock.now_ms, plans.append)
    world.pump()
    assert isinstance(plans[0], Plan)


def test_a_group_goes_on_where_it_is_told_to() -> None:
    world = world_with(5)
    commit(world, {0: 3})
    assert popped(world) == [b"3", b"4"]
    commit(world, {0: 1})
    world.crash()
    assert popped(world, count=1) == [b"1"]


def test_a_group_is_described() -> None:
    world = world_with(5, queue_count=2)
    popped(world, count=2)
    commit(world, {1: 1})
    found = world.consumers.describe(DescribeGroup("readers", "orders"))
    places = [(q.queue, q.offset, q.offset_min, q.offset_max) for q in found.queues]
    assert places == [(0, 2, 0, 3), (1, 1, 0, 2)]
    assert (found.in_flight, found.known) == (2, True)
    stranger = world.consumers.describe(DescribeGroup("nobody", "orders"))
    assert not stranger.known
    assert [q.offset for q in stranger.queues] == [0, 0]


def large_world() -> World:
    """Three segments of messages, ten each."""
    world = World()
    for i in range(30):
        world.publish([(b"%02d" % i).ljust(1400)])
    return world


def trim(world: World, segments: int, *, purge: bool) -> int:
    """Let the oldest segments go. Gives where the queue begins now."""
    world.store.log.forget(world.store.log.segments[:segments])
    world.store.log.delete_forgotten()
    if purge:
        while not world.store.housekeep():
            pass
    return world.store.queues.begin(world.topic().id, 0)


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("cursor", [None, 0, 3])
def test_a_group_that_was_too_slow_goes_on_where_the_queue_begins(
    cursor: int | None, purge: bool
) -> None:
    world = large_world()
    if cursor is not None:
        commit(world, {0: cursor})
    begin = trim(world, 1, purge=purge)
    assert 3 < begin < 30
    messages = world.pop(count=2).delivered
    assert [message.offset for message in messages] == [begin, begin + 1]


@pytest.mark.parametrize("purge", [False, True])
def test_messages_in_flight_that_retention_took_are_let_go(purge: bool) -> None:
    world = large_world()
    world.pop(count=25, invisible_ms=500)
    begin = trim(world, 1, purge=purge)
    world.clock.advance(500)
    messages = world.pop(count=100).delivered
    assert [m.offset for m in messages] == list(range(begin, 30))
    assert in_flight(world) == 30 - begin


def test_the_dead_that_retention_took_are_let_go() -> None:
    world = large_world()
    policy = GroupPolicy(attempts_max=1)
    messages = world.pop(count=25, policy=policy).delivered
    begin = trim(world, 1, purge=True)
    receipts = [m.receipt for m in messages if m.offset < begin]
    assert codes(world.settle(NACK, receipts, policy=policy)) == [""] * begin
    assert in_flight(world) == 25 - begin
    assert dead_letters(world) == []


# --- what must not happen -------------------------------------------------------------


def test_a_full_lane_leaves_the_group_as_it_was() -> None:
    world = world_with(3)
    messages = world.pop(count=1).delivered
    world.disk.space = 0
    fill_up(lambda: world.publish([bytes(1000)]))
    fill_up(lambda: world.pop(group="others", count=1))
    with pytest.raises(StoreFull):
        world.settle(ACK, [messages[0].receipt])
    with pytest.raises(StoreFull):
        world.pop(group="never seen")
    world.disk.space = None
    world.store.log.prepare_next()
    assert codes(world.settle(ACK, [messages[0].receipt])) == [""]
    assert popped(world, count=1) == [b"1"]
    assert "never seen" not in world.store.registry.groups("", 100)


def test_damage_met_while_planning_loses_neither_group_nor_messages() -> None:
    world = world_with(0, queue_count=2)
    world.publish([b"good"], queue=0)
    bad = world.publish([b"bad" * 30], queue=1)
    world.publish([b"behind"], queue=0)
    world.index.flush()
    world.publish([b"last"], queue=0)
    world.index.flush()
    world.crash()
    world.disk.damage(segment_name(0), bad.position + 150, 1)
    found = world.pop(group="fresh").delivered  # the other queue is not held up
    assert bodies(found) == [b"good", b"behind", b"last"]
    for group in ("fresh", "other"):  # nothing left for one, nothing wanted by one
        with pytest.raises(CorruptLog):
            world.pop(group=group, tags=["none"])
        world.pump()
    number = world.store.registry.group("fresh")
    live = world.contents()
    world.disk.damage(segment_name(0), bad.position + 150, 1)  # mended
    world.rebuild()
    assert world.contents() == live
    assert world.store.registry.group("fresh") == number
    world.clock.advance(10_000)
    found = world.pop(group="fresh").delivered
    assert sorted(bodies(found)) == [b"bad" * 30, b"behind", b"good", b"last"]


def test_long_invisible_times_do_not_let_memory_grow() -> None:
    state = GroupState(1, 1)
    for i in range(5000):
        state._add(CheckPoint(i, 0, 1, 10**12 + i, [i]))  # pyright: ignore
        state._claim([(i, [0])])  # pyright: ignore
    assert state.in_flight == 0
    assert len(state._by_time) < 200  # pyright: ignore


def test_states_are_forgotten_only_when_the_index_knows_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("halfpast_core_store.groups.STATES_MAX", 3)
    world = world_with(2)
    groups = [f"g{i}" for i in range(8)]
    for _ in range(2):
        plans: list[Plan | Exception] = []
        for group in groups:  # all of them in one frame
            request = Pop(group, "orders", 1)
            world.consumers.pop(request, world.clock.now_ms, plans.append)
        world.pump()
        assert len(plans) == len(groups)
    assert [in_flight(world, group) for group in groups] == [2] * 8
    live = world.contents()
    world.rebuild()
    assert world.contents() == live


@pytest.mark.parametrize(
    ("attempt", "expected"), [(1, 1000), (2, 2000), (3, 3000), (9, 3000), (65535, 3000)]
)
def test_the_back_off_doubles_up_to_its_limit(attempt: int, expected: int) -> None:
    assert backoff_ms(POLICY, attempt) == expected


def test_stretches() -> None:
    assert contiguous([]) == []
    assert contiguous([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 1), (9, 2)]

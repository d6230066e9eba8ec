"""The store: admission, one frame for all that waits, answers after the sync."""

import pytest
from tests.unit.core_store_world import SMALL, START_MS, Answers, World

from halfpast_core_store.broker import Append, Appended, Dedup, Lane, Run
from halfpast_core_store.config import LanesConfig, LogConfig, StoreConfig
from halfpast_core_store.errors import (
    FenceLost,
    IdempotencyConflict,
    LogBehindIndex,
    Overloaded,
    RequestTooLarge,
    StoreFailed,
    StoreFull,
    TooEarly,
)
from halfpast_core_store.frame import read_runs, records_of
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_core_store.segment import segment_name
from halfpast_core_store.topics import SYS_DEDUP, SYS_SCHEDULE

TOPIC = 1024


def send(
    world: World,
    body: bytes = b"body",
    *,
    lane: int = Lane.SEND,
    dedup: Dedup | None = None,
    durable: bool = True,
    fence: tuple[str, int] = ("", 0),
) -> Answers:
    """Submit one message; nothing is written yet."""
    answers = Answers()
    runs = [Run(TOPIC, 0, [world.record(body)])]
    world.store.submit(
        Append(runs, lane, dedup, fence[0], fence[1], durable=durable), answers
    )
    return answers


def key(name: bytes, request: bytes = b"r", at_ms: int = START_MS) -> Dedup:
    return Dedup(
        name.ljust(16), request.ljust(16), b"first id".ljust(16), at_ms * 1_000_000
    )


def bodies(world: World, queue: int = 0) -> list[bytes]:
    found = world.store.queues.read(TOPIC, queue, 0, 1000, 1 << 30)
    return [decode_record(queued.record).body for queued in found]


def fill_up(world: World, lane: int = Lane.SEND) -> None:
    """Send until there is no room."""
    for _ in range(10_000):
        try:
            send(world, bytes(500), lane=lane)
        except StoreFull:
            return
        world.pump()
    pytest.fail("the disk has no end")


# --- the order of things ------------------------------------------------------


def test_a_request_is_answered_when_it_is_durable_and_not_before() -> None:
    world = World()
    answers = send(world)
    sealed = world.store.seal()
    assert sealed is not None
    assert answers.got == []
    world.store.write(sealed)
    assert answers.got == []
    assert world.store.queues.end(TOPIC, 0) == 0
    world.store.complete(sealed)
    assert answers.one == Appended(0, START_MS)
    assert bodies(world) == [b"body"]


def test_what_waits_together_goes_into_one_frame() -> None:
    world = World()
    answers = [send(world, bytes([i])) for i in range(5)]
    world.pump()
    assert {a.one.position for a in answers} == {0}
    assert world.store.commits.frames == 1
    assert bodies(world) == [bytes([i]) for i in range(5)]


def test_while_a_frame_is_on_its_way_the_next_gathers() -> None:
    world = World()
    first = send(world, b"1")
    sealed = world.store.seal()
    assert sealed is not None
    second, third = send(world, b"2"), send(world, b"3")
    assert world.store.seal() is None
    assert world.store.busy
    world.store.write(sealed)
    world.store.complete(sealed)
    assert not world.store.busy
    world.pump()
    assert first.one.position < second.one.position == third.one.position
    assert bodies(world) == [b"1", b"2", b"3"]


def test_an_idle_store_has_nothing_to_seal() -> None:
    assert World().store.seal() is None


def test_a_frame_keeps_to_its_size() -> None:
    world = World()
    answers = [send(world, bytes(600)) for _ in range(6)]
    world.pump()
    assert len({a.one.position for a in answers}) == 3


def test_a_request_may_span_topics_and_queues() -> None:
    world = World()
    runs = [
        Run(TOPIC, 1, [world.record(b"a"), world.record(b"b")]),
        Run(TOPIC + 5, 0, [world.record(b"c")]),
        Run(SYS_SCHEDULE, 0, [world.record(b"d", kind=RecordKind.SCHEDULE)]),
    ]
    answer = world.append(runs)
    header, frame = world.store.log.read_frame(answer.position)
    found = [(r.topic_id, r.queue_id, r.base_offset) for r in read_runs(frame, header)]
    assert found == [(TOPIC, 1, 0), (TOPIC + 5, 0, 0), (SYS_SCHEDULE, 0, 0)]
    assert header.record_count == 4


def test_an_append_of_nothing_is_an_empty_frame() -> None:
    world = World()
    assert world.topic("orders").id == TOPIC
    world.append([])
    world.append([Run(TOPIC, 0, [])])
    world.publish([b"x"])
    assert bodies(world) == [b"x"]


def test_offsets_go_on_after_a_restart() -> None:
    world = World()
    world.append([Run(TOPIC, 0, [world.record(b"1")])])
    world.crash()
    world.append([Run(TOPIC, 0, [world.record(b"2")])])
    assert bodies(world) == [b"1", b"2"]


def test_store_time_never_goes_back() -> None:
    world = World()
    first = world.append([])
    world.clock.advance(-5000)
    second = world.append([])
    world.crash()
    third = world.append([])
    assert first.stored_ms == second.stored_ms == third.stored_ms == START_MS


# --- durable=False ------------------------------------------------------------


def test_an_undurable_request_is_answered_once_when_sealed() -> None:
    world = World()
    answers = send(world, durable=False)
    sealed = world.store.seal()
    assert sealed is not None
    assert answers.one.position == 0
    assert bodies(world) == []
    world.store.write(sealed)
    world.store.complete(sealed)
    assert len(answers.got) == 1


def test_an_undurable_request_is_not_told_of_a_failure_afterwards() -> None:
    world = World()
    answers = send(world, durable=False)
    world.store.seal()
    world.store.fail(StoreFailed("disk"))
    assert len(answers.got) == 1
    assert answers.one


def test_who_joins_an_undurable_request_is_answered_when_it_is_durable() -> None:
    world = World()
    send(world, durable=False, dedup=key(b"k"))
    early = send(world, dedup=key(b"k"))
    sealed = world.store.seal()
    assert sealed is not None
    late = send(world, dedup=key(b"k"))
    assert early.got == late.got == []
    world.store.write(sealed)
    world.store.complete(sealed)
    assert early.one.replayed == late.one.replayed == key(b"k")


# --- idempotency keys -----------------------------------------------------------


def test_the_same_key_joins_the_one_that_waits() -> None:
    world = World()
    first, second = send(world, dedup=key(b"k")), send(world, dedup=key(b"k"))
    world.pump()
    assert first.one.replayed is None
    assert second.one.replayed == key(b"k")
    assert first.one.position == second.one.position
    assert len(bodies(world)) == 1


def test_the_same_key_joins_the_one_on_its_way() -> None:
    world = World()
    send(world, dedup=key(b"k"))
    sealed = world.store.seal()
    assert sealed is not None
    second = send(world, dedup=key(b"k"))
    world.store.write(sealed)
    world.store.complete(sealed)
    assert second.one.replayed == key(b"k")


def test_a_used_key_is_answered_at_once_also_after_a_restart() -> None:
    world = World()
    send(world, dedup=key(b"k"))
    world.pump()
    for _ in range(2):
        again = send(world, dedup=key(b"k", at_ms=START_MS + 5))
        assert again.one.replayed == key(b"k")
        world.crash()
    assert len(bodies(world)) == 1


def test_another_request_under_the_same_key_is_a_conflict() -> None:
    world = World()
    send(world, dedup=key(b"k", b"one"))
    with pytest.raises(IdempotencyConflict):
        send(world, dedup=key(b"k", b"two"))
    world.pump()
    with pytest.raises(IdempotencyConflict):
        send(world, dedup=key(b"k", b"two"))
    assert len(bodies(world)) == 1


def test_a_key_past_its_window_is_a_new_one() -> None:
    world = World()
    window_ms = world.config.dedup_window_ms
    send(world, dedup=key(b"k", b"one"))
    world.pump()
    assert send(world, dedup=key(b"k", b"one", START_MS + window_ms)).one.replayed
    later = send(world, dedup=key(b"k", b"two", START_MS + window_ms + 1))
    world.pump()
    assert later.one.replayed is None
    assert len(bodies(world)) == 2


def test_keys_past_their_window_are_purged() -> None:
    world = World()
    send(world, dedup=key(b"old"))
    world.pump()
    world.clock.advance(world.config.dedup_window_ms)
    send(world, dedup=key(b"new", at_ms=world.clock.now_ms))
    world.pump()
    world.clock.advance(1)
    world.store.housekeep()
    kept = [k for k in world.index.contents() if k[:1] == b"D"]
    assert kept == [b"D" + b"new".ljust(16)]


def test_a_key_is_stored_in_the_frame_of_its_messages() -> None:
    world = World()
    answers = send(world, dedup=key(b"k"))
    world.pump()
    header, frame = world.store.log.read_frame(answers.one.position)
    topics = [run.topic_id for run in read_runs(frame, header)]
    assert topics == [TOPIC, SYS_DEDUP]
    (record,) = records_of(frame, read_runs(frame, header)[1])
    assert decode_record(record).event_id == key(b"k").base_id


# --- fences ---------------------------------------------------------------------


def test_only_the_latest_holder_of_a_role_may_append() -> None:
    world = World()
    old, _ = world.store.acquire("chronos")
    new, _ = world.store.acquire("chronos")
    with pytest.raises(FenceLost) as raised:
        send(world, fence=("chronos", old))
    assert raised.value.held
    send(world, fence=("chronos", new))
    world.pump()
    assert len(bodies(world)) == 1


def test_what_a_former_holder_has_waiting_is_refused() -> None:
    world = World()
    old, _ = world.store.acquire("chronos")
    fenced = send(world, b"old", fence=("chronos", old))
    free = send(world, b"free")
    world.store.acquire("chronos")
    world.pump()
    assert isinstance(fenced.got[0], FenceLost)
    assert free.one
    assert bodies(world) == [b"free"]


def test_all_that_a_former_holder_wrote_lies_before_the_told_end() -> None:
    world = World()
    old, _ = world.store.acquire("chronos")
    answers = send(world, fence=("chronos", old))
    sealed = world.store.seal()
    assert sealed is not None
    _, end = world.store.acquire("chronos")
    world.store.write(sealed)
    world.store.complete(sealed)
    assert answers.one.position < end == world.store.log.durable_end


def test_who_joined_a_fenced_request_is_told_too_and_the_key_is_free() -> None:
    world = World()
    old, _ = world.store.acquire("chronos")
    fence = ("chronos", old)
    first = send(world, fence=fence, dedup=key(b"k"))
    joined = send(world, fence=fence, dedup=key(b"k"))
    world.store.acquire("chronos")
    world.pump()
    assert isinstance(first.got[0], FenceLost)
    assert isinstance(joined.got[0], FenceLost)
    again = send(world, dedup=key(b"k"))
    world.pump()
    assert again.one.replayed is None


def test_requests_behind_a_frameful_of_fenced_ones_are_sealed() -> None:
    world = World()
    old, _ = world.store.acquire("chronos")
    for _ in range(5):
        send(world, bytes(900), fence=("chronos", old))
    free = send(world)
    world.store.acquire("chronos")
    sealed = world.store.seal()
    assert sealed is not None, "nobody would come back for the rest"
    world.store.write(sealed)
    world.store.complete(sealed)
    assert free.one


def test_a_restart_ends_all_roles() -> None:
    world = World()
    token, _ = world.store.acquire("chronos")
    world.crash()
    with pytest.raises(FenceLost) as raised:
        send(world, fence=("chronos", token))
    assert not raised.value.held
    with pytest.raises(FenceLost):
        world.store.hold("chronos", token, 0)


# --- never early ------------------------------------------------------------------


def test_firing_before_the_due_time_is_refused() -> None:
    world = World()
    request = Append([], due_max_ms=START_MS + 7)
    with pytest.raises(TooEarly) as raised:
        world.store.submit(request, Answers())
    assert raised.value.early_ms == 7
    world.clock.advance(7)
    answers = Answers()
    world.store.submit(request, answers)
    world.clock.advance(-3)  # the clock is set back before the frame is laid out
    world.pump()
    assert answers.one.stored_ms == START_MS + 7


# --- no room ----------------------------------------------------------------------


def test_a_full_lane_refuses_and_the_others_do_not() -> None:
    world = World(StoreConfig(log=SMALL.log, lanes=LanesConfig(request_count_max=2)))
    send(world)
    send(world)
    with pytest.raises(Overloaded):
        send(world)
    send(world, lane=Lane.CONSUME)
    world.pump()
    send(world)
    assert world.store.lanes.waiting()["send"][2] == 1


def test_a_request_larger_than_a_frame_is_refused() -> None:
    world = World()
    with pytest.raises(RequestTooLarge):
        send(world, bytes(SMALL.log.segment_size))


def test_a_full_disk_refuses_sends_and_then_everything() -> None:
    world = World()
    world.disk.space = SMALL.log.segment_size * 3
    fill_up(world)
    assert len(bodies(world)) > 50
    send(world, bytes(500), lane=Lane.CONSUME)  # acknowledgements go on
    world.pump()
    fill_up(world, Lane.CONSUME)


def test_a_store_that_was_full_goes_on_without_a_restart() -> None:
    world = World()
    world.disk.space = SMALL.log.segment_size * 2
    fill_up(world)
    assert world.store.log.needs_next
    world.disk.space = SMALL.log.segment_size * 4
    world.store.log.prepare_next()
    answers = send(world, bytes(500))
    world.pump()
    assert answers.one


def test_above_the_high_watermark_sends_are_refused_and_the_rest_is_not() -> None:
    world = World()
    world.disk.space = SMALL.log.segment_size * 100
    world.disk.create(segment_name(10**9), SMALL.log.segment_size * 94)
    world.store.housekeep()
    with pytest.raises(StoreFull, match="high watermark"):
        send(world)
    send(world, lane=Lane.END_TRANSACTION)
    send(world, lane=Lane.CONSUME)
    world.disk.delete(segment_name(10**9))
    world.store.housekeep()
    send(world)


def test_retention_makes_room_in_a_full_store() -> None:
    log = LogConfig(
        segment_size=16 * 1024,
        frame_size=2048,
        frame_size_max=16 * 1024,
        reserve_size=1024,
        retention_ms=1000,
    )
    world = World(StoreConfig(log=log, lanes=SMALL.lanes))
    world.disk.space = log.segment_size * 3
    fill_up(world)
    world.clock.advance(10_000)
    world.store.flush(world.store.log.durable_end)
    token, end = world.store.acquire("chronos")
    world.store.hold("chronos", token, end)
    world.store.housekeep()
    world.store.log.delete_forgotten()
    world.store.log.prepare_next()
    world.store.housekeep()
    send(world, bytes(500))
    world.pump()


# --- failure ----------------------------------------------------------------------


def test_a_failed_sync_leaves_everybody_in_the_unknown() -> None:
    world = World()
    written = send(world, dedup=key(b"k"))
    joined = send(world, dedup=key(b"k"))
    sealed = world.store.seal()
    assert sealed is not None
    waiting = send(world)
    world.disk.sync_failures = 1
    with pytest.raises(OSError, match="Input/output") as raised:
        world.store.write(sealed)
    world.store.fail(StoreFailed(str(raised.value)))
    for answers in (written, joined, waiting):
        assert [type(answer) for answer in answers.got] == [StoreFailed]
    assert bodies(world) == []


@pytest.mark.parametrize("survives", [True, False])
def test_after_a_failed_sync_a_restart_finds_what_is_really_there(
    survives: bool,
) -> None:
    world = World()
    world.append([Run(TOPIC, 0, [world.record(b"before")])])
    send(world, b"unknown")
    sealed = world.store.seal()
    assert sealed is not None
    world.disk.sync_failures = 1
    with pytest.raises(OSError, match="Input/output"):
        world.store.write(sealed)
    world.crash(lambda _: survives)
    assert bodies(world) == [b"before", *([b"unknown"] if survives else [])]


def test_a_frame_that_cannot_be_laid_out_leaves_nobody_waiting() -> None:
    world = World()
    answers = Answers()
    world.store.submit(Append([Run(-1, 0, [world.record()])]), answers)  # no such id
    with pytest.raises(Exception, match=r"argument|required"):
        world.store.seal()
    assert isinstance(answers.got[0], StoreFailed)


# --- log and index ------------------------------------------------------------------


def test_a_log_that_lost_what_the_index_has_seen_is_refused() -> None:
    world = World()
    world.append([Run(TOPIC, 0, [world.record(b"1")])])
    end = world.store.log.tail
    world.append([Run(TOPIC, 0, [world.record(b"2")])])
    applied = world.store.log.tail
    world.index.flush()
    world.disk.truncate(segment_name(0), end)
    with pytest.raises(LogBehindIndex) as raised:
        world.crash()
    assert (raised.value.log_end, raised.value.applied) == (end, applied)


def test_a_log_that_is_gone_is_refused() -> None:
    world = World()
    world.append([Run(TOPIC, 0, [world.record(b"1")])])
    world.index.flush()
    for name in world.disk.names():
        world.disk.delete(name)
    with pytest.raises(LogBehindIndex):
        world.crash()


def test_a_damaged_frame_that_the_index_has_seen_is_left_as_it_is() -> None:
    world = World()
    world.append([Run(TOPIC, 0, [world.record(b"precious")])])
    world.index.flush()
    world.disk.damage(segment_name(0), 60, 1)
    with pytest.raises(LogBehindIndex):
        world.crash()
    world.disk.damage(segment_name(0), 60, 1)  # mended by hand
    world.open()
    assert bodies(world) == [b"precious"]

"""Bulk cancel and reschedule: everything that is meant, once, and nothing else."""

from typing import Any

import pytest
from tests.unit.chronos_bulk import (
    BulkLine,
    cancel_of,
    move_to,
    operation_id,
    shift_of,
)
from tests.unit.chronos_line import (
    START_MS,
    TOPIC,
    event_id,
    number_of,
    own_record,
    schedule_record,
)

from halfpast_chronos.decisions import decide_replace
from halfpast_chronos.delay_server import EventState, Happening, Replace
from halfpast_chronos.operation import (
    BeginBulk,
    CancelOperation,
    ListOperations,
    OperationState,
)
from halfpast_chronos.operation_errors import (
    InvalidPageToken,
    OperationEnded,
    TooManyOperations,
    UnknownOperation,
)
from halfpast_core_store.errors import IdempotencyConflict
from halfpast_core_store.record import HEADER

COUNT = 24
BORN_AT = 32


@pytest.fixture
def line() -> BulkLine:
    """24 timers of two topics, three keys and two tags, 10 ms apart."""
    line = BulkLine()
    for n in range(COUNT):
        line.schedule(
            n,
            START_MS + 10 * n,
            topic_id=TOPIC + n % 2,
            key=b"key-%d" % (n % 3),
            tag=b"even" if n % 4 == 0 else b"odd",
        )
    return line


def pending(line: BulkLine) -> list[int]:
    timers = line.index.scan_keys(b"T", b"U", 1000)
    return sorted(number_of(timer[-16:]) for timer in timers)


def due(line: BulkLine) -> dict[int, int]:
    """Due times of what is pending, from the start."""
    return {n: line.event(n).due_ms - START_MS for n in pending(line)}


@pytest.mark.parametrize(
    ("wanted", "cancelled"),
    [
        ({}, range(COUNT)),
        ({"topic_id": TOPIC}, range(0, COUNT, 2)),
        ({"topic_id": TOPIC, "key": b"key-1"}, range(4, COUNT, 6)),
        ({"key": b"key-2"}, range(2, COUNT, 3)),
        ({"key": b"key"}, []),
        ({"tag": b"even"}, range(0, COUNT, 4)),
        ({"topic_id": TOPIC + 1, "tag": b"even"}, []),
        ({"due_after_ms": START_MS + 50, "due_before_ms": START_MS + 80}, [5, 6, 7]),
        ({"key": b"key-0", "due_after_ms": START_MS + 100}, range(12, COUNT, 3)),
        ({"topic_id": TOPIC + 7}, []),
    ],
)
def test_what_the_filter_means_is_cancelled(
    line: BulkLine, wanted: dict[str, Any], cancelled: range
) -> None:
    ended = line.carry_out(cancel_of(**wanted))
    assert ended.state == OperationState.DONE
    assert ended.matched == ended.changed == len(cancelled)
    assert pending(line) == [n for n in range(COUNT) if n not in cancelled]
    for number in cancelled:
        event = line.event(number)
        assert event.state == EventState.CANCELLED
        assert event.version == 2
        assert event.timeline[-1][1] == Happening.CANCELLED
    line.clock.advance(1000)
    assert sorted(line.fire_all()) == [n for n in range(COUNT) if n not in cancelled]
    assert not line.index.scan(b"K", b"L", 10)
    assert not line.core.claims


def test_a_dry_run_counts_and_changes_nothing(line: BulkLine) -> None:
    ended = line.carry_out(cancel_of(dry_run=True, tag=b"even"))
    assert (ended.matched, ended.changed, ended.scanned) == (6, 0, COUNT)
    assert len(pending(line)) == COUNT


@pytest.mark.parametrize("shift_ms", [25, -25, 10, 1000, -10])
@pytest.mark.parametrize("wanted", [{}, {"topic_id": TOPIC}, {"key": b"key-0"}])
def test_each_is_shifted_once(
    line: BulkLine, shift_ms: int, wanted: dict[str, Any]
) -> None:
    line.schedule(99, START_MS + 10_000, topic_id=TOPIC, key=b"key-0")
    before = due(line)
    ended = line.carry_out(shift_of(shift_ms, **wanted))
    moved = {n: ms for n, ms in due(line).items() if ms != before[n]}
    assert ended.changed == len(moved)
    for number, ms in moved.items():
        assert ms == max(0, before[number] + shift_ms)
        assert line.event(number).version == 2
    stayed = before.keys() - moved.keys()
    if not wanted:
        assert stayed == ({0} if shift_ms < 0 else set())
    line.clock.advance(20_000)
    assert len(line.fire_all()) == COUNT + 1


def test_all_are_moved_to_one_time(line: BulkLine) -> None:
    there = START_MS + 60
    ended = line.carry_out(move_to(there, topic_id=TOPIC))
    assert ended.changed == ended.matched == COUNT // 2 - 1  # one is there already
    assert {ms for n, ms in due(line).items() if n % 2 == 0} == {60}
    assert line.event(6).version == 1
    line.clock.advance(60)
    assert set(range(0, COUNT, 2)) <= set(line.fire_all())


def test_what_is_accepted_later_is_not_meant(line: BulkLine) -> None:
    begun = line.begin(cancel_of())
    line.advance(begun.operation_id)
    records: list[bytes] = []
    for number, born_ms in ((50, START_MS), (51, START_MS + 1)):
        record = bytearray(schedule_record(number, START_MS + 10_000))
        record[BORN_AT : BORN_AT + 8] = born_ms.to_bytes(8, "little")
        records.append(bytes(record))
    line.append_records(records)
    line.follow()
    line.finish(begun)
    assert pending(line) == [51]  # the other one in the same millisecond


def test_a_timer_on_its_way_is_waited_for(line: BulkLine) -> None:
    line.clock.advance(50)
    line.load()
    firing = line.core.fire()
    assert firing is not None
    begun = line.begin(cancel_of())
    made = line.plan(begun.operation_id)
    assert made.busy == event_id(0)
    assert made.changed == 0
    line.core.release([begun.operation_id])
    line.send(firing)
    ended = line.finish(begun)
    assert ended.changed == COUNT - len(firing.keys)
    fired = {number_of(arrival.event_id) for arrival in line.arrivals}
    assert fired == {0, 1, 2, 3, 4, 5}
    assert not pending(line)


def test_a_refused_slice_is_carried_out_again(line: BulkLine) -> None:
    begun = line.begin(cancel_of())
    made = line.plan(begun.operation_id)
    line.give_up(made.command(line.operations))
    assert len(pending(line)) == COUNT
    assert line.finish(begun).changed == COUNT


def test_claimed_timers_do_not_fire_until_given_up(line: BulkLine) -> None:
    line.clock.advance(1000)
    begun = line.begin(cancel_of(topic_id=TOPIC))
    command = line.plan(begun.operation_id).command(line.operations)
    held = {number_of(claim) for claim in command.claims[1:]}
    assert len(held) == 3
    assert set(line.fire_all()) == set(range(COUNT)) - held
    line.give_up(command)
    assert set(line.fire_all()) == held


@pytest.mark.parametrize("kept", range(0, 40, 3))
def test_an_operation_goes_on_after_a_crash(line: BulkLine, kept: int) -> None:
    before = due(line)
    begun = line.begin(shift_of(25))
    for _ in range(3):
        line.advance(begun.operation_id)
    line.crash(min(kept, line.index.batches_at_risk))
    assert line.operations.get(begun.operation_id).changed == 9
    ended = line.finish(begun)
    assert ended.changed == COUNT
    assert due(line) == {n: ms + 25 for n, ms in before.items()}
    line.clock.advance(5_000)
    assert len(line.fire_all()) == COUNT


def test_an_operation_can_be_stopped_and_stays_so(line: BulkLine) -> None:
    begun = line.begin(cancel_of())
    line.advance(begun.operation_id)
    stop = CancelOperation(begun.operation_id)
    line.see_through(line.operations.decide_cancel(stop))
    stopped = line.operations.get(begun.operation_id)
    assert stopped.state == OperationState.CANCELLED
    assert stopped.changed == COUNT - len(pending(line)) == 3
    assert line.operations.decide_cancel(stop) == stopped
    assert line.operations.running() == []


def test_what_has_ended_cannot_be_stopped(line: BulkLine) -> None:
    ended = line.carry_out(cancel_of())
    with pytest.raises(OperationEnded):
        line.operations.decide_cancel(CancelOperation(ended.operation_id))
    with pytest.raises(UnknownOperation):
        line.operations.decide_cancel(CancelOperation(event_id(1)))


def test_an_idempotency_key_begins_one_operation(line: BulkLine) -> None:
    wish = cancel_of(topic_id=TOPIC)
    first = line.begin(wish, idempotency_key=b"k", fingerprint=b"1")
    again = line.begin(wish, idempotency_key=b"k", fingerprint=b"1")
    assert again.operation_id == first.operation_id
    line.crash(0)
    with pytest.raises(IdempotencyConflict):
        line.begin(wish, idempotency_key=b"k", fingerprint=b"2")
    assert not line.core.claims


def test_not_too_many_run_at_a_time(line: BulkLine) -> None:
    for _ in range(50):
        line.begin(cancel_of())
    with pytest.raises(TooManyOperations):
        line.begin(cancel_of())
    request = BeginBulk(operation_id(50), cancel_of(), 0)
    assert line.operations.decide_begin(request, 0)  # that one is known


def test_operations_are_listed_newest_first_page_by_page(line: BulkLine) -> None:
    begun = [line.begin(cancel_of(dry_run=True)).operation_id for _ in range(7)]
    line.finish(line.operations.get(begun[0]))
    found: list[bytes] = []
    request = ListOperations(limit=3)
    while True:
        page = line.operations.page(request)
        found += [it.operation_id for it in page.operations]
        if not page.next_token:
            break
        request.after = page.next_token
    assert found == begun[::-1]
    done = line.operations.page(ListOperations(state=OperationState.DONE))
    assert [it.operation_id for it in done.operations] == begun[:1]
    with pytest.raises(InvalidPageToken):
        line.operations.page(ListOperations(after=b"x"))


def test_old_operations_are_forgotten(line: BulkLine) -> None:
    ended = line.carry_out(cancel_of(dry_run=True))
    running = line.begin(cancel_of())
    line.clock.advance(1000)
    line.operations.forget(ended.finished_ms)
    assert line.operations.get(ended.operation_id)
    line.operations.forget(ended.finished_ms + 1)
    with pytest.raises(UnknownOperation):
        line.operations.get(ended.operation_id)
    line.crash(line.index.batches_at_risk)
    assert [it.operation_id for it in line.operations.running()] == [
        running.operation_id
    ]


def test_what_is_tried_again_is_met_where_it_waits(line: BulkLine) -> None:
    """A timer whose topic did not take it is due later than its message."""
    ((_, record),) = line.index.scan(b"T", b"U", 1)
    head = HEADER.unpack_from(record)
    line.append_records([line.core.failing.record(head, event_id(0), "no: not now")])
    line.follow()
    assert line.event(0).attempts == 1
    ended = line.carry_out(shift_of(10, key=b"key-0"))
    assert ended.changed == 8
    event = line.event(0)
    assert (event.attempts, event.retry_ms) == (0, 0)
    line.carry_out(cancel_of())
    assert not pending(line)
    assert not line.index.scan(b"D", b"E", 10)
    assert not line.index.scan(b"T", b"U", 10)


def test_what_happened_to_an_event_since_it_was_met_is_kept() -> None:
    """A slice that seemed refused comes after all, from another process perhaps."""
    line = BulkLine()
    due_ms = START_MS + 1000
    line.see_through(decide_replace(line.core, Replace(own_record(1, due_ms, b"own"))))
    begun = line.begin(cancel_of())
    command = line.plan(begun.operation_id).command(line.operations)
    line.give_up(command)
    again = Replace(own_record(2, due_ms, b"own", body=b"new"))
    line.see_through(decide_replace(line.core, again))
    line.append(command.request)
    line.follow()
    event = line.event(1)
    assert event.state == EventState.CANCELLED
    assert event.version == 3
    assert [what for _, what in event.timeline] == [
        Happening.SCHEDULED,
        Happening.REPLACED,
        Happening.CANCELLED,
    ]

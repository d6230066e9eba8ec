"""Applying is a projection: from any prefix of the batches, the same contents."""

from collections.abc import Sequence

import pytest
from tests.unit.chronos_line import (
    START_MS,
    Line,
    event_id,
    own_record,
    schedule_record,
)

from halfpast_chronos import keys
from halfpast_chronos.core import DelayCore
from halfpast_chronos.decisions import (
    Command,
    decide_cancel,
    decide_replace,
    decide_reschedule,
)
from halfpast_chronos.delay_server import Cancel, EventState, Replace, Reschedule
from halfpast_core_store.broker import FollowedFrame
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import RecordKind, encode_record


def busy_line() -> Line:
    """A log with a bit of everything in it, several records a frame."""
    line = Line()
    line.append_records(
        [schedule_record(n, START_MS + 10 * n, key=b"k") for n in range(6)]
    )
    line.follow()
    line.see_through(decide_cancel(line.core, Cancel(event_id(3))))
    move = Reschedule(event_id(4), START_MS + 5)
    line.see_through(decide_reschedule(line.core, move))
    for number, due in [(20, 15), (21, 12), (22, 90)]:
        record = own_record(number, START_MS + due, b"own", body=bytes([number]))
        line.see_through(decide_replace(line.core, Replace(record)))
        line.clock.advance(5)
        line.fire_all()
    # One frame as busy as group commit makes it.
    commands = [
        decide_cancel(line.core, Cancel(event_id(5))),
        decide_reschedule(line.core, Reschedule(event_id(20), START_MS + 70)),
    ]
    records = [schedule_record(30, START_MS + 16)]
    for command in commands:
        records += command.request.runs[0].records  # type: ignore[union-attr]
    line.append_records([*records, schedule_record(31, START_MS + 17)])
    line.follow()
    line.clock.advance(5)
    line.fire_all()
    return line


def test_the_busy_line_has_everything() -> None:
    line = busy_line()
    states = {line.event(n).state for n in (0, 1, 3, 4, 5, 30)}
    assert states == {EventState.DELIVERED, EventState.CANCELLED}
    assert line.index.scan(b"T", b"U", 10)
    assert not line.core.claims


def test_every_prefix_of_the_batches_leads_to_the_same_contents() -> None:
    line = busy_line()
    contents = line.index.contents()
    total = line.index.batches_at_risk
    assert total > 10
    for kept in range(total + 1):
        line = busy_line()
        line.crash(kept)
        assert line.index.contents() == contents, kept
        assert not line.core.claims


def test_after_any_crash_nothing_fires_twice_and_nothing_is_missing() -> None:
    for kept in range(busy_line().index.batches_at_risk + 1):
        line = busy_line()
        line.crash(kept)
        line.clock.advance(1000)
        line.fire_all()
        ids = [arrival.event_id for arrival in line.arrivals]
        assert len(ids) == len(set(ids))
        wanted = {0, 1, 2, 4, 20, 30, 31}
        assert wanted <= {int.from_bytes(i, "big") for i in ids}
        assert not line.index.scan(b"T", b"U", 10)


def test_slices_give_what_whole_frames_give() -> None:
    whole = busy_line()
    sliced = Line()
    sliced.clock.ns = whole.clock.ns
    for frame in whole.frames:
        for start in range(max(1, len(frame.records))):
            sliced.core.apply_slice(frame, start, start + 1)
    assert sliced.index.contents() == whole.index.contents()
    assert sliced.core.position == whole.core.position


def test_a_half_applied_frame_is_applied_again_as_a_whole() -> None:
    frames = busy_line().frames
    for cut in range(1, 4):
        line = Line()
        line.core.apply(frames[:-2], 0)
        expected = Line()
        expected.core.apply(frames, 0)
        line.core.apply_slice(frames[-2], 0, cut)
        line.index = line.index.crash(line.index.batches_at_risk)
        line.core = DelayCore(line.index, line.clock, line.config)
        assert line.core.position == frames[-3].end
        line.core.apply(frames, 0)
        assert line.index.contents() == expected.index.contents()


def test_frames_that_were_applied_are_passed_over() -> None:
    line = busy_line()
    contents = line.index.contents()
    scheduled = line.core.scheduled_count
    line.core.apply(line.frames, line.log_end)
    assert line.index.contents() == contents
    assert line.core.scheduled_count == scheduled


def test_a_fired_timer_in_the_log_counts_though_the_index_lost_it() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.index.flush()
    assert line.fire_all() == [1]
    line.crash(0)
    assert line.event(1).state == EventState.DELIVERED
    assert line.fire_all() == []


def test_the_position_is_kept_where_the_log_had_nothing_for_us() -> None:
    # Else a restart asks for a part of the log that retention has deleted.
    line = Line()
    line.schedule(1, START_MS + 5)
    line.core.apply([], 10_000)
    assert line.core.position == 10_000
    assert line.core.save_position() == 10_000
    line.index.flush()
    assert DelayCore(line.index, line.clock, line.config).position == 10_000


def test_saving_the_position_amid_a_frame_does_not_skip_it() -> None:
    line = Line()
    records = [schedule_record(n, START_MS) for n in range(4)]
    frame = FollowedFrame(0, 64, START_MS, records)
    line.core.apply_slice(frame, 0, 2)
    assert line.core.save_position() == 0
    line.frames = [frame]
    line.crash(line.index.batches_at_risk)
    assert sorted(line.fire_all()) == [0, 1, 2, 3]


def claims_of(kind: str) -> tuple[Line, Sequence[bytes]]:
    """A line on which somebody has claimed event 1, and the claims."""
    line = Line()
    record = own_record(1, START_MS, b"own")
    line.see_through(decide_replace(line.core, Replace(record)))
    line.load()
    if kind == "fire":
        firing = line.core.fire()
        assert firing is not None
        line.append(firing.request)
        return line, [event_id(1)]
    decision = decide(line, kind)
    assert isinstance(decision, Command)
    line.append(decision.request)
    return line, decision.claims


def decide(line: Line, kind: str) -> object:
    if kind == "cancel":
        return decide_cancel(line.core, Cancel(event_id(1)))
    if kind == "move":
        return decide_reschedule(line.core, Reschedule(event_id(1), 1))
    return decide_replace(line.core, Replace(own_record(2, START_MS, b"own")))


@pytest.mark.parametrize("kind", ["fire", "cancel", "move", "replace"])
def test_every_claim_is_released_by_its_record(kind: str) -> None:
    line, claims = claims_of(kind)
    assert line.core.claims == set(claims)
    assert sorted(line.follow()) == sorted(claims)
    assert not line.core.claims


def test_records_of_other_kinds_are_left_alone() -> None:
    line = Line()
    line.append_records([encode_record(RecordKind.OP), encode_record(99)])
    line.follow()
    assert line.core.position == line.log_end
    assert set(line.index.contents()) == {keys.APPLIED, keys.FORMAT}


def test_records_about_unknown_events_change_nothing() -> None:
    line = Line()
    line.append_records(
        [
            encode_record(RecordKind.CANCEL, event_id=event_id(1)),
            encode_record(RecordKind.RESCHEDULE, event_id=event_id(1), version=2),
            encode_record(
                RecordKind.FIRED,
                body=keys.FIRED_ENTRY.pack(b"T", START_MS, event_id(1)),
            ),
        ]
    )
    line.follow()
    assert set(line.index.contents()) == {keys.APPLIED, keys.FORMAT}


def test_a_new_core_continues_where_the_index_stands() -> None:
    index = MemoryIndex()
    line = busy_line()
    core = DelayCore(index, line.clock, line.config)
    for frame in line.frames:
        core.apply([frame], frame.end)
        core = DelayCore(index, line.clock, line.config)
    assert index.contents() == line.index.contents()

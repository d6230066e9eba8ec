"""Recurring schedules on a hand-driven Delay Server."""

from typing import Any

import msgspec
import pytest
from tests.unit.chronos_line import START_MS, TOPIC, busy_with, event_id
from tests.unit.recurring_line import MINUTE_MS, SCHEDULE, RecurringLine, message

from halfpast_chronos import recurring_state as stored
from halfpast_chronos.decisions import decide_cancel
from halfpast_chronos.delay_server import Cancel, EventState
from halfpast_chronos.errors import (
    BadPlan,
    NeverOccurs,
    ScheduleEnded,
    StaleVersion,
    UnknownSchedule,
)
from halfpast_chronos.recurrence import CatchUp, Plan
from halfpast_chronos.recurring import recurrence_of
from halfpast_chronos.recurring_calls import (
    ChangeSchedule,
    CreateSchedule,
    EndSchedule,
    ListSchedules,
    PauseSchedule,
    ScheduleState,
)
from halfpast_chronos.recurring_decisions import (
    Known,
    decide_change,
    decide_create,
    decide_end,
    decide_pause,
)
from halfpast_chronos.recurring_listing import ScheduleListing
from halfpast_chronos.topic_controls import TopicControl
from halfpast_core_store.errors import IdempotencyConflict, UnknownTopic
from halfpast_core_store.events import first_stored
from halfpast_core_store.record import RecordFlag, RecordKind, decode_record

EVERY_MINUTE = Plan(interval_ms=MINUTE_MS)


def missing(catch_up: CatchUp, grace_ms: int = 5_000) -> RecurringLine:
    """A schedule of every minute, whose server was away for ten and a half."""
    line = RecurringLine()
    line.create(Plan(interval_ms=MINUTE_MS, catch_up=catch_up, grace_ms=grace_ms))
    assert line.dues(MINUTE_MS) == [MINUTE_MS]
    line.index.flush()
    line.clock.advance(10 * MINUTE_MS + MINUTE_MS // 2)
    line.crash(0)
    return line


def test_it_occurs_again_and_again() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    assert line.dues(MINUTE_MS - 1) == []
    assert line.dues(1) == [MINUTE_MS]
    assert line.dues(0) == []
    assert line.dues(MINUTE_MS) == [2 * MINUTE_MS]
    progress = line.progress()
    assert (progress.count, progress.version) == (2, 1)
    assert progress.due_ms == START_MS + 3 * MINUTE_MS


def test_messages_and_the_next_time_are_one_frame() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.clock.advance(MINUTE_MS)
    firing = line.core.fire()
    assert firing is not None
    records = [decode_record(it) for run in firing.request.runs for it in run.records]
    assert [it.kind for it in records] == [RecordKind.NORMAL, RecordKind.OCCURRED]
    assert records[1].due_ms == START_MS + 2 * MINUTE_MS
    assert firing.request.due_max_ms == START_MS + MINUTE_MS


def test_what_a_message_is() -> None:
    line = RecurringLine()
    packed = msgspec.msgpack.encode({"region": "eu"})
    fields = {"key": b"k", "tag": b"t", "properties": packed, "body": b"{}"}
    line.create(EVERY_MINUTE, fields={**fields, "flags": RecordFlag.JSON})
    line.clock.advance(MINUTE_MS)
    firing = line.core.fire()
    assert firing is not None
    run = firing.request.runs[0]
    (data,) = run.records
    record = decode_record(data)
    assert (run.topic_id, run.queue_id, record.topic_id) == (TOPIC, 2, TOPIC)
    assert (record.key, record.tag, record.body) == (b"k", b"t", b"{}")
    assert record.flags == RecordFlag.JSON | RecordFlag.OCCURRENCE
    assert record.born_ms == START_MS + MINUTE_MS
    assert msgspec.msgpack.decode(record.properties) == {
        "region": "eu",
        "schedule_id": "00000000-0000-0000-0000-000000000007",
        "schedule_occurrence": "1",
        "schedule_time_ms": str(START_MS + MINUTE_MS),
    }
    assert first_stored(data), "the store could not find it by its id"


def test_ids_are_uuids_that_follow_from_schedule_and_number() -> None:
    made = {
        stored.occurrence_id(event_id(schedule), number, START_MS + number)
        for schedule in range(20)
        for number in range(20)
    }
    assert len(made) == 400
    for it in made:
        assert it[6] >> 4 == 7
        assert it[8] >> 6 == 2
        assert START_MS <= int.from_bytes(it[:6], "big") < START_MS + 20
    again = stored.occurrence_id(event_id(3), 4, START_MS + 4)
    assert again in made


def test_an_occurrence_is_an_event_that_was_delivered() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE, fields={"key": b"k"})
    (arrival,) = line.pass_time(MINUTE_MS + 3)
    event = line.core.event(arrival.event_id)
    assert event is not None
    assert (event.state, event.key) == (EventState.DELIVERED, b"k")
    shown = event.public(arrival.event_id, None)
    assert shown.lateness_ms == 3
    assert line.progress().last_event_id == arrival.event_id
    decided = decide_cancel(line.core, Cancel(arrival.event_id))
    assert getattr(decided, "outcome", "") == "too_late"


def test_a_schedule_is_no_event() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    assert line.core.event(SCHEDULE) is None
    decided = decide_cancel(line.core, Cancel(SCHEDULE))
    assert getattr(decided, "outcome", "") == "not_found"


def test_it_fires_beside_ordinary_timers() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.schedule(1, START_MS + MINUTE_MS)
    line.schedule(2, START_MS + MINUTE_MS)
    assert sorted(line.dues(MINUTE_MS)) == [MINUTE_MS] * 3
    assert line.event(1).state == line.event(2).state == EventState.DELIVERED


def test_many_at_once_go_in_frames_of_a_few() -> None:
    line = RecurringLine()
    for number in range(60):
        line.create(EVERY_MINUTE, number)
    line.schedule(100, START_MS + MINUTE_MS)
    line.clock.advance(MINUTE_MS)
    firing = line.core.fire()
    assert firing is not None
    assert len(firing.keys) <= 26
    line.send(firing)
    line.fire_all()
    assert len(line.arrivals) == 61


def test_times_and_until_end_it() -> None:
    line = RecurringLine()
    line.create(Plan(interval_ms=MINUTE_MS, times=2))
    until_ms = START_MS + 3 * MINUTE_MS
    line.create(Plan(interval_ms=MINUTE_MS, until_ms=until_ms), 8)
    for _ in range(5):
        line.pass_time(MINUTE_MS)
    assert len(line.arrivals) == 5
    ended = [line.progress(number) for number in (7, 8)]
    assert [it.reason for it in ended] == ["times", "until"]
    assert all(it.state == ScheduleState.ENDED for it in ended)
    assert not line.index.scan(b"T", b"U", 10)


# --- catching up --------------------------------------------------------------------


def test_fire_once_fires_the_last_that_was_missed() -> None:
    line = missing(CatchUp.FIRE_ONCE)
    assert line.dues(0) == [11 * MINUTE_MS]
    assert line.progress().skipped_ms == START_MS + 10 * MINUTE_MS
    assert line.dues(MINUTE_MS // 2) == [12 * MINUTE_MS]
    assert line.progress().count == 3


def test_fire_all_fires_each() -> None:
    line = missing(CatchUp.FIRE_ALL)
    assert line.dues(0) == [n * MINUTE_MS for n in range(2, 12)]
    assert line.progress().skipped_ms == 0
    assert line.dues(MINUTE_MS // 2) == [12 * MINUTE_MS]


def test_skip_goes_on_with_what_comes_next() -> None:
    line = missing(CatchUp.SKIP)
    assert line.dues(0) == []
    assert line.progress().skipped_ms == START_MS + 11 * MINUTE_MS
    assert line.dues(MINUTE_MS // 2) == [12 * MINUTE_MS]
    assert line.progress().count == 2


def test_skip_fires_what_is_hardly_late() -> None:
    line = missing(CatchUp.SKIP, grace_ms=MINUTE_MS // 2)
    assert line.dues(0) == [11 * MINUTE_MS]
    line = missing(CatchUp.SKIP, grace_ms=MINUTE_MS // 2 - 1)
    assert line.dues(0) == []


def test_fire_all_goes_in_frames_of_bounded_size() -> None:
    line = RecurringLine()
    line.create(Plan(interval_ms=1000, catch_up=CatchUp.FIRE_ALL))
    line.clock.advance(250_500)
    frames = len(line.frames)
    assert line.dues(0) == [n * 1000 for n in range(1, 251)]
    assert len(line.frames) - frames == 3

    small = RecurringLine(fire_size=1)
    small.create(Plan(interval_ms=1000, catch_up=CatchUp.FIRE_ALL))
    small.clock.advance(5_000)
    frames = len(small.frames)
    assert small.dues(0) == [1000, 2000, 3000, 4000, 5000]
    assert len(small.frames) - frames == 5


def test_fire_all_stops_at_times() -> None:
    line = RecurringLine()
    line.create(Plan(interval_ms=1000, times=3, catch_up=CatchUp.FIRE_ALL))
    assert line.dues(100_000) == [1000, 2000, 3000]
    assert line.progress().reason == "times"


def test_catching_up_with_jitter_takes_only_what_is_due() -> None:
    for number in range(20):
        line = RecurringLine()
        plan = Plan(interval_ms=MINUTE_MS, jitter_ms=MINUTE_MS - 1)
        line.create(plan, number)
        (arrival,) = line.pass_time(10 * MINUTE_MS)
        progress = line.progress(number)
        plan = progress.plan
        nominals = [START_MS + n * MINUTE_MS for n in range(1, 11)]
        dues = [recurrence_of(plan).due(event_id(number), it) for it in nominals]
        assert arrival.due_ms == max(it for it in dues if it <= line.now_ms)
        assert progress.due_ms > line.now_ms


def test_a_clock_that_is_set_back_repeats_nothing() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    assert line.dues(MINUTE_MS) == [MINUTE_MS]
    assert line.dues(-30 * MINUTE_MS) == []
    line.change(EVERY_MINUTE)  # would begin anew, a minute from then
    line.pause()
    line.pause(False)
    assert line.dues(29 * MINUTE_MS) == []
    assert line.progress().due_ms > START_MS + MINUTE_MS


# --- decisions ----------------------------------------------------------------------


def test_pausing_stops_it_and_resuming_skips_what_was() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.pause()
    assert line.dues(5 * MINUTE_MS + 1) == []
    assert line.progress().state == ScheduleState.PAUSED
    line.pause(False)
    assert line.dues(MINUTE_MS) == [6 * MINUTE_MS]
    assert line.progress().version == 3


def test_pausing_twice_changes_nothing() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE, paused=True)
    asked = PauseSchedule(SCHEDULE, True)
    assert decide_pause(line.core, line.recurring, asked) == Known(SCHEDULE)
    assert line.dues(MINUTE_MS) == []


def test_a_change_takes_effect_at_once() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.change(Plan(interval_ms=10_000), body=b"tock")
    (arrival,) = line.pass_time(10_000)
    assert (arrival.due_ms, arrival.body) == (START_MS + 10_000, b"tock")
    assert line.progress().version == 2


def test_a_change_of_the_message_keeps_the_time() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.clock.advance(30_000)
    line.change(line.progress().plan, body=b"tock")
    (arrival,) = line.pass_time(30_000)
    assert (arrival.due_ms, arrival.body) == (START_MS + MINUTE_MS, b"tock")


def test_deleting_ends_it_for_good() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.end()
    assert line.dues(5 * MINUTE_MS) == []
    assert line.progress().reason == "deleted"
    asked = EndSchedule(SCHEDULE)
    assert decide_end(line.core, line.recurring, asked) == Known(SCHEDULE)
    with pytest.raises(ScheduleEnded):
        line.pause()
    with pytest.raises(ScheduleEnded):
        line.change(EVERY_MINUTE)


def test_what_is_on_its_way_is_waited_for() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.clock.advance(MINUTE_MS)
    firing = line.core.fire()
    asked = EndSchedule(SCHEDULE)
    decided = decide_end(line.core, line.recurring, asked)
    assert busy_with(decided) == SCHEDULE
    assert busy_with(
        decide_pause(line.core, line.recurring, PauseSchedule(SCHEDULE, True))
    )
    line.send(firing)
    line.end()
    assert line.dues(5 * MINUTE_MS) == []


def test_what_is_being_decided_about_does_not_fire() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.clock.advance(MINUTE_MS)
    decided = decide_pause(line.core, line.recurring, PauseSchedule(SCHEDULE, True))
    assert line.core.fire() is None
    assert not isinstance(decided, Known)
    line.core.release([SCHEDULE])  # it was refused
    line.core.return_to_wheel(SCHEDULE)
    assert line.dues(0) == [MINUTE_MS]


def test_a_refused_firing_is_made_again_under_the_same_id() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.clock.advance(MINUTE_MS)
    first = line.core.fire()
    assert first is not None
    line.core.refused(first)
    second = line.core.fire()
    assert second is not None
    ids = [it.request.runs[0].records[0][16:32] for it in (first, second)]
    assert ids[0] == ids[1]
    line.send(second)
    assert len(line.arrivals) == 1


def test_versions() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.pass_time(MINUTE_MS)  # that is no change
    core, recurring = line.core, line.recurring
    with pytest.raises(StaleVersion):
        decide_pause(core, recurring, PauseSchedule(SCHEDULE, True, 2))
    with pytest.raises(StaleVersion):
        decide_end(core, recurring, EndSchedule(SCHEDULE, 2))
    asked = ChangeSchedule(SCHEDULE, 2, EVERY_MINUTE, message())
    with pytest.raises(StaleVersion):
        decide_change(core, recurring, asked)
    line.see_through(decide_pause(core, recurring, PauseSchedule(SCHEDULE, True, 1)))


def test_unknown_ones() -> None:
    line = RecurringLine()
    with pytest.raises(UnknownSchedule):
        line.end()
    with pytest.raises(UnknownSchedule):
        line.pause()


def test_what_never_occurs_is_refused() -> None:
    line = RecurringLine()
    with pytest.raises(NeverOccurs):
        line.create(Plan(interval_ms=MINUTE_MS, until_ms=START_MS + 1))
    with pytest.raises(NeverOccurs):
        line.create(Plan(cron="* * */20 * 1L"))
    with pytest.raises(BadPlan):
        line.create(Plan())
    line.create(EVERY_MINUTE)
    line.pass_time(MINUTE_MS)
    with pytest.raises(NeverOccurs):
        line.change(Plan(interval_ms=MINUTE_MS, times=1))
    assert not line.core.claims


def test_an_idempotency_key_makes_one_schedule() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE, dedup_key=b"k" * 16, fingerprint=b"f")

    def again(fingerprint: bytes) -> object:
        asked = CreateSchedule(
            message(9),
            EVERY_MINUTE,
            dedup_key=b"k" * 16,
            fingerprint=fingerprint,
        )
        return decide_create(line.core, line.recurring, asked)

    assert again(b"f") == Known(SCHEDULE)
    with pytest.raises(IdempotencyConflict):
        again(b"g")
    line.end()
    assert again(b"f") == Known(SCHEDULE)


def test_two_with_one_key_at_once_wait_for_each_other() -> None:
    line = RecurringLine()

    def asked(number: int) -> object:
        request = CreateSchedule(message(number), EVERY_MINUTE, dedup_key=b"k" * 16)
        return decide_create(line.core, line.recurring, request)

    first = asked(1)
    assert busy_with(asked(2)) == stored.dedup(b"k" * 16)
    line.see_through(first)
    assert asked(2) == Known(event_id(1))


def test_a_time_zone_that_is_gone_pauses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    line = RecurringLine()
    line.create(Plan(cron="0 * * * *", time_zone="Europe/Berlin"))
    line.create(EVERY_MINUTE, 8)
    recurrence_of.cache_clear()
    monkeypatch.setattr("halfpast_chronos.cron.known_zones", lambda: {"UTC"})
    assert len(line.pass_time(60 * MINUTE_MS)) == 2
    progress = line.progress()
    assert progress.state == ScheduleState.PAUSED
    assert "Europe/Berlin" in progress.reason
    with pytest.raises(BadPlan):
        line.pause(False)
    monkeypatch.undo()
    line.pause(False)
    assert line.progress().reason == ""
    assert len(line.pass_time(60 * MINUTE_MS)) == 2


# --- upkeep -------------------------------------------------------------------------


def test_ended_ones_are_forgotten_after_their_time() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE, dedup_key=b"k" * 16)
    line.create(EVERY_MINUTE, 8)
    line.end()
    assert not line.recurring.forget(line.now_ms, 10)
    assert line.recurring.progress(SCHEDULE) is not None
    line.clock.advance(1)
    assert line.recurring.forget(line.now_ms, 1)
    assert line.recurring.progress(SCHEDULE) is None
    assert line.recurring.made_by(b"k" * 16) is None
    assert line.progress(8).state == ScheduleState.ACTIVE
    assert {key[1:2] for key, _ in line.index.scan(b"R", b"S", 10)} == {b"d", b"s"}


def test_listing() -> None:
    line = RecurringLine()
    for number in range(60):
        line.create(EVERY_MINUTE, number, paused=number % 2 == 0)

    def pages(**request: Any) -> list[list[int]]:
        found: list[list[int]] = []
        token = b""
        while True:
            listing = ScheduleListing(line.core, ListSchedules(after=token, **request))
            while listing.step():
                pass
            page = listing.page()
            found.append(
                [int.from_bytes(it.schedule_id, "big") for it in page.schedules]
            )
            token = page.next_token
            if not token:
                return found

    assert flat(pages(limit=7)) == list(range(60))
    assert max(map(len, pages(limit=7))) == 7
    active = pages(limit=100, state=ScheduleState.ACTIVE)
    assert flat(active) == list(range(1, 60, 2))
    assert flat(pages(limit=100, topic_id=TOPIC + 1)) == []
    assert flat(pages(limit=100, topic_id=TOPIC)) == list(range(60))


# --- topics that do not take it ---------------------------------------------------


def test_what_its_topic_does_not_take_fails_as_any_event() -> None:
    line = RecurringLine(attempts_max=2, retry_initial_ms=1000, retry_max_ms=1000)
    line.create(EVERY_MINUTE)
    line.core.control(TOPIC, TopicControl(closed="closed: it takes nothing"))
    assert line.pass_time(MINUTE_MS) == []
    (made,) = [key[1:] for key, _ in line.index.scan(b"E", b"F", 10)]
    event = line.core.event(made)
    assert event is not None
    assert (event.state, event.attempts) == (EventState.SCHEDULED, 1)
    assert line.progress().due_ms == START_MS + 2 * MINUTE_MS
    line.core.control(TOPIC, TopicControl())
    (arrival,) = line.pass_time(1000)
    assert (arrival.event_id, arrival.due_ms) == (made, START_MS + MINUTE_MS)
    event = line.core.event(made)
    assert event is not None
    assert event.state == EventState.DELIVERED
    assert line.dues(MINUTE_MS) == [2 * MINUTE_MS]


def test_one_that_was_not_taken_is_found_in_the_log_as_the_timer_it_became() -> None:
    line = RecurringLine(retry_initial_ms=1000, retry_max_ms=1000)
    line.create(EVERY_MINUTE)
    line.core.control(TOPIC, TopicControl(closed="closed: it takes nothing"))
    line.clock.advance(MINUTE_MS)
    firing = line.core.fire()
    assert firing is not None
    (timer,) = firing.request.runs[0].records
    assert decode_record(timer).flags & RecordFlag.OCCURRENCE
    assert first_stored(timer), "the store finds it by its id from now on"
    line.append(firing.request)
    line.follow()
    line.core.control(TOPIC, TopicControl())
    firing = line.core.fire()
    assert firing is not None
    (message,) = firing.request.runs[0].records
    assert decode_record(message).event_id == decode_record(timer).event_id
    assert not first_stored(message), "it is there already"


def test_what_the_broker_refuses_for_good_fails_and_the_rest_goes_on() -> None:
    line = RecurringLine()
    line.create(EVERY_MINUTE)
    line.schedule(1, START_MS + MINUTE_MS)
    line.clock.advance(MINUTE_MS)
    first = line.core.fire()
    assert first is not None
    assert len(first.keys) == 2
    assert line.core.refused(first, UnknownTopic("gone"))
    for _ in range(6):  # each alone; that of the schedule is refused again
        firing = line.core.fire()
        if firing is None:
            break
        if any(b"tick" in it for run in firing.request.runs for it in run.records) and (
            firing.message_count
        ):
            assert line.core.refused(firing, UnknownTopic("gone"))
        else:
            line.send(firing)
    assert [number for number in line.arrivals if number.event_id == event_id(1)]
    assert line.progress().count == 1
    made = line.progress().last_event_id
    event = line.core.event(made)
    assert event is not None
    assert event.state == EventState.SCHEDULED


def flat(pages: list[list[int]]) -> list[int]:
    return [number for page in pages for number in page]

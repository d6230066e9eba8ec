"""Finished events can be looked up for a while, and are then forgotten."""

import pytest
from tests.unit.chronos_line import START_MS, TOPIC, Line, event_id, own_record

from halfpast_chronos import history
from halfpast_chronos.decisions import decide_cancel, decide_replace
from halfpast_chronos.delay_server import Cancel, EventState, Replace


def forget_all(line: Line, limit: int = 100) -> int:
    """How many calls it took."""
    calls = 1
    while line.core.forget(limit):
        calls += 1
    return calls


def known(line: Line, *numbers: int) -> list[bool]:
    return [line.core.event(event_id(number)) is not None for number in numbers]


def test_finished_events_are_forgotten_after_the_history() -> None:
    line = Line(history_ms=1000)
    line.schedule(1, START_MS)
    line.schedule(2, START_MS + 5000)
    line.schedule(3, START_MS + 5000)
    line.fire_all()
    line.see_through(decide_cancel(line.core, Cancel(event_id(2))))
    line.clock.advance(1000)
    forget_all(line)
    assert known(line, 1, 2, 3) == [True, True, True]
    line.clock.advance(1)
    forget_all(line)
    assert known(line, 1, 2, 3) == [False, False, True]
    assert not line.index.scan(b"F", b"G", 10)
    line.clock.advance(10_000)
    assert line.fire_all() == [3]


def test_forgetting_goes_in_bounded_slices() -> None:
    line = Line(history_ms=0)
    for number in range(25):
        line.schedule(number, START_MS)
    line.fire_all()
    line.clock.advance(1)
    assert line.core.forget(10)
    assert len(line.index.scan(b"F", b"G", 100)) == 15
    assert forget_all(line, 10) == 2
    assert not line.index.scan(b"E", b"G", 100)


def test_what_finishes_later_is_forgotten_too() -> None:
    line = Line(history_ms=10)
    for number in range(5):
        line.schedule(number, START_MS + 20 * number)
        line.fire_all()
        line.clock.advance(20)
        forget_all(line)
        assert known(line, number) == [False]


def test_the_own_key_of_a_forgotten_event_is_free() -> None:
    line = Line(history_ms=0)
    first = Replace(own_record(1, START_MS, b"own"))
    line.see_through(decide_replace(line.core, first))
    line.fire_all()
    line.clock.advance(1)
    forget_all(line)
    assert line.core.own_event(TOPIC, b"own") is None
    again = Replace(own_record(2, START_MS, b"own"))
    assert line.see_through(decide_replace(line.core, again)).created


def test_the_own_key_of_a_newer_event_is_kept() -> None:
    line = Line(history_ms=5)
    first = Replace(own_record(1, START_MS, b"own"))
    line.see_through(decide_replace(line.core, first))
    line.fire_all()
    line.clock.advance(5)
    second = Replace(own_record(2, START_MS + 9000, b"own"))
    line.see_through(decide_replace(line.core, second))
    line.clock.advance(1)
    forget_all(line)
    assert known(line, 1, 2) == [False, True]
    assert line.core.own_event(TOPIC, b"own") == event_id(2)


def test_a_clock_before_the_history_forgets_nothing() -> None:
    line = Line(history_ms=2 * START_MS)
    line.schedule(1, START_MS)
    line.fire_all()
    assert not line.core.forget(10)
    assert line.event(1).state == EventState.DELIVERED


def count_all(line: Line) -> None:
    while line.core.history.step():
        pass


def test_the_oldest_go_first_when_there_are_too_many() -> None:
    line = Line(history_count_max=10)
    for number in range(25):
        line.schedule(number, START_MS + number)
        line.clock.advance(1)
        line.fire_all()
    assert forget_all(line, 4) == 4
    assert known(line, *range(25)) == [False] * 15 + [True] * 10
    assert line.core.history.count == 10


def test_the_count_survives_a_clean_end() -> None:
    line = Line(history_count_max=3)
    for number in range(5):
        line.schedule(number, START_MS)
    line.fire_all()
    line.core.save_position()
    line.index.flush()
    line.crash(0)
    assert line.core.history.is_exact
    assert line.core.history.count == 5
    forget_all(line)
    assert line.core.history.count == 3


def test_after_a_crash_they_are_counted_again_before_any_is_too_many() -> None:
    line = Line(history_count_max=20)
    for number in range(30):
        line.schedule(number, START_MS + number)
    line.core.save_position()
    line.index.flush()
    line.clock.advance(30)
    line.fire_all()
    line.crash(line.index.batches_at_risk)
    assert not line.core.history.is_exact
    forget_all(line)
    assert all(known(line, *range(30)))
    count_all(line)
    assert line.core.history.count == 30
    forget_all(line)
    assert line.core.history.count == len(line.index.scan(b"F", b"G", 100)) == 20


def test_what_changes_while_they_are_counted_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "SLICE_COUNT", 3)
    line = Line()
    for number in range(20):
        line.schedule(number, START_MS + number)
    line.core.save_position()
    line.index.flush()
    line.clock.advance(10)
    line.fire_all()
    line.crash(line.index.batches_at_risk)
    while line.core.history.step():
        line.clock.advance(1)
        line.fire_all()
    line.clock.advance(20)
    line.fire_all()
    assert line.core.history.count == len(line.index.scan(b"F", b"G", 100)) == 20

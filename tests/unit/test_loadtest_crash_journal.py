"""What the journal of a crash run promises: every answer and every missing one."""

from pathlib import Path

from tests.acceptance.crash_journal import (
    Acked,
    Change,
    Changed,
    Entry,
    Journal,
    Sent,
    fold,
    read_journal,
)

from halfpast_loadtest.delivery_check import Fate

NOW = 10_000


def sent(due_ms: int | None = None) -> Sent:
    return Sent(
        serial="a",
        topic="t",
        data='{"serial":"a"}',
        due_ms=due_ms,
        due_floor_ms=due_ms or 0,
    )


def acked(due_ms: int | None = None, event_id: str = "id") -> Acked:
    return Acked(serial="a", event_id=event_id, due_ms=due_ms)


def fate(*entries: Entry) -> Fate:
    return fold(entries, NOW).expectations["a"].fate


def test_without_an_answer_it_may_be_there_or_not() -> None:
    assert fate(sent()) is Fate.AT_MOST_ONCE
    assert fate(sent(due_ms=5000)) is Fate.AT_MOST_ONCE


def test_acknowledged_is_there_once() -> None:
    assert fate(sent(), acked()) is Fate.ONCE
    assert fate(sent(5000), acked(5000)) is Fate.ONCE


def test_acknowledged_and_due_later_is_waiting() -> None:
    assert fate(sent(20_000), acked(20_000)) is Fate.WAITING


def test_a_cancel_counts_as_it_was_answered() -> None:
    begun = (sent(5000), acked(5000), Change(serial="a"))
    assert fate(*begun) is Fate.AT_MOST_ONCE
    assert fate(*begun, Changed(serial="a", outcome="cancelled")) is Fate.NEVER
    assert fate(*begun, Changed(serial="a", outcome="too_late")) is Fate.ONCE


def test_an_acknowledged_event_that_a_cancel_does_not_find_is_lost() -> None:
    begun = (sent(5000), acked(5000), Change(serial="a"))
    told = fold([*begun, Changed(serial="a", outcome="not_found")], NOW)
    assert [problem.kind for problem in told.problems] == ["lost"]


def test_a_move_replaces_the_due_time() -> None:
    told = fold(
        [
            sent(5000),
            acked(5000),
            Change(serial="a", due_ms=7000),
            Changed(serial="a", outcome="moved", due_ms=7000),
        ],
        NOW,
    )
    one = told.expectations["a"]
    assert one.due_ms == {7000}
    assert one.due_floor_ms == 7000
    assert one.fate is Fate.ONCE


def test_an_unanswered_move_leaves_both_times_possible() -> None:
    told = fold([sent(5000), acked(5000), Change(serial="a", due_ms=3000)], NOW)
    one = told.expectations["a"]
    assert one.due_ms == {3000, 5000}
    assert one.due_floor_ms == 3000
    assert one.fate is Fate.ONCE


def test_a_move_from_past_to_future_that_was_not_answered_is_open() -> None:
    moved = Change(serial="a", due_ms=20_000)
    assert fate(sent(5000), acked(5000), moved) is Fate.AT_MOST_ONCE


def test_deliver_now_may_come_at_any_time() -> None:
    told = fold([sent(20_000), acked(20_000), Change(serial="a", due_ms=0)], NOW)
    one = told.expectations["a"]
    assert one.due_ms == frozenset()
    assert one.due_floor_ms == 0


def test_a_key_that_gets_another_id_is_reported() -> None:
    told = fold([sent(), acked(), acked(event_id="other")], NOW)
    assert [problem.kind for problem in told.problems] == ["wrong_replay"]
    assert fold([sent(), acked(), acked()], NOW).problems == []


def test_the_file_gives_back_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    entries: list[Entry] = [
        sent(5000),
        acked(5000),
        Change(serial="a"),
        Changed(serial="a", outcome="cancelled"),
    ]
    journal.write(*entries[:2])
    journal.write(*entries[2:])
    journal.close()
    assert read_journal(tmp_path / "journal.jsonl") == entries

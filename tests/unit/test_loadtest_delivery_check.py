"""The checker is fed forged histories: each broken promise has to be reported."""

from dataclasses import replace

from halfpast_loadtest.delivery_check import (
    Expectation,
    Fate,
    Problem,
    check_consumption,
    check_log,
    check_queues,
    check_same_prefix,
    check_states,
    due_set,
    serial_of,
)
from halfpast_loadtest.message import Message

CHECKED_MS = 5_000


def told(serial: str, *, fate: Fate = Fate.ONCE, due_ms: int = 0) -> Expectation:
    return Expectation(
        serial=serial,
        topic="orders",
        fate=fate,
        data=b'{"serial":"%s"}' % serial.encode(),
        event_id=f"id-{serial}",
        due_ms=due_set(due_ms or None),
        due_floor_ms=due_ms,
    )


def logged(serial: str, offset: int = 0, *, due_ms: int | None = None) -> Message:
    return Message(
        id=f"id-{serial}",
        topic="orders",
        queue=0,
        offset=offset,
        key=None,
        stored_ms=5000,
        due_ms=due_ms,
        attempt=1,
        data=b'{"serial":"%s"}' % serial.encode(),
        receipt="",
    )


def kinds(problems: list[Problem]) -> set[str]:
    return {problem.kind for problem in problems}


def test_a_kept_history_has_no_problem() -> None:
    history = [
        told("a"),
        told("b", due_ms=4000),
        told("c", fate=Fate.NEVER),
        told("d", fate=Fate.AT_MOST_ONCE),
        told("e", fate=Fate.WAITING, due_ms=9000),
    ]
    log = [logged("a"), logged("b", 1, due_ms=4000)]
    assert check_log(history, log) == []
    assert check_queues(log) == []
    assert check_same_prefix(log[:1], log) == []
    assert check_consumption(log, log + log, []) == []


def test_an_acknowledged_event_that_is_gone_is_lost() -> None:
    assert kinds(check_log([told("a")], [])) == {"lost"}


def test_one_event_at_two_offsets_is_a_duplicate() -> None:
    assert kinds(check_log([told("a")], [logged("a"), logged("a", 1)])) == {"duplicate"}


def test_an_unanswered_event_may_be_there_once_but_not_twice() -> None:
    unknown = replace(told("a", fate=Fate.AT_MOST_ONCE), event_id="")
    assert check_log([unknown], []) == []
    assert check_log([unknown], [logged("a")]) == []
    twice = [logged("a"), logged("a", 1)]
    assert kinds(check_log([unknown], twice)) == {"duplicate"}


def test_stored_before_its_due_time_is_early() -> None:
    early = logged("a", due_ms=5001)
    assert kinds(check_log([told("a", due_ms=5001)], [early])) == {"early"}


def test_a_server_that_forges_deliver_at_is_early_all_the_same() -> None:
    forged = logged("a", due_ms=4000)
    problems = check_log([told("a", due_ms=5001)], [forged])
    assert kinds(problems) == {"early", "wrong_due_time"}


def test_what_is_due_only_later_may_not_be_there() -> None:
    waiting = replace(told("a", fate=Fate.WAITING), due_ms=frozenset[int]())
    assert kinds(check_log([waiting], [logged("a")])) == {"early"}


def test_a_cancelled_event_may_never_come() -> None:
    cancelled = told("a", fate=Fate.NEVER)
    assert kinds(check_log([cancelled], [logged("a")])) == {"cancelled_but_delivered"}


def test_a_message_that_nobody_sent_is_reported() -> None:
    assert kinds(check_log([], [logged("a")])) == {"unknown_message"}


def test_another_id_topic_or_payload_is_reported() -> None:
    message = logged("a")
    changed = message._replace(
        id="other", topic="payments", data=b'{"serial":"a","x":1}'
    )
    problems = check_log([told("a")], [changed])
    assert kinds(problems) == {"wrong_id", "wrong_topic", "wrong_payload"}


def test_two_due_times_are_right_after_an_unanswered_move() -> None:
    either = replace(told("a", due_ms=4000), due_ms=frozenset({4000, 4500}))
    assert check_log([either], [logged("a", due_ms=4500)]) == []
    assert kinds(check_log([either], [logged("a", due_ms=4600)])) == {"wrong_due_time"}


def test_a_key_that_overtakes_itself_is_out_of_order() -> None:
    first = replace(told("a"), lane="k", sequence=1)
    second = replace(told("b"), lane="k", sequence=2)
    assert check_log([first, second], [logged("a", 0), logged("b", 1)]) == []
    wrong = check_log([first, second], [logged("b", 0), logged("a", 1)])
    assert kinds(wrong) == {"out_of_order"}


def test_a_key_in_two_queues_is_reported() -> None:
    first = replace(told("a"), lane="k", sequence=1)
    second = replace(told("b"), lane="k", sequence=2)
    log = [logged("a", 0), logged("b", 0)._replace(queue=1)]
    assert kinds(check_log([first, second], log)) == {"split_key"}


def test_half_an_atomic_batch_is_torn() -> None:
    unknown = [
        replace(told(serial, fate=Fate.AT_MOST_ONCE), event_id="", atomic_group="g")
        for serial in "ab"
    ]
    assert check_log(unknown, []) == []
    assert check_log(unknown, [logged("a", 0), logged("b", 1)]) == []
    assert kinds(check_log(unknown, [logged("a")])) == {"torn_batch"}


def test_a_cancelled_event_does_not_tear_its_batch() -> None:
    kept = replace(told("a"), atomic_group="g")
    cancelled = replace(told("b", fate=Fate.NEVER), atomic_group="g")
    assert check_log([kept, cancelled], [logged("a")]) == []


def test_a_gap_in_the_offsets_is_reported() -> None:
    assert kinds(check_queues([logged("a", 0), logged("b", 2)])) == {"queue_gap"}


def test_store_times_may_not_go_back_in_a_queue() -> None:
    log = [logged("a", 0), logged("b", 1)._replace(stored_ms=4999)]
    assert kinds(check_queues(log)) == {"out_of_order"}


def test_a_rewritten_log_is_reported() -> None:
    before = [logged("a", 0), logged("b", 1)]
    assert kinds(check_same_prefix(before, before[:1])) == {"rewritten_log"}
    other = [logged("a", 0), logged("c", 1)]
    assert kinds(check_same_prefix(before, other)) == {"rewritten_log"}


def test_states_have_to_agree_with_the_log() -> None:
    history = [
        told("a"),
        told("b", fate=Fate.NEVER),
        told("c", fate=Fate.WAITING),
        told("d", fate=Fate.AT_MOST_ONCE),
    ]
    honest = {"id-a": "delivered", "id-b": "cancelled", "id-c": "scheduled"}
    honest["id-d"] = "cancelled"
    log = [logged("a")]
    assert check_states(history, honest, log, CHECKED_MS) == []
    for event_id, lie in (
        ("id-a", "scheduled"),
        ("id-b", "delivered"),
        ("id-c", "unknown_event"),
        ("id-d", "scheduled"),
    ):
        problems = check_states(history, {**honest, event_id: lie}, log, CHECKED_MS)
        assert kinds(problems) == {"wrong_state"}, (event_id, lie)


def test_what_was_perhaps_cancelled_may_wait_for_a_later_time() -> None:
    later = told("a", fate=Fate.AT_MOST_ONCE, due_ms=CHECKED_MS + 1)
    assert check_states([later], {"id-a": "scheduled"}, [], CHECKED_MS) == []
    problems = check_states([later], {"id-a": "scheduled"}, [], CHECKED_MS + 1)
    assert kinds(problems) == {"wrong_state"}


def test_a_message_that_no_consumer_got_is_reported() -> None:
    log = [logged("a", 0), logged("b", 1)]
    assert kinds(check_consumption(log, log[:1], [])) == {"not_consumed"}


def test_a_message_that_comes_again_after_its_ack_is_reported() -> None:
    log = [logged("a")]
    assert kinds(check_consumption(log, log, log)) == {"acked_again"}


def test_the_serial_is_found_in_compact_and_in_spaced_json() -> None:
    assert serial_of(b'{"serial":"p-1","x":2}') == "p-1"
    assert serial_of(b'{\n "serial": "p-1"}') == "p-1"
    assert "without a serial" in serial_of(b"{}")

"""Decisions about transactions, one by one, on the state as the log has it."""

import pytest
from tests.unit.core_store_world import START_MS
from tests.unit.txn_line import (
    COMMITTED,
    GROUP,
    ROLLED_BACK,
    Line,
    busy_with,
    checking_of,
    delayed_record,
    ending_of,
    half_record,
    transaction_id,
)

from halfpast_core_store.broker import Lane
from halfpast_core_store.record import RecordFlag, RecordKind, decode_record
from halfpast_core_store.topics import SYS_TRANS_OP
from halfpast_txn.decisions import decide_add, decide_resume
from halfpast_txn.errors import (
    MessagesOutOfOrder,
    TooManyMessages,
    TransactionConflict,
    TransactionParked,
    UnknownTransaction,
)
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.transactions import (
    Added,
    AddMessages,
    End,
    EndResult,
    Happening,
    Resume,
    Source,
    TransactionState,
)

SOON = CheckPolicy(check_after_ms=10, check_interval_ms=100, check_max=1)


def parked_line() -> Line:
    """Transaction 1 has been checked back once, in vain."""
    line = Line()
    line.begin(1, policy=SOON)
    line.clock.advance(10)
    line.check_all()
    line.clock.advance(100)
    line.check_all()
    assert line.status(1).state == TransactionState.PARKED
    return line


def code_of(decision: object) -> str:
    assert isinstance(decision, EndResult)
    return decision.code


# --- outcomes -------------------------------------------------------------------


def test_a_commit_brings_all_messages_and_the_outcome_in_one_request() -> None:
    line = Line()
    halves = [half_record(1, 0), delayed_record(1, 1, 500), half_record(1, 2)]
    line.begin(1, halves)
    assert line.sent == []
    ending = ending_of(line.core.decide(End(transaction_id(1), COMMITTED)))
    request = line.core.end_request([ending])
    assert request.lane == Lane.END_TRANSACTION
    line.append(request)
    assert [sent.due_ms for sent in line.sent] == [0, 0, START_MS + 500]
    assert [sent.event_id[-1] for sent in line.sent] == [1, 3, 2]
    assert line.follow() == [transaction_id(1)]
    assert line.status(1).state == COMMITTED
    for letter in (b"S", b"X", b"T", b"P"):
        assert line.family(letter) == []


def test_a_rollback_brings_the_outcome_alone() -> None:
    line = Line()
    line.begin(1)
    result = line.end(1, ROLLED_BACK)
    assert (result.code, result.state, result.checks) == ("", ROLLED_BACK, 0)
    assert result.decided_ms == START_MS
    assert line.sent == []
    assert line.family(b"X") == []


def test_a_delay_is_never_short_of_a_part_of_a_millisecond() -> None:
    line = Line()
    line.begin(1, [delayed_record(1, 0, 500)])
    line.clock.wall_ns += 1
    assert line.end(1).decided_ms == START_MS + 1
    assert line.sent[0].due_ms == START_MS + 501


@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
def test_the_same_outcome_again_is_the_same_answer(state: TransactionState) -> None:
    line = Line()
    line.begin(1)
    first = line.end(1, state)
    sent = len(line.sent)
    line.clock.advance(5_000)
    assert line.end(1, state) == first
    assert line.end(1, state, source=Source.CHECK, check=1) == first
    assert line.end(1, state, source=Source.OPERATOR, reason="x") == first
    assert len(line.sent) == sent


@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
def test_the_other_outcome_is_told_the_durable_one(state: TransactionState) -> None:
    line = Line()
    line.begin(1)
    first = line.end(1, state)
    other = ROLLED_BACK if state == COMMITTED else COMMITTED
    for source in Source.PRODUCER, Source.CHECK, Source.OPERATOR:
        told = line.end(1, other, source=source)
        assert told.code == "transaction_conflict"
        assert (told.state, told.decided_ms) == (state, first.decided_ms)
        assert state.name.lower().replace("_", " ") in told.detail


@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
def test_a_durable_outcome_counts_before_it_has_come_back(
    state: TransactionState,
) -> None:
    line = Line()
    line.begin(1)
    ending = ending_of(line.core.decide(End(transaction_id(1), state)))
    line.store(ending)
    assert not line.core.claims
    other = ROLLED_BACK if state == COMMITTED else COMMITTED
    assert line.core.decide(End(transaction_id(1), state)) == ending.result
    assert (
        code_of(line.core.decide(End(transaction_id(1), other)))
        == "transaction_conflict"
    )
    # Whose it is matters also then.
    foreign = End(transaction_id(1), state, "others")
    assert code_of(line.core.decide(foreign)) == "wrong_producer_group"
    with pytest.raises(TransactionConflict):
        decide_add(line.core, AddMessages(transaction_id(1), 1, [half_record(1, 1)]))
    with pytest.raises(TransactionConflict):
        decide_resume(line.core, Resume(transaction_id(1)))
    line.follow()
    assert line.core.decided == {}
    assert line.core.decide(End(transaction_id(1), state)) == ending.result


def test_while_somebody_decides_others_wait() -> None:
    line = Line()
    line.begin(1)
    ending = ending_of(line.core.decide(End(transaction_id(1), COMMITTED)))
    again = line.core.decide(End(transaction_id(1), ROLLED_BACK))
    assert busy_with(again) == transaction_id(1)
    add = AddMessages(transaction_id(1), 1, [half_record(1, 1)])
    assert busy_with(decide_add(line.core, add)) == transaction_id(1)
    resume = decide_resume(line.core, Resume(transaction_id(1)))
    assert busy_with(resume) == transaction_id(1)
    line.core.give_up(ending.transaction_id)
    assert line.end(1, ROLLED_BACK).state == ROLLED_BACK


def test_an_id_that_nobody_knows() -> None:
    line = Line()
    assert line.end(1).code == "unknown_transaction"
    with pytest.raises(UnknownTransaction):
        decide_add(line.core, AddMessages(transaction_id(1), 0, [half_record(1)]))
    with pytest.raises(UnknownTransaction):
        decide_resume(line.core, Resume(transaction_id(1)))


def test_another_group_decides_nothing() -> None:
    line = Line()
    line.begin(1)
    assert line.end(1, group="others").code == "wrong_producer_group"
    assert line.status(1).state == TransactionState.PREPARED
    assert line.end(1, group=GROUP).state == COMMITTED
    assert line.end(1, group="others").code == "wrong_producer_group"


@pytest.mark.parametrize("state", [0, 1, 4])
def test_nothing_but_an_outcome_ends_a_transaction(state: int) -> None:
    line = Line()
    line.begin(1)
    with pytest.raises(AssertionError):
        line.core.decide(End(transaction_id(1), state, source=Source.CHECK))
    assert not line.core.claims


def test_only_an_operator_ends_a_parked_one() -> None:
    line = parked_line()
    for source in Source.PRODUCER, Source.CHECK:
        told = line.end(1, COMMITTED, source=source)
        assert told.code == "transaction_parked"
        assert told.state == TransactionState.PARKED
    forced = line.end(1, COMMITTED, source=Source.OPERATOR, reason="why", by="me")
    assert (forced.code, forced.state) == ("", COMMITTED)
    view = line.status(1).public(transaction_id(1))
    assert (view.source, view.reason, view.by) == (Source.OPERATOR, "why", "me")
    assert [what for _, what in view.timeline] == [
        Happening.BEGUN,
        Happening.CHECKED,
        Happening.PARKED,
        Happening.COMMITTED,
    ]
    assert line.core.parked_count == line.core.open_count == 0
    assert line.family(b"P") == []


def test_an_operator_also_ends_a_prepared_one() -> None:
    line = Line()
    line.begin(1)
    assert line.end(1, ROLLED_BACK, source=Source.OPERATOR, reason="x").code == ""


# --- what the outcome's record tells the audits --------------------------------------


def op_of(line: Line) -> tuple[int, int]:
    """Flags and number in the outcome's record."""
    (record,) = [
        record
        for frame in line.frames
        for data in frame.records
        if (record := decode_record(data)).kind == RecordKind.OP
    ]
    return record.flags, record.attempt


def checked_line(checks: int) -> Line:
    line = Line()
    line.begin(1, policy=CheckPolicy(10, 100, 9))
    line.clock.advance(10)
    for number in range(1, checks + 1):
        assert line.check_all() == [(1, number)]
        line.clock.advance(100 << number)
    return line


@pytest.mark.parametrize(
    ("answered", "recorded"), [(3, 3), (2, 2), (1, 1), (0, 3), (9, 3)]
)
def test_an_outcome_by_a_check_back_tells_which_one(
    answered: int, recorded: int
) -> None:
    line = checked_line(3)
    result = line.end(1, COMMITTED, source=Source.CHECK, check=answered)
    assert (result.source, result.checks) == (Source.CHECK, recorded)
    assert op_of(line) == (RecordFlag.FROM_CHECK, recorded)
    view = line.status(1).public(transaction_id(1))
    assert (view.check, view.checks) == (recorded, 3)


def test_an_outcome_by_the_producer_tells_how_many_were_sent() -> None:
    line = checked_line(2)
    result = line.end(1, ROLLED_BACK)
    assert (result.source, result.checks) == (Source.PRODUCER, 2)
    assert op_of(line) == (0, 2)
    view = line.status(1).public(transaction_id(1))
    assert (view.check, view.checks) == (0, 2)


def test_who_answers_without_having_been_asked_is_the_producer() -> None:
    line = Line()
    line.begin(1)
    result = line.end(1, COMMITTED, source=Source.CHECK, check=5)
    assert (result.source, result.checks) == (Source.PRODUCER, 0)
    assert op_of(line) == (0, 0)


# --- adding messages --------------------------------------------------------------


def added(line: Line, first: int, count: int = 1) -> object:
    records = [half_record(1, first + n) for n in range(count)]
    return decide_add(line.core, AddMessages(transaction_id(1), first, records))


def test_messages_are_added_behind_those_that_are_there() -> None:
    line = Line()
    line.begin(1)
    command = line.see_through(added(line, 1, 2))
    assert command.request.lane == Lane.SEND
    assert line.status(1).message_count == 3
    assert line.status(1).timeline[-1][1] == Happening.ADDED
    line.end(1)
    assert [sent.event_id[-1] for sent in line.sent] == [1, 2, 3]
    assert line.family(b"X") == []


def test_a_repeated_call_adds_nothing_twice() -> None:
    line = Line()
    line.begin(1)
    line.see_through(added(line, 1, 2))
    for first, count in ((1, 2), (1, 1), (2, 1), (0, 3)):
        assert added(line, first, count) == Added(3)
    assert not line.core.claims
    line.end(1)
    assert len(line.sent) == 3


@pytest.mark.parametrize(("first", "count"), [(3, 1), (2, 1), (0, 2), (9, 1)])
def test_behind_a_gap_nothing_is_added(first: int, count: int) -> None:
    line = Line()
    line.begin(1)
    with pytest.raises(MessagesOutOfOrder) as caught:
        added(line, first, count)
    assert caught.value.count == 1
    assert not line.core.claims


def test_a_transaction_has_a_bound() -> None:
    line = Line(message_count_max=3)
    line.begin(1)
    with pytest.raises(TooManyMessages):
        added(line, 1, 3)
    line.see_through(added(line, 1, 2))
    small = Line(message_size_max=200)
    small.begin(1)
    with pytest.raises(TooManyMessages):
        added(small, 1, 2)
    small.see_through(added(small, 1, 1))
    with pytest.raises(TooManyMessages):
        added(small, 2, 1)
    assert not line.core.claims | small.core.claims


def test_messages_must_be_the_next_ones_of_their_transaction() -> None:
    # Else they would never be complete, and the transaction claimed for ever.
    line = Line()
    line.begin(1)
    for records in ([half_record(2, 1)], [half_record(1, 2)]):
        with pytest.raises(AssertionError):
            decide_add(line.core, AddMessages(transaction_id(1), 1, records))
    assert not line.core.claims


def test_nothing_is_added_to_what_is_parked_or_has_ended() -> None:
    line = parked_line()
    with pytest.raises(TransactionParked):
        added(line, 1)
    line = Line()
    line.begin(1)
    line.end(1)
    with pytest.raises(TransactionConflict) as caught:
        added(line, 1)
    assert caught.value.state == "committed"


# --- resuming ----------------------------------------------------------------------


def test_a_resumed_one_is_checked_at_once_and_as_often_as_at_first() -> None:
    line = parked_line()
    resume = Resume(transaction_id(1), "back again", "me")
    command = line.see_through(decide_resume(line.core, resume))
    (run,) = command.request.runs
    assert run.topic_id == SYS_TRANS_OP
    status = line.status(1)
    assert (status.state, status.next_ms) == (TransactionState.PREPARED, line.now_ms)
    assert (status.reason, status.by) == ("back again", "me")
    assert line.core.parked_count == 0
    assert line.check_all() == [(1, 2)]
    line.clock.advance(100)
    assert line.check_all() == []
    assert line.status(1).state == TransactionState.PARKED


def test_what_is_checked_already_is_left_as_it_is() -> None:
    line = Line()
    line.begin(1)
    assert decide_resume(line.core, Resume(transaction_id(1))) == line.status(1)
    assert not line.core.claims


def test_what_has_ended_is_not_resumed() -> None:
    line = Line()
    line.begin(1)
    line.end(1)
    with pytest.raises(TransactionConflict):
        decide_resume(line.core, Resume(transaction_id(1)))


def test_a_late_answer_to_a_resumed_one_counts() -> None:
    line = parked_line()
    line.see_through(decide_resume(line.core, Resume(transaction_id(1))))
    result = line.end(1, COMMITTED, source=Source.CHECK, check=1)
    assert (result.code, result.checks) == ("", 1)


def test_a_claim_that_parks_is_waited_for() -> None:
    line = Line()
    line.begin(1, policy=SOON)
    line.clock.advance(10)
    line.check_all()
    line.clock.advance(100)
    parking = checking_of(line.check())
    assert parking.parked == [transaction_id(1)]
    end = End(transaction_id(1), COMMITTED)
    assert busy_with(line.core.decide(end)) == transaction_id(1)
    line.append(parking.request)
    assert line.follow() == [transaction_id(1)]
    assert code_of(line.core.decide(end)) == "transaction_parked"

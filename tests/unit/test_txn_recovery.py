"""Applying is a projection: from any prefix of the batches, the same contents."""

import pytest
from tests.unit.txn_line import (
    COMMITTED,
    ROLLED_BACK,
    Line,
    begin_records,
    checking_of,
    ending_of,
    half_record,
    transaction_id,
)

from halfpast_core_store.broker import FollowedFrame
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_txn import keys
from halfpast_txn.core import TransactionCore
from halfpast_txn.decisions import Command, decide_add, decide_resume
from halfpast_txn.half import EndInfo, check_record, op_record, resumed_record
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.transactions import (
    AddMessages,
    End,
    Resume,
    Source,
    TransactionState,
)

POLICY = CheckPolicy(check_after_ms=10, check_interval_ms=100, check_max=1)


def add_of(line: Line, number: int, first: int, count: int) -> Command:
    records = [half_record(number, first + n) for n in range(count)]
    request = AddMessages(transaction_id(number), first, records)
    command = decide_add(line.core, request)
    assert isinstance(command, Command)
    return command


def busy_line(**config: int) -> Line:
    """A log with a bit of everything in it, several records a frame."""
    line = Line(**config)
    for number in range(8):
        halves = [half_record(number, n) for n in range(1 + number % 3)]
        line.begin(number, halves, POLICY)
    line.see_through(add_of(line, 0, 1, 3))
    line.clock.advance(10)
    line.check_all()
    line.end(1)
    line.end(2, ROLLED_BACK, source=Source.CHECK, check=1)
    line.clock.advance(100)
    line.check_all()  # parks the others
    for number in (3, 4):
        line.see_through(decide_resume(line.core, Resume(transaction_id(number))))
    line.end(5, source=Source.OPERATOR, reason="why", by="me")
    # One frame as busy as group commit makes it.
    checking = checking_of(line.check())
    ending = ending_of(
        line.core.decide(End(transaction_id(6), COMMITTED, source=Source.OPERATOR))
    )
    records = begin_records(20, [half_record(20, n) for n in range(3)], line.now_ms)
    for run in checking.request.runs + line.core.end_request([ending]).runs:
        if run.topic_id < 1024:
            records += run.records
    records += begin_records(21, [half_record(21)], line.now_ms)
    line.append_records(records)
    line.follow()
    line.see_through(add_of(line, 20, 3, 5))
    return line


def test_the_busy_line_has_everything() -> None:
    line = busy_line()
    states = [line.status(number).state for number in (0, 1, 2, 3, 5, 6, 20, 21)]
    assert set(states) == set(TransactionState)
    assert line.status(20).message_count == 8
    assert line.status(4).checks == 2
    assert not line.core.claims
    assert not line.core.asking
    assert line.core.open_count == len(line.family(b"S")) == 6
    assert line.core.parked_count == len(line.family(b"P")) == 2


@pytest.mark.parametrize("young_size_max", [10**6, 0])
def test_every_prefix_of_the_batches_leads_to_the_same_contents(
    young_size_max: int,
) -> None:
    line = busy_line(young_size_max=young_size_max)
    contents = line.index.contents()
    total = line.index.batches_at_risk
    assert total > (17 if young_size_max else 40)
    for kept in range(total + 1):
        line = busy_line(young_size_max=young_size_max)
        line.crash(kept)
        assert line.index.contents() == contents, kept
        assert not line.core.claims
        assert line.core.open_count == 6, kept
        assert line.core.parked_count == 2, kept


def test_every_slice_of_any_size_gives_the_same() -> None:
    whole = busy_line()
    for count in (1, 2, 3, 5):
        sliced = Line()
        sliced.clock.wall_ns = whole.clock.wall_ns
        sliced.frames = whole.frames
        while sliced.core.position < sliced.log_end:
            sliced.follow_slice(count)
        assert sliced.index.contents() == whole.index.contents()
        assert sliced.core.open_count == 6
        assert sliced.core.young.size == sum(
            young_size(sliced.core, number) for number in (0, 3, 4, 7, 20, 21)
        )


def young_size(core: TransactionCore, number: int) -> int:
    young = core.young.get(transaction_id(number))
    assert young is not None
    assert len(young.records) == young.status.message_count
    return 1_000 + sum(map(len, young.records))


def test_a_frame_that_was_applied_in_part_is_applied_again() -> None:
    # Also if the index has kept the part: nothing is counted twice.
    frames = busy_line().frames
    for cut, frame in enumerate(frames):
        for stop in range(1, len(frame.records)):
            line = Line()
            line.clock.advance(110)
            line.frames = frames[: cut + 1]
            while line.core.position < frame.position:
                line.follow_slice(100)
            expected = Line()
            expected.frames = frames[: cut + 1]
            expected.follow()
            line.follow_slice(stop)
            line.crash(line.index.batches_at_risk)
            assert line.index.contents() == expected.index.contents()
            assert line.core.open_count == expected.core.open_count
            assert line.core.parked_count == expected.core.parked_count


def test_frames_that_were_applied_are_passed_over() -> None:
    line = busy_line()
    contents = line.index.contents()
    assert line.core.apply(line.frames, line.log_end) == []
    assert line.index.contents() == contents
    assert line.core.open_count == 6


def test_a_transaction_without_all_its_messages_is_seen_by_nobody() -> None:
    # A commit between two slices would have found some of its messages missing.
    line = Line()
    halves = [half_record(1, n) for n in range(5)]
    line.append_records(begin_records(1, halves, line.now_ms, CheckPolicy(0, 100, 1)))
    for _ in range(5):
        line.follow_slice(1)
        assert line.core.status(transaction_id(1)) is None
        assert line.end(1).code == "unknown_transaction"
        assert line.check() is None
    line.follow_slice(1)
    assert line.status(1).message_count == 5
    assert line.end(1).code == ""
    assert len(line.sent) == 5


def test_what_is_added_is_claimed_until_all_of_it_is_there() -> None:
    line = Line(young_size_max=0)
    line.begin(1)
    line.append(add_of(line, 1, 1, 4).request)
    for _ in range(4):
        assert line.follow_slice(1) == []
        assert line.core.claims == {transaction_id(1)}
        assert line.status(1).message_count == 1
    assert line.follow_slice(1) == [transaction_id(1)]
    assert line.status(1).message_count == 5
    line.end(1)
    assert len(line.sent) == 5


def test_an_outcome_in_the_log_counts_though_the_index_lost_it() -> None:
    line = Line()
    line.begin(1)
    line.index.flush()
    line.end(1)
    line.crash(0)
    assert line.status(1).state == COMMITTED
    assert line.end(1, ROLLED_BACK).code == "transaction_conflict"
    assert len(line.sent) == 1


def test_the_number_of_a_check_back_survives() -> None:
    line = Line()
    line.begin(1, policy=CheckPolicy(10, 10, 9))
    line.index.flush()
    line.clock.advance(10)
    assert line.check_all() == [(1, 1)]
    line.clock.advance(10)
    sent = checking_of(line.check())
    line.append(sent.request)  # and the process dies before it has asked anybody
    line.crash(0)
    assert line.status(1).checks == 2
    line.clock.advance(20)
    assert line.check_all() == [(1, 3)]


def test_the_position_is_kept_where_the_log_had_nothing_for_us() -> None:
    line = Line()
    line.begin(1)
    line.core.apply([], 10_000)
    assert line.core.save_position() == 10_000
    line.index.flush()
    again = TransactionCore(line.index, line.clock, line.config)
    assert again.position == 10_000


def test_saving_the_position_amid_a_frame_does_not_skip_it() -> None:
    line = Line()
    records = [
        record
        for number in range(4)
        for record in begin_records(number, [half_record(number)], line.now_ms)
    ]
    line.append_records(records)
    line.follow_slice(5)
    assert line.core.save_position() == 0
    line.crash(line.index.batches_at_risk)
    assert line.core.open_count == 4
    assert [line.end(number).code for number in range(4)] == [""] * 4


@pytest.mark.parametrize(
    "late",
    [
        op_record(transaction_id(1), "orders", ROLLED_BACK, Source.PRODUCER, 1, 0),
        check_record(transaction_id(1), "orders", 9, 1, 2, ""),
        encode_record(RecordKind.PARKED, event_id=transaction_id(1), body=b"\x91\xa0"),
        resumed_record(transaction_id(1), "orders", 0, 1, EndInfo()),
        encode_record(RecordKind.ADDED, event_id=transaction_id(1), body=b"\x91\1"),
        half_record(1, 5),
        encode_record(99, event_id=transaction_id(1)),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_records_about_what_is_no_more_change_nothing(late: bytes, known: bool) -> None:
    line = Line()
    if known:
        line.begin(1)
        line.end(1)
    line.append_records([])
    line.follow()
    before = line.index.contents()
    line.append_records([late])
    line.follow()
    after = line.index.contents()
    assert after.pop(keys.APPLIED) != before.pop(keys.APPLIED)
    assert after == before
    assert len(line.core.horizon) == 0


def test_a_new_core_continues_where_the_index_stands() -> None:
    line = busy_line()
    frames: list[FollowedFrame] = line.frames
    again = Line()
    for frame in frames:
        again.core.apply([frame], frame.end)
        again.core = TransactionCore(again.index, again.clock, again.config)
    assert again.index.contents() == line.index.contents()


def test_ended_ones_are_forgotten_by_and_by() -> None:
    line = Line(history_ms=1_000)
    for number in range(30):
        line.begin(number)
        line.end(number, COMMITTED if number % 2 else ROLLED_BACK)
        line.clock.advance(10)
    line.begin(50)
    assert not line.core.forget(7)
    line.clock.advance(1_000 - 150 - 9)
    assert line.core.forget(7)
    while line.core.forget(7):
        pass
    left = len(line.family(b"O"))
    assert left == len(line.family(b"F")) == 15
    line.clock.advance(10_000)
    while line.core.forget(7):
        pass
    assert line.family(b"O") == line.family(b"F") == []
    assert line.end(1).code == "unknown_transaction"
    assert line.status(50).state == TransactionState.PREPARED


def test_the_cost_of_a_record_is_what_it_touches() -> None:
    for young_size_max in (10**6, 0):
        line = Line(young_size_max=young_size_max)
        line.begin(1, [half_record(1, n) for n in range(40)])
        op = op_record(transaction_id(1), "orders", 2, Source.PRODUCER, 1, 0)
        assert line.core.entry_count(op) == 43
        assert line.core.entry_count(half_record(1)) == 1
        assert line.core.entry_count(encode_record(RecordKind.CHECK)) == 3
        unknown = op_record(transaction_id(2), "orders", 2, Source.PRODUCER, 1, 0)
        assert line.core.entry_count(unknown) == 3

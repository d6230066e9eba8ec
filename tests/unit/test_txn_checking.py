"""Which check-backs are due, and what becomes of those that were not stored."""

import pytest
from tests.unit.core_store_world import START_MS
from tests.unit.txn_line import (
    COMMITTED,
    ROLLED_BACK,
    Line,
    checking_of,
    ending_of,
    half_record,
    number_of,
    transaction_id,
)

from halfpast_core_store.broker import Lane
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_core_store.topics import SYS_TRANS_OP, TRANS_CHECK_MAX_TIME
from halfpast_txn import core as core_module
from halfpast_txn.core import Checking
from halfpast_txn.decisions import decide_add, decide_resume
from halfpast_txn.policy import CHECK_INTERVAL_MS_MAX, CheckPolicy, interval_ms
from halfpast_txn.transactions import (
    AddMessages,
    End,
    Happening,
    Resume,
    TransactionState,
)

POLICY = CheckPolicy(check_after_ms=50, check_interval_ms=100, check_max=3)


def begun(policy: CheckPolicy = POLICY, **config: int) -> Line:
    line = Line(**config)
    line.begin(1, policy=policy)
    return line


def numbers(checking: Checking) -> list[int]:
    return [number_of(one) for one, _ in checking.checks]


# --- when -----------------------------------------------------------------------


def test_the_first_check_back_comes_when_the_policy_says() -> None:
    line = begun()
    line.clock.advance(49)
    assert line.check() is None
    assert line.core.horizon.next_ms() == START_MS + 50
    line.clock.advance(1)
    assert line.check_all() == [(1, 1)]
    assert line.status(1).checks == 1
    assert line.status(1).timeline == [(START_MS + 50, Happening.CHECKED)]


def test_the_interval_doubles_and_then_it_is_parked() -> None:
    line = begun()
    line.clock.advance(50)
    line.check_all()
    for check, gap_ms in ((2, 100), (3, 200)):
        line.clock.advance(gap_ms - 1)
        assert line.check() is None
        line.clock.advance(1)
        assert line.check_all() == [(1, check)]
    line.clock.advance(399)
    assert line.check() is None
    assert line.status(1).state == TransactionState.PREPARED
    line.clock.advance(1)
    assert line.check_all() == []
    status = line.status(1)
    assert (status.state, status.checks, status.next_ms) == (
        TransactionState.PARKED,
        3,
        0,
    )
    assert line.family(b"T") == []
    assert line.core.counters()["transactions_parked_total"] == 1
    line.clock.advance(10**9)
    assert line.check() is None


def test_intervals_have_a_ceiling() -> None:
    intervals = [interval_ms(30_000, check) for check in range(1, 16)]
    assert intervals[:6] == [30_000, 60_000, 120_000, 240_000, 480_000, 600_000]
    assert set(intervals[5:]) == {CHECK_INTERVAL_MS_MAX}
    assert interval_ms(86_400_000, 9) == 86_400_000
    assert interval_ms(100, 1_000) == CHECK_INTERVAL_MS_MAX


def test_a_late_check_back_counts_from_now() -> None:
    line = begun()
    line.clock.advance(10_000)
    line.check_all()
    assert line.status(1).next_ms == START_MS + 10_100


def test_checks_are_of_the_transactions_own_policy() -> None:
    line = Line()
    line.begin(1, policy=CheckPolicy(0, 100, 1))
    line.begin(2, policy=CheckPolicy(70, 100, 1))
    assert line.check_all() == [(1, 1)]
    line.clock.advance(70)
    assert line.check_all() == [(2, 1)]
    line.clock.advance(30)
    line.check_all()
    assert line.status(1).state == TransactionState.PARKED
    assert line.status(2).state == TransactionState.PREPARED


def test_a_resumed_one_goes_through_all_of_it_again() -> None:
    line = begun()
    for _ in range(4):
        line.clock.advance(1_000)
        line.check_all()
    assert line.status(1).state == TransactionState.PARKED
    line.see_through(decide_resume(line.core, Resume(transaction_id(1))))
    assert line.check_all() == [(1, 4)]
    for check, gap_ms in ((5, 100), (6, 200)):
        line.clock.advance(gap_ms)
        assert line.check_all() == [(1, check)]
    line.clock.advance(400)
    line.check_all()
    assert line.status(1).state == TransactionState.PARKED
    assert line.status(1).checks == 6


# --- what is written -------------------------------------------------------------


def test_check_backs_travel_together_and_are_bounded() -> None:
    line = Line(check_count=4)
    for number in range(10):
        line.begin(number, policy=POLICY)
    line.clock.advance(50)
    first = checking_of(line.check())
    second = checking_of(line.core.check())
    third = checking_of(line.core.check())
    assert line.core.check() is None
    assert [len(c.checks) for c in (first, second, third)] == [4, 4, 2]
    assert first.request.lane == Lane.SYSTEM
    assert {run.topic_id for run in first.request.runs} == {SYS_TRANS_OP}


def test_what_the_one_before_brought_is_written_with_the_next() -> None:
    line = begun()
    line.clock.advance(50)
    line.check_all()
    assert line.status(1).last_answer == ""
    line.core.answered(transaction_id(1), "timeout")
    view = line.status(1).public(transaction_id(1))
    line.core.tell_answer(view)
    assert view.last_answer == "timeout"  # at once, and not with the next one
    line.clock.advance(100)
    line.check_all()
    assert line.status(1).last_answer == "timeout"
    assert line.core.answers == {}
    line.clock.advance(200)
    line.check_all()
    assert line.status(1).last_answer == "no answer"
    line.core.answered(transaction_id(1), "unknown")
    line.clock.advance(400)
    line.check_all()
    assert line.status(1).state == TransactionState.PARKED
    assert line.status(1).last_answer == "unknown"
    line.see_through(decide_resume(line.core, Resume(transaction_id(1))))
    line.check_all()
    assert line.status(1).last_answer == "unknown"


def test_parking_goes_to_a_topic_of_its_own_and_no_body_is_rewritten() -> None:
    line = Line()
    line.begin(1, [half_record(1, 0, body=bytes(5_000))], CheckPolicy(0, 100, 1))
    line.check_all()
    line.clock.advance(100)
    parking = checking_of(line.check())
    (run,) = parking.request.runs
    assert run.topic_id == TRANS_CHECK_MAX_TIME
    assert decode_record(run.records[0]).kind == RecordKind.PARKED
    assert sum(map(len, run.records)) < 200


# --- outcomes on their way ----------------------------------------------------------


def test_whoever_is_being_ended_is_not_asked() -> None:
    line = begun()
    ending = ending_of(line.core.decide(End(transaction_id(1), COMMITTED)))
    line.clock.advance(50)
    assert line.check() is None
    line.store(ending)
    assert line.core.check() is None
    line.follow()
    line.clock.advance(10**6)
    assert line.check() is None
    assert len(line.core.horizon) == 0


def test_a_refused_outcome_gives_the_check_back_back() -> None:
    line = begun()
    line.core.decide(End(transaction_id(1), COMMITTED))
    line.clock.advance(50)
    assert line.check() is None
    line.core.give_up(transaction_id(1))
    assert line.check_all() == [(1, 1)]


def test_an_addition_gives_the_check_back_back() -> None:
    line = begun()
    command = decide_add(
        line.core, AddMessages(transaction_id(1), 1, [half_record(1, 1)])
    )
    line.clock.advance(50)
    assert line.check() is None
    line.see_through(command)
    assert line.check_all() == [(1, 1)]


def test_an_outcome_overtakes_a_check_back() -> None:
    line = begun()
    line.clock.advance(50)
    checking = checking_of(line.check())
    assert line.end(1).code == ""
    assert line.core.still_asked(transaction_id(1), 1) is None
    line.append(checking.request)
    line.follow()
    assert line.core.asking == {}
    assert line.core.still_asked(transaction_id(1), 1) is None
    assert line.status(1).state == COMMITTED
    assert line.status(1).checks == 0
    assert line.family(b"T") == []


def test_nobody_is_asked_after_a_durable_outcome() -> None:
    line = begun()
    line.clock.advance(50)
    line.check_all()
    assert line.core.is_asked(transaction_id(1), 1)
    assert not line.core.is_asked(transaction_id(1), 2)
    ending = ending_of(line.core.decide(End(transaction_id(1), ROLLED_BACK)))
    line.store(ending)  # durable, and not applied
    assert not line.core.is_asked(transaction_id(1), 1)
    line.core.answered(transaction_id(1), "unknown")
    assert line.core.answers == {}


def test_nobody_is_asked_about_a_parked_one() -> None:
    # An answer would only be refused.
    line = begun(CheckPolicy(0, 100, 1))
    line.check_all()
    assert line.core.is_asked(transaction_id(1), 1)
    line.clock.advance(100)
    line.check_all()
    assert not line.core.is_asked(transaction_id(1), 1)


# --- appends that fail ---------------------------------------------------------------


def test_what_was_refused_is_due_again_with_the_same_number() -> None:
    line = Line()
    for number in (1, 2):
        line.begin(number, policy=POLICY)
    line.clock.advance(50)
    refused = checking_of(line.check())
    assert line.core.check() is None
    line.core.not_checked(refused)
    again = checking_of(line.core.check())
    assert again.checks == refused.checks
    assert line.core.asking.keys() == {transaction_id(1), transaction_id(2)}


def test_a_refused_parking_gives_the_claim_back() -> None:
    line = begun(CheckPolicy(0, 100, 1))
    line.check_all()
    line.clock.advance(100)
    parking = checking_of(line.check())
    line.core.not_checked(parking)
    assert not line.core.claims
    again = checking_of(line.core.check())
    assert again.parked == [transaction_id(1)]


def test_refused_check_backs_of_what_ended_meanwhile_are_forgotten() -> None:
    line = begun()
    line.clock.advance(50)
    checking = checking_of(line.check())
    line.end(1)
    line.core.not_checked(checking)
    assert line.core.check() is None
    assert len(line.core.horizon) == 0


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("parking", [True, False])
def test_after_a_lost_answer_the_log_tells(stored: bool, parking: bool) -> None:
    line = begun(CheckPolicy(0, 100, 1 if parking else 5))
    line.check_all()
    line.clock.advance(100)
    checking = checking_of(line.check())
    if stored:
        line.append(checking.request)
    line.follow()
    line.core.give_up_all()
    assert not line.core.claims
    assert not line.core.asking
    if not stored:
        assert checking_of(line.core.check()).checks == checking.checks
    elif parking:
        assert line.status(1).state == TransactionState.PARKED
    else:
        assert line.status(1).checks == 2
        line.clock.advance(200)
        assert line.check_all() == [(1, 3)]


def test_answers_are_kept_of_so_many_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "ANSWERS_MAX", 3)
    line = Line()
    for number in range(5):
        line.begin(number)
        line.core.answered(transaction_id(number), "timeout")
    line.core.answered(transaction_id(2), "unknown")
    assert [*map(number_of, line.core.answers)] == [2, 3, 4]


def test_old_transactions_are_checked_from_the_index() -> None:
    line = Line(young_size_max=3_000)
    for number in range(20):
        line.begin(number, policy=POLICY)
    assert len(line.core.young) < 4
    line.clock.advance(50)
    assert line.check_all() == [(number, 1) for number in range(20)]


def test_more_than_the_wheel_holds_are_all_asked_in_time() -> None:
    line = Line(near_count_max=10, load_count=3)
    for number in range(200):
        line.begin(number, policy=CheckPolicy(50 + number % 7, 100, 9))
    assert len(line.core.horizon) <= 2 * 10 + 1
    line.clock.advance(57)
    assert sorted(line.check_all()) == [(number, 1) for number in range(200)]

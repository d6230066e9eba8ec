"""The core against a plain dict of transactions: whatever happens, in any order.

A small wheel, tiny slices and a cache with hardly any room; a log in which requests
may wait, so that decisions overlap; answers that get lost; crashes that lose any
number of the index's last batches. One seed makes one run.
"""

from dataclasses import dataclass, field
from random import Random

import pytest
from tests.unit.txn_line import (
    COMMITTED,
    ROLLED_BACK,
    Line,
    begin_records,
    half_record,
    number_of,
    transaction_id,
)

from halfpast_core_store.record import decode_record
from halfpast_txn import keys
from halfpast_txn.core import Busy, Checking, Ending, TransactionCore
from halfpast_txn.decisions import Command, decide_add, decide_resume
from halfpast_txn.errors import TransactionError
from halfpast_txn.half import message_id
from halfpast_txn.policy import CheckPolicy, interval_ms
from halfpast_txn.transactions import (
    AddMessages,
    End,
    EndResult,
    Resume,
    Source,
    TransactionState,
)

PREPARED, PARKED = TransactionState.PREPARED, TransactionState.PARKED
CONFIGS: list[dict[str, int]] = [
    {"near_count_max": 4, "load_count": 2, "check_count": 3, "young_size_max": 3_000},
    {"near_count_max": 3, "load_count": 1, "lookahead_ms": 20, "young_size_max": 0},
    {"near_count_max": 5, "load_count": 50, "check_count": 1},
    {},
]
RUNS = 60
STEPS = 600


@dataclass(slots=True)
class Wanted:
    """What the model knows of one transaction."""

    policy: CheckPolicy
    count: int
    next_ms: int
    limit: int
    state: TransactionState = PREPARED
    checks: int = 0
    source: int = Source.NOBODY
    check: int = 0

    @property
    def is_open(self) -> bool:
        return self.state in (PREPARED, PARKED)


@dataclass(slots=True)
class Adding:
    command: Command
    count: int


@dataclass(slots=True)
class Resuming:
    command: Command
    at_ms: int


@dataclass(slots=True)
class Deciding:
    ending: Ending
    end: End


OnTheWay = Deciding | Adding | Resuming | Checking


@dataclass(slots=True)
class Model:
    """What must be true of the log, record by record."""

    transactions: dict[int, Wanted] = field(default_factory=lambda: {})

    def having(self, *states: TransactionState) -> list[int]:
        return [n for n, t in self.transactions.items() if t.state in states]


class Run:
    """Drives a `Line`; the model is moved when something becomes durable."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.line = Line(**self.random.choice(CONFIGS))
        self.model = Model()
        self.on_the_way: list[OnTheWay] = []
        self.weights = {
            self.begin: 4,
            self.end: 12,
            self.add: 3,
            self.resume: 3,
            self.time_passes: 6,
            self.load: 4,
            self.follow_a_bit: 8,
            self.follow: 2,
            self.check: 10,
            self.one_becomes_durable: 14,
            self.one_is_refused: 4,
            self.the_connection_is_lost: 1,
            self.crash: 1,
            self.flush: 1,
            self.the_index_agrees: 1,
        }

    def run(self) -> None:
        rules, weights = [*self.weights], [*self.weights.values()]
        for _ in range(STEPS):
            (rule,) = self.random.choices(rules, weights)
            rule()
            self.messages_are_those_of_commits_each_once()
        self.finish()

    @property
    def core(self) -> TransactionCore:
        return self.line.core

    # --- what users do ----------------------------------------------------------

    def begin(self) -> None:
        """Several at once, in one frame."""
        if len(self.model.having(PREPARED, PARKED)) > 12:
            return
        records: list[bytes] = []
        now_ms = self.line.now_ms
        for _ in range(self.random.randint(1, 4)):
            number = len(self.model.transactions)
            count = self.random.randint(1, 6)
            policy = CheckPolicy(
                self.random.randint(0, 30),
                self.random.randint(1, 25),
                self.random.randint(1, 3),
            )
            halves = [half_record(number, index) for index in range(count)]
            records += begin_records(number, halves, now_ms, policy)
            self.model.transactions[number] = Wanted(
                policy, count, now_ms + policy.check_after_ms, policy.check_max
            )
        self.line.append_records(records)

    def end(self) -> None:
        # Rather one that is in doubt, or that somebody decides about already.
        numbers = [number_of(claim) for claim in sorted(self.claimed())]
        numbers += self.model.having(PREPARED, PARKED)
        if not numbers or self.random.random() < 0.2:
            numbers = [*range(len(self.model.transactions) + 1)]
        number = self.random.choice(numbers)
        state = self.random.choice([COMMITTED, ROLLED_BACK])
        source = self.random.choice([Source.PRODUCER, Source.CHECK, Source.OPERATOR])
        check = self.random.randint(0, 4)
        end = End(transaction_id(number), state, source=source, check=check)
        decision = self.core.decide(end)
        if isinstance(decision, Ending):
            assert self.model.transactions[number].is_open
            self.on_the_way.append(Deciding(decision, end))
            return
        if isinstance(decision, Busy):
            assert decision.claim == transaction_id(number)
            return
        self.check_told(decision, end)

    def check_told(self, told: EndResult, end: End) -> None:
        """What is said without writing anything. The core may be behind the log."""
        wanted = self.model.transactions.get(number_of(end.transaction_id))
        is_behind = self.core.position < self.line.log_end
        if told.code == "unknown_transaction":
            assert wanted is None or is_behind
            return
        assert wanted is not None
        if told.code == "transaction_parked":
            assert end.source != Source.OPERATOR
            assert wanted.state == PARKED or is_behind
            return
        assert told.state == wanted.state
        same = end.state == wanted.state
        assert told.code == ("" if same else "transaction_conflict")
        assert (told.source, told.checks) == (wanted.source, wanted.check)

    def claimed(self) -> set[bytes]:
        """What is being ended, whatever the core says."""
        return {
            sent.end.transaction_id
            for sent in self.on_the_way
            if isinstance(sent, Deciding)
        }

    def add(self) -> None:
        if not (numbers := self.model.having(PREPARED)):
            return
        number = self.random.choice(numbers)
        count = self.random.randint(1, 5)
        self.line.follow()
        first = self.model.transactions[number].count
        halves = [half_record(number, first + index) for index in range(count)]
        request = AddMessages(transaction_id(number), first, halves)
        decision = decide_add(self.core, request)
        if isinstance(decision, Command):
            self.on_the_way.append(Adding(decision, count))
        else:
            assert isinstance(decision, Busy)

    def resume(self) -> None:
        numbers = self.model.having(PARKED) or self.model.having(*TransactionState)
        if not numbers:
            return
        number = self.random.choice(numbers)
        self.line.follow()
        try:
            decision = decide_resume(self.core, Resume(transaction_id(number)))
        except TransactionError:
            assert not self.model.transactions[number].is_open
            return
        if isinstance(decision, Command):
            assert self.model.transactions[number].state == PARKED
            self.on_the_way.append(Resuming(decision, self.line.now_ms))

    # --- what the world does ----------------------------------------------------

    def time_passes(self) -> None:
        """Now and then somebody sets the clock."""
        gap_ms = self.random.randint(0, 60)
        if self.random.random() < 0.1:
            gap_ms = self.random.choice([-200, -5, 2_000, 400_000])
        self.line.clock.advance(gap_ms)

    def load(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            self.core.horizon.load(self.line.now_ms)

    def follow_a_bit(self) -> None:
        self.line.follow_slice(self.random.randint(1, 4))

    def follow(self) -> None:
        self.line.follow()

    def check(self) -> None:
        checking = self.core.check()
        if checking is None:
            return
        for identity, check in checking.checks:
            wanted = self.model.transactions[number_of(identity)]
            assert check <= wanted.limit
            assert check <= wanted.checks + 1
        self.on_the_way.append(checking)

    def take(self) -> OnTheWay | None:
        if not self.on_the_way:
            return None
        return self.on_the_way.pop(self.random.randrange(len(self.on_the_way)))

    def one_becomes_durable(self) -> None:
        sent = self.take()
        if sent is None:
            return
        self.make_durable(sent)
        if isinstance(sent, Deciding):
            self.core.ended(sent.ending)

    def make_durable(self, sent: OnTheWay) -> None:
        if isinstance(sent, Deciding):
            self.line.append(self.core.end_request([sent.ending]))
            self.has_ended(sent)
        elif isinstance(sent, Checking):
            self.line.append(sent.request)
            self.was_checked(sent)
        else:
            self.line.append(sent.command.request)
            wanted = self.model.transactions[number_of(sent.command.claim)]
            if isinstance(sent, Adding):
                assert wanted.state == PREPARED, "added to what is not open"
                wanted.count += sent.count
            else:
                assert wanted.state == PARKED, "resumed what is not parked"
                wanted.state = PREPARED
                wanted.limit = wanted.checks + wanted.policy.check_max
                wanted.next_ms = sent.at_ms

    def has_ended(self, sent: Deciding) -> None:
        wanted = self.model.transactions[number_of(sent.end.transaction_id)]
        assert wanted.is_open, "ended what is not open"
        assert wanted.state == PREPARED or sent.end.source == Source.OPERATOR
        wanted.state = TransactionState(sent.end.state)
        wanted.source = sent.ending.result.source
        wanted.check = sent.ending.result.checks
        assert wanted.check <= wanted.checks
        if wanted.source == Source.CHECK and sent.end.check:
            assert wanted.check <= sent.end.check

    def was_checked(self, sent: Checking) -> None:
        for identity, check in sent.checks:
            wanted = self.model.transactions[number_of(identity)]
            if not wanted.is_open:
                continue  # the outcome was faster
            assert wanted.state == PREPARED, "asked about a parked one"
            assert check == wanted.checks + 1, "a check-back's number was lost"
            wanted.checks = check
            since = check - (wanted.limit - wanted.policy.check_max)
            asked_ms, wanted.next_ms = next(
                times_of(data)
                for run in sent.request.runs
                for data in run.records
                if data[16:32] == identity
            )
            gap_ms = interval_ms(wanted.policy.check_interval_ms, since)
            assert wanted.next_ms == asked_ms + gap_ms
        for identity in sent.parked:
            wanted = self.model.transactions[number_of(identity)]
            assert wanted.state == PREPARED, "parked what is not open"
            assert wanted.checks == wanted.limit, "parked before its last check-back"
            wanted.state = PARKED

    def one_is_refused(self) -> None:
        sent = self.take()
        if sent is not None:
            self.refuse(sent)

    def refuse(self, sent: OnTheWay) -> None:
        if isinstance(sent, Checking):
            self.core.not_checked(sent)
        elif isinstance(sent, Deciding):
            self.core.give_up(sent.ending.transaction_id)
        else:
            self.core.give_up(sent.command.claim)

    def the_connection_is_lost(self) -> None:
        """Some is in the log and some is not; the log tells, and the role is taken
        anew, so that nothing else of it arrives."""
        for sent in self.on_the_way:
            if self.random.random() < 0.5:
                self.make_durable(sent)
        self.on_the_way.clear()
        self.line.follow()
        self.core.give_up_all()
        assert not self.core.claims
        assert not self.core.decided

    def crash(self) -> None:
        """A new process takes the role: what was on its way is refused."""
        self.on_the_way.clear()
        self.line.crash(self.random.randint(0, self.line.index.batches_at_risk))

    def flush(self) -> None:
        self.core.save_position()
        self.line.index.flush()

    # --- what must hold ---------------------------------------------------------

    def messages_are_those_of_commits_each_once(self) -> None:
        seen = [sent.event_id for sent in self.line.sent]
        assert len(seen) == len(set(seen))
        assert set(seen) == {
            message_id(transaction_id(number), index)
            for number in self.model.having(COMMITTED)
            for index in range(self.model.transactions[number].count)
        }

    def the_index_agrees(self) -> None:
        self.line.follow()
        for number, wanted in self.model.transactions.items():
            status = self.line.status(number)
            found = (status.state, status.message_count, status.checks)
            assert found == (wanted.state, wanted.count, wanted.checks), number
            if not wanted.is_open:
                assert (status.source, status.check) == (wanted.source, wanted.check)
        model = self.model
        opened, parked = model.having(PREPARED, PARKED), model.having(PARKED)
        assert self.numbers(b"S") == opened
        assert self.numbers(b"P") == parked
        assert self.numbers(b"O") == sorted(model.having(COMMITTED, ROLLED_BACK))
        assert len(self.line.family(b"F")) == len(self.line.family(b"O"))
        messages = [number_of(key[1:]) for key in self.line.family(b"X")]
        assert messages == [
            n for n in opened for _ in range(model.transactions[n].count)
        ]
        timers = [
            (keys.timer_due_ms(k), number_of(k[9:])) for k in self.line.family(b"T")
        ]
        assert timers == sorted(
            (model.transactions[n].next_ms, n) for n in model.having(PREPARED)
        )
        assert self.core.open_count == len(opened)
        assert self.core.parked_count == len(parked)
        assert not self.core.decided

    def numbers(self, letter: bytes) -> list[int]:
        return [number_of(key[1:]) for key in self.line.family(letter)]

    def finish(self) -> None:
        """Nobody is forgotten: by and by every open one is asked, and then parked."""
        while self.on_the_way:
            self.refuse(self.on_the_way.pop())
        self.line.follow()
        assert not self.core.claims
        assert not self.core.asking
        for _ in range(20):
            self.line.clock.advance(600_000)
            self.line.load()
            while (checking := self.core.check()) is not None:
                self.make_durable(checking)
                self.line.follow()
                self.line.load()
        assert self.model.having(PREPARED) == [], "forgotten"
        self.the_index_agrees()
        assert len(self.core.horizon) == 0
        for number in self.model.having(PARKED):
            assert self.line.end(number, ROLLED_BACK, source=Source.OPERATOR).code == ""
        for letter in (b"S", b"X", b"T", b"P"):
            assert self.line.family(letter) == []
        assert (self.core.young.size, self.core.open_count) == (0, 0)
        assert self.core.answers == {}


def times_of(data: bytes) -> tuple[int, int]:
    record = decode_record(data)
    return record.born_ms, record.due_ms


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_core_agrees_with_the_model(seed: int) -> None:
    Run(seed).run()


def test_the_runs_come_everywhere() -> None:
    seen = {state: 0 for state in TransactionState}
    for seed in range(5):
        run = Run(seed)
        run.finish = lambda: None  # type: ignore[method-assign]
        run.run()
        for wanted in run.model.transactions.values():
            seen[wanted.state] += 1
    assert min(seen.values()) > 5, seen


class ForgettingRun(Run):
    """With a planted fault: refused check-backs are not given back to the wheel."""

    def one_is_refused(self) -> None:
        self.core.give_up_check = self.core.asking.pop  # type: ignore[method-assign, assignment]
        super().one_is_refused()


class ForgivingRun(Run):
    """With a planted fault: claims are given up while their outcome is on its way."""

    def load(self) -> None:
        super().load()
        self.core.claims.clear()


class HastyRun(Run):
    """With a planted fault: after a crash the checks begin at 1 again."""

    def crash(self) -> None:
        super().crash()
        for number in self.model.having(PREPARED):
            young = self.core.young.get(transaction_id(number))
            if young is not None:
                young.status.checks = 0


def found_by(kind: type[Run]) -> str:
    """What the first run that fails says."""
    for seed in range(RUNS):
        try:
            kind(seed).run()
        except AssertionError as error:
            return str(error)
    return "nothing"


def test_the_model_finds_a_forgotten_check_back() -> None:
    assert "forgotten" in found_by(ForgettingRun)


def test_the_model_finds_a_claim_that_is_given_up_too_early() -> None:
    assert "what is not open" in found_by(ForgivingRun)


def test_the_model_finds_a_lost_count_of_check_backs() -> None:
    assert "number was lost" in found_by(HastyRun)

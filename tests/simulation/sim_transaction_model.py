"""What producers asked of transactions and were answered, against the log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.simulation.sim_history import PROMISE, History, Logged
from tests.simulation.sim_model import demand
from tests.simulation.sim_settings import FORGETFUL_HISTORY_MS

from halfpast_core_store.record import RecordFlag
from halfpast_txn.errors import (
    TransactionConflict,
    TransactionParked,
    UnknownTransaction,
    WrongProducerGroup,
)
from halfpast_txn.half import transaction_of
from halfpast_txn.transactions import End, EndResult, Source, TransactionState

ENDED = (TransactionState.COMMITTED, TransactionState.ROLLED_BACK)


@dataclass(slots=True)
class Planned:
    """A message as its producer wants it: now, with a delay, or at a time."""

    topic: int
    queue: int
    sequence: int
    delay_ms: int = 0
    due_ms: int = 0

    def due_after(self, decided_ms: int) -> int:
        """When it is due if the commit is at `decided_ms`; 0 for at once."""
        if self.delay_ms:
            return decided_ms + self.delay_ms
        return max(self.due_ms, decided_ms) if self.due_ms else 0


@dataclass(slots=True)
class Told:
    """An answer to an outcome. `asked` is 0 for a check answered with `unknown`."""

    asked: int
    result: EndResult
    at_ms: int
    """No earlier than any time there was before."""
    known: bool
    """Whether the begin had been acknowledged when it was asked for."""
    is_stranger: bool = False
    """Whether a producer of another group asked."""


@dataclass(slots=True)
class Begun:
    """One try to begin a transaction."""

    transaction_id: bytes
    group: str
    check_max: int
    messages: list[Planned]
    is_honest: bool
    """Whether all that is said of it agrees with the producer's database."""
    acknowledged: bool = False
    count_acknowledged: int = 0
    spoken: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """Outcomes that somebody asked for, and who."""
    decided_after_ms: int = 0
    """A commit that is decided now is not decided before this."""
    told: list[Told] = field(default_factory=list[Told])
    ended: bool = False
    """Whether anybody was told an outcome."""
    asked: set[int] = field(default_factory=set[int])


class TransactionModel:
    """All transactions of a world. `database` is what producers' own ones say."""

    def __init__(self, *, is_forgetful: bool) -> None:
        self.begun: dict[bytes, Begun] = {}
        self.database: dict[bytes, int] = {}
        self.is_forgetful = is_forgetful
        self.check_count = 0
        self.states: dict[TransactionState, int] = {}

    # --- what happened ------------------------------------------------------------

    def speak(self, end: End, now_ms: int, set_back_ms: int) -> None:
        """Somebody asks for this outcome, for the first time or again."""
        begun = self.begun[end.transaction_id]
        if end.group and end.group != begun.group:
            return
        if not begun.spoken:
            begun.decided_after_ms = now_ms + set_back_ms
        begun.spoken.add((end.state, end.source))

    def tell(self, transaction_id: bytes, told: Told) -> None:
        """An outcome was answered."""
        begun = self.begun[transaction_id]
        begun.told.append(told)
        begun.ended |= not told.result.code and told.result.state in ENDED

    def asked(self, transaction_id: bytes, number: int) -> None:
        """A producer got a question."""
        begun = self.begun[transaction_id]
        demand(not begun.ended, PROMISE, "a question after the outcome")
        begun.asked.add(number)

    def checking(self, transaction_ids: Iterable[bytes]) -> None:
        """Whoever holds the role is about to check these back."""
        for transaction_id in transaction_ids:
            self.check_count += 1
            over = self.begun[transaction_id].ended
            demand(not over, PROMISE, f"{transaction_id.hex()} is checked, yet ended")

    # --- checks -------------------------------------------------------------------

    def check(
        self, logged: Sequence[Logged], set_back_ms: int, *, final: bool
    ) -> dict[bytes, History]:
        """Compare with all that was ever durable."""
        histories: dict[bytes, History] = {}
        for one in logged:
            transaction_id = transaction_of(one.record.event_id)
            history = histories.get(transaction_id)
            if history is None:
                demand(transaction_id in self.begun, PROMISE, "nobody began this")
                check_max = self.begun[transaction_id].check_max
                history = History(transaction_id, check_max, set_back_ms)
                histories[transaction_id] = history
            history.add(one)
        for transaction_id, begun in self.begun.items():
            history = histories.get(transaction_id)
            if history is None:
                name = transaction_id.hex()
                demand(not begun.acknowledged, PROMISE, f"{name} was begun and is lost")
                history = History(transaction_id, begun.check_max, set_back_ms)
            self._check_one(begun, history, set_back_ms, final)
        self._check_books(histories)
        return histories

    def _check_one(
        self, begun: Begun, history: History, set_back_ms: int, final: bool
    ) -> None:
        name = begun.transaction_id.hex()
        if history.begun is not None:
            history.settle(final=final)
            added = begun.count_acknowledged
            demand(history.count >= added, PROMISE, f"{name} has lost messages")
        asked = max(begun.asked, default=0)
        demand(asked <= history.checks, PROMISE, f"check {asked} of {name} is lost")
        for told in begun.told:
            self._check_told(begun, told, history)
        if history.outcome is not None:
            self._check_outcome(begun, history, set_back_ms)
            self._check_messages(begun, history)

    def _check_told(self, begun: Begun, told: Told, history: History) -> None:
        result, outcome = told.result, history.outcome
        name = begun.transaction_id.hex()
        if result.code == UnknownTransaction.code:
            forgotten = (
                self.is_forgetful
                and outcome is not None
                and outcome.record.born_ms + FORGETFUL_HISTORY_MS <= told.at_ms
            )
            demand(forgotten or not told.known, PROMISE, f"{name} was 'unknown'")
        elif told.is_stranger:
            refused = result.code == WrongProducerGroup.code
            demand(refused, PROMISE, f"a stranger was told {result} of {name}")
        elif result.code == TransactionParked.code:
            demand(history.was_parked, PROMISE, f"{name} was 'parked', yet was not")
        elif result.state in ENDED:
            demand(outcome is not None, PROMISE, f"the outcome of {name} is lost")
            assert outcome is not None
            op = outcome.record
            said = (result.state, result.decided_ms, result.source, result.checks)
            true = (history.state, op.born_ms, History.source_of(op), op.attempt)
            demand(said == true, PROMISE, f"{name} was told {said}, and is {true}")
            other = bool(told.asked) and told.asked != result.state
            conflict = result.code == TransactionConflict.code
            demand(conflict == other, PROMISE, f"{name}: {result.code} to {told.asked}")
        else:
            demand(not told.asked, PROMISE, f"{name}: {result} to {told.asked}")

    def _check_outcome(self, begun: Begun, history: History, set_back_ms: int) -> None:
        assert history.outcome is not None
        name, op = begun.transaction_id.hex(), history.outcome.record
        state = history.state
        source = History.source_of(op)
        wanted = (state, source) in begun.spoken
        demand(wanted, PROMISE, f"{name}: nobody of {source.name} said {state.name}")
        early = begun.decided_after_ms - set_back_ms - op.born_ms
        demand(early <= 0, PROMISE, f"{name} was decided before it was asked for")
        if begun.is_honest and source != Source.OPERATOR:
            truth = self.database.get(begun.transaction_id)
            demand(truth == state, PROMISE, f"{name} is {state}, the database {truth}")

    def _check_messages(self, begun: Begun, history: History) -> None:
        assert history.outcome is not None
        decided_ms = history.outcome.record.born_ms
        name = begun.transaction_id.hex()
        for logged in (*history.released, *history.fired):
            record = logged.record
            number = int.from_bytes(record.event_id[14:], "big") - 1
            planned = begun.messages[number]
            found = (record.topic_id, record.queue_id, record.body[:4])
            place = (planned.topic, planned.queue, planned.sequence.to_bytes(4, "big"))
            demand(found == place, PROMISE, f"{name} has another message {number}")
            due_ms = planned.due_after(decided_ms)
            due = f"{name}: message {number} is due at {record.due_ms}, not {due_ms}"
            demand(record.due_ms == due_ms, PROMISE, due)
            plain = not record.flags & RecordFlag.AFTER_COMMIT
            demand(plain, PROMISE, f"{name}: message {number} still waits")
        for logged in history.fired:
            early = logged.record.due_ms - logged.stored_ms
            demand(early <= 0, 2, f"a message of {name} came {early} ms early")

    def _check_books(self, histories: dict[bytes, History]) -> None:
        """Begun = committed + rolled back + parked + open."""
        self.states = dict.fromkeys(TransactionState, 0)
        for history in histories.values():
            self.states[history.state] += 1

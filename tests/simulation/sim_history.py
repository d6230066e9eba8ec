"""What the log tells of one transaction, and what it must never tell.

A plain reading of the records, in log order. It knows what each kind of record
means, and nothing of how the service comes to write it.
"""

from dataclasses import dataclass, field

from tests.simulation.sim_model import demand

from halfpast_core_store.record import Record, RecordFlag, RecordKind
from halfpast_core_store.topics import (
    SYS_SCHEDULE,
    SYS_TRANS_HALF,
    SYS_TRANS_OP,
    TRANS_CHECK_MAX_TIME,
    USER_TOPIC_ID_MIN,
)
from halfpast_txn.half import COMMITTED, message_id
from halfpast_txn.transactions import Source, TransactionState

PROMISE = 5
TOPIC_OF = {
    RecordKind.TRANSACTION: SYS_TRANS_HALF,
    RecordKind.HALF: SYS_TRANS_HALF,
    RecordKind.ADDED: SYS_TRANS_HALF,
    RecordKind.OP: SYS_TRANS_OP,
    RecordKind.CHECK: SYS_TRANS_OP,
    RecordKind.RESUMED: SYS_TRANS_OP,
    RecordKind.PARKED: TRANS_CHECK_MAX_TIME,
    RecordKind.SCHEDULE: SYS_SCHEDULE,
}


@dataclass(slots=True)
class Logged:
    """One record about a transaction, or of one of its messages."""

    position: int
    stored_ms: int
    topic_id: int
    record: Record


@dataclass(slots=True)
class History:
    """One transaction. `check_max` is as its producer asked for it; so much may be
    early as the clock was set back."""

    transaction_id: bytes
    check_max: int
    set_back_ms: int
    begun: Record | None = None
    count: int = 0
    checks: int = 0
    checks_since_resumed: int = 0
    next_ms: int = 0
    parked: bool = False
    was_parked: bool = False
    outcome: Logged | None = None
    late_checks: int = 0
    halves: list[bytes] = field(default_factory=list[bytes])
    released: list[Logged] = field(default_factory=list[Logged])
    """Messages as the commit gave them: for now, or to be scheduled."""
    fired: list[Logged] = field(default_factory=list[Logged])
    """Scheduled ones, as the Delay Server delivered them."""

    def add(self, logged: Logged) -> None:
        """The next record in the log."""
        record = logged.record
        kind = RecordKind(record.kind)
        if logged.topic_id >= USER_TOPIC_ID_MIN:
            self._demand(kind == RecordKind.NORMAL, f"{kind.name} is visible")
            (self.fired if record.due_ms else self.released).append(logged)
            return
        self._demand(TOPIC_OF.get(kind) == logged.topic_id, f"{kind.name} is misplaced")
        if kind == RecordKind.TRANSACTION:
            self._demand(self.begun is None, "it began twice")
            self.begun, self.count = record, record.version
            self.next_ms = record.due_ms
            return
        self._demand(self.begun is not None, f"{kind.name} before its begin")
        if kind == RecordKind.HALF:
            self.halves.append(record.event_id)
        elif kind == RecordKind.SCHEDULE:
            self.released.append(logged)
        elif kind == RecordKind.CHECK:
            self._add_check(record)
        else:
            self._demand(self.outcome is None, f"{kind.name} after the outcome")
            self._add_decision(kind, logged)

    def _add_check(self, record: Record) -> None:
        """One may be on its way while an outcome is."""
        self.late_checks += self.outcome is not None
        self._demand(self.late_checks <= 1, "checked back after its outcome")
        self._demand(not self.parked, "checked back while parked")
        number = record.attempt
        whole = number == self.checks + 1
        self._demand(whole, f"check {number} comes after {self.checks}")
        self.checks += 1
        self.checks_since_resumed += 1
        often = self.checks_since_resumed
        self._demand(often <= self.check_max, f"checked {often} times")
        self._demand_due(record, f"check {number}")
        self.next_ms = record.due_ms

    def _add_decision(self, kind: RecordKind, logged: Logged) -> None:
        record = logged.record
        if kind == RecordKind.OP:
            by_operator = self.source_of(record) == Source.OPERATOR
            guessed = self.parked and not by_operator
            self._demand(not guessed, "it ended while parked")
            self.outcome = logged
        elif kind == RecordKind.PARKED:
            self._demand(not self.parked, "it was parked twice")
            tried = self.checks_since_resumed
            self._demand(tried == self.check_max, f"parked after {tried} checks")
            self._demand(record.attempt == self.checks, "parked with another count")
            self._demand_due(record, "the parking")
            self.parked = self.was_parked = True
        elif kind == RecordKind.RESUMED:
            self._demand(self.parked, "it was resumed, and was not parked")
            self.parked = False
            self.checks_since_resumed = 0
            self.next_ms = record.due_ms
        elif kind == RecordKind.ADDED:
            self._demand(not self.parked, "messages were added while parked")
            self._demand(record.attempt == self.count, "added twice, or behind a gap")
            self.count += record.version

    def settle(self, *, final: bool) -> None:
        """The whole log has been read: are the messages where they belong?"""
        halves = [message_id(self.transaction_id, i) for i in range(self.count)]
        self._demand(self.halves == halves, "its messages are not as they were sent")
        outcome = self.outcome
        committed = outcome is not None and self.state == TransactionState.COMMITTED
        wanted = sorted(halves) if committed else []
        found = sorted(logged.record.event_id for logged in self.released)
        self._demand(found == wanted, f"{len(found)} of {len(wanted)} are visible")
        for logged in self.released:
            assert outcome is not None
            together = logged.position == outcome.position
            self._demand(together, "a message is not in the frame of its outcome")
        scheduled = sorted(
            logged.record.event_id for logged in self.released if logged.record.due_ms
        )
        fired = sorted(logged.record.event_id for logged in self.fired)
        self._demand(len(fired) == len({*fired}), "a message was delivered twice")
        self._demand({*fired} <= {*scheduled}, "it was delivered without a commit")
        if final:
            self._demand(fired == scheduled, "a scheduled message never came")
            ended = outcome is not None or self.parked
            self._demand(ended, "it is open, and nobody will ask")
        if outcome is not None:
            self._check_number(outcome.record)

    def _check_number(self, op: Record) -> None:
        """The outcome tells which check-back brought it, or how many had been sent."""
        sent = self.checks - self.late_checks
        asked = op.attempt > 0 or self.source_of(op) != Source.CHECK
        self._demand(asked and op.attempt <= sent, f"ended by check {op.attempt}")

    @staticmethod
    def source_of(op: Record) -> Source:
        """Who gave an outcome."""
        if op.flags & RecordFlag.FORCED:
            return Source.OPERATOR
        return Source.CHECK if op.flags & RecordFlag.FROM_CHECK else Source.PRODUCER

    @property
    def state(self) -> TransactionState:
        """As the log has it."""
        if self.outcome is None:
            return TransactionState.PARKED if self.parked else TransactionState.PREPARED
        if self.outcome.record.version == COMMITTED:
            return TransactionState.COMMITTED
        return TransactionState.ROLLED_BACK

    def _demand_due(self, record: Record, what: str) -> None:
        early = self.next_ms - self.set_back_ms - record.born_ms
        self._demand(early <= 0, f"{what} came {early} ms early")

    def _demand(self, holds: bool, text: str) -> None:
        demand(holds, PROMISE, f"transaction {self.transaction_id.hex()}: {text}")

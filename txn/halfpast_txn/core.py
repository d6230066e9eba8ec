"""The transaction service's core: decisions, and which check-backs are due.

State changes in one way only: by `apply`, with records that are durable in the log,
in log order. Deciding only *writes* such a record; until it is durable, or certainly
is not, the transaction is `claimed` and nobody else may decide about it. So a crash at
any point leaves either the record in the log, or nothing.

    claim ──> record appended ──> durable: `ended` ──> apply
       └────> refused (nothing was stored): `give_up`

`projection.py` is the half that applies, this the half that decides what to write.
Synchronous and pure; `service.py` and the simulator drive both.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from halfpast_core_store.broker import Append, Lane, Run
from halfpast_core_store.ports import Clock, Index
from halfpast_core_store.topics import SYS_TRANS_OP, TRANS_CHECK_MAX_TIME

from . import keys
from .config import TxnConfig
from .errors import (
    TransactionConflict,
    TransactionError,
    TransactionParked,
    UnknownTransaction,
    WrongProducerGroup,
)
from .half import (
    EndInfo,
    check_record,
    op_record,
    parked_record,
    queue_of,
    released,
    runs_of,
)
from .namespace import in_namespace
from .outcomes import OutcomeCounts
from .policy import interval_ms
from .projection import TransactionProjection
from .status import Status, decode_status, transaction_text
from .transactions import (
    End,
    EndResult,
    Source,
    Transaction,
    TransactionState,
)
from .words import STATE_WORDS

ANSWERS_MAX = 100_000
COUNT_SLICE = 1_000


@dataclass(slots=True)
class Busy:
    """Somebody else is deciding about this transaction: wait, and ask again."""

    claim: bytes


@dataclass(slots=True)
class Ending:
    """An outcome that is to be written: its messages and its record."""

    transaction_id: bytes
    messages: list[tuple[int, int, bytes]]
    op: bytes
    result: EndResult
    size: int


@dataclass(slots=True)
class Checking:
    """Check-backs to write, and then to send: (transaction, number of the check)."""

    request: Append
    checks: list[tuple[bytes, int]] = field(default_factory=list[tuple[bytes, int]])
    parked: list[bytes] = field(default_factory=list[bytes])


class TransactionCore(TransactionProjection):
    """The transactions, and what to do about them."""

    def __init__(self, index: Index, clock: Clock, config: TxnConfig) -> None:
        super().__init__(index, clock, config)
        self.config = config
        self._forgotten = b"F"  # looking from here on skips what was deleted

    # --- outcomes ---------------------------------------------------------------

    def decide(self, end: End) -> EndResult | Busy | Ending:
        """What to say of an outcome, or what to write for it (it is claimed then)."""
        transaction_id = end.transaction_id
        if transaction_id in self.claims:
            return Busy(transaction_id)
        status = self.status(transaction_id)
        if status is None or not in_namespace(status.group, end.namespace):
            return refused(UnknownTransaction(transaction_text(transaction_id)))
        if end.group and end.group != status.group:
            return wrong_group(transaction_id, status)
        told = self.told(transaction_id, status)
        if told is not None:
            return told if told.state == end.state else conflict(transaction_id, told)
        if status.state == TransactionState.PARKED and end.source != Source.OPERATOR:
            text = transaction_text(transaction_id)
            return refused(TransactionParked(text, status.checks), status.state)
        return self._ending(end, status)

    def status(self, transaction_id: bytes) -> Status | None:
        """Where it stands as far as the log has been applied; None if unknown."""
        status = self.open_status(transaction_id)
        return self.ended_status(transaction_id) if status is None else status

    def told(self, transaction_id: bytes, status: Status) -> EndResult | None:
        """The durable outcome, also if it has not been applied yet; None if open."""
        if status.is_open:
            return self.decided.get(transaction_id)
        return status.outcome()

    def _ending(self, end: End, status: Status) -> Ending:
        transaction_id = end.transaction_id
        assert end.state in (TransactionState.COMMITTED, TransactionState.ROLLED_BACK)
        # Delays begin now and must not be short: the next whole millisecond.
        now_ms = -(-self._clock.now_ns() // 1_000_000)
        messages: list[tuple[int, int, bytes]] = []
        if end.state == TransactionState.COMMITTED:
            halves = self.halves(transaction_id, status.message_count)
            messages = [released(half, now_ms) for half in halves]
        check, source = status.checks, end.source
        if source == Source.CHECK and 0 < end.check < check:
            check = end.check  # a late answer to an earlier one
        if source == Source.CHECK and not check:
            source = Source.PRODUCER  # it answers without having been asked
        info = EndInfo(end.reason, end.by) if end.reason or end.by else None
        op = op_record(
            transaction_id, status.group, end.state, source, now_ms, check, info
        )
        self.claims.add(transaction_id)
        result = EndResult(
            state=end.state,
            decided_ms=now_ms,
            source=source,
            checks=check,
        )
        size = len(op) + sum(len(record) for _, _, record in messages)
        return Ending(transaction_id, messages, op, result, size)

    def end_request(self, endings: Iterable[Ending]) -> Append:
        """One atomic frame for some outcomes, with all their messages."""
        some = list(endings)
        messages = (message for ending in some for message in ending.messages)
        runs = runs_of(messages, (ending.op for ending in some))
        return Append(runs, Lane.END_TRANSACTION)

    def ended(self, ending: Ending) -> None:
        """This outcome is durable; it will come back from the log."""
        if ending.transaction_id in self.claims:
            self.claims.discard(ending.transaction_id)
            self.decided[ending.transaction_id] = ending.result

    def give_up(self, claim: bytes) -> None:
        """Nothing was stored for this claim: the transaction is as it was."""
        self.claims.discard(claim)
        if claim in self.asking:
            return  # its check-back is on its way, and sets the next timer
        status = self.open_status(claim)
        if status is not None and status.next_ms:
            self.horizon.add(keys.timer(status.next_ms, claim))

    def give_up_all(self) -> None:
        """The log has been caught up with: what did not come back never will."""
        claims = sorted({*self.claims, *self.asking})  # so that a run can be repeated
        self.asking.clear()
        for claim in claims:
            self.give_up(claim)
        self.decided.clear()

    # --- check-backs --------------------------------------------------------------

    def check(self) -> Checking | None:
        """What is due now, as one atomic request: check-backs, and transactions to
        park after their last one.

        The caller appends it, and sends the check-backs when it has been applied.
        """
        now_ms = self.now_ms()
        due: dict[bytes, bytes] = {}
        for timer in self.horizon.due(now_ms, self._config.check_count):
            self.horizon.take_record(timer)
            transaction_id = timer[keys.TIMER_ID_AT :]
            if transaction_id in self.claims or transaction_id in self.decided:
                continue  # somebody ends it, or gives it back
            if transaction_id in self.asking:
                continue  # its check-back is on its way already
            due[transaction_id] = timer
        if not due:
            return None
        runs: dict[tuple[int, int], list[bytes]] = {}
        checking = Checking(Append([], Lane.SYSTEM))
        statuses = self.open_statuses([*due])
        for (transaction_id, timer), status in zip(due.items(), statuses, strict=True):
            if status is None or status.next_ms != keys.timer_due_ms(timer):
                continue  # it was in the wheel when it went, and was dropped late
            self.asking[transaction_id] = timer
            topic, record = self._check_record(transaction_id, status, now_ms, checking)
            runs.setdefault((topic, queue_of(transaction_id)), []).append(record)
        if not runs:
            return None
        checking.request.runs = [Run(*at, some) for at, some in runs.items()]
        return checking

    def _check_record(
        self, transaction_id: bytes, status: Status, now_ms: int, checking: Checking
    ) -> tuple[int, bytes]:
        since_resumed = status.checks + 1 - (status.check_limit - status.check_max)
        # The first one since then repeats what was known when it was parked.
        before = "no answer" if since_resumed > 1 else status.last_answer
        answer = self.answers.get(transaction_id, before)
        if status.checks >= status.check_limit:
            self.claims.add(transaction_id)
            checking.parked.append(transaction_id)
            return TRANS_CHECK_MAX_TIME, parked_record(
                transaction_id, status.group, status.checks, now_ms, answer
            )
        number = status.checks + 1
        checking.checks.append((transaction_id, number))
        next_ms = now_ms + interval_ms(status.check_interval_ms, since_resumed)
        return SYS_TRANS_OP, check_record(
            transaction_id, status.group, number, now_ms, next_ms, answer
        )

    def not_checked(self, checking: Checking) -> None:
        """Nothing of this was stored: the check-backs are due again."""
        for transaction_id, _ in checking.checks:
            if transaction_id in self.asking:
                self.give_up_check(transaction_id)
        for transaction_id in checking.parked:
            self.asking.pop(transaction_id, None)
            self.give_up(transaction_id)

    def give_up_check(self, transaction_id: bytes) -> None:
        """A check-back was not written; somebody may be ending the transaction."""
        timer = self.asking.pop(transaction_id)
        self.horizon.add(timer)

    def still_asked(self, transaction_id: bytes, check: int) -> Status | None:
        """The status, if check-back number `check` is the latest one and there is no
        outcome yet; else nobody needs to be asked."""
        if transaction_id in self.decided:
            return None
        status = self.open_status(transaction_id)
        if status is None or status.state == TransactionState.PARKED:
            return None
        return status if status.checks == check else None

    def answered(self, transaction_id: bytes, cause: str) -> None:
        """A check-back brought no outcome, and this is why."""
        status = self.open_status(transaction_id)
        if status is None or transaction_id in self.decided:
            return
        if transaction_id not in self.answers and len(self.answers) >= ANSWERS_MAX:
            del self.answers[next(iter(self.answers))]
        self.answers[transaction_id] = cause

    def is_asked(self, transaction_id: bytes, check: int) -> bool:
        """Whether this question still wants an answer."""
        return self.still_asked(transaction_id, check) is not None

    def tell_answer(self, transaction: Transaction) -> None:
        """Enter what the latest check-back brought: the log tells it with the next."""
        known = self.answers.get(transaction.transaction_id)
        transaction.last_answer = known or transaction.last_answer

    # --- upkeep -------------------------------------------------------------------

    def count_open(self, after: bytes) -> bytes | None:
        """Count some open transactions behind this key, before anything is applied;
        gives the key to go on from, None at the end."""
        found = self.index.scan(after or b"S", b"T", COUNT_SLICE)
        self.open_count += len(found)
        self.parked_count += sum(
            decode_status(value).state == TransactionState.PARKED for _, value in found
        )
        return found[-1][0] + b"\0" if len(found) == COUNT_SLICE else None

    def save_position(self) -> int:
        """Enter how far the log has been looked at, also where it had nothing for
        us: what lies before a flushed position may be deleted from the log."""
        batch = self.index.batch()
        batch.put(keys.APPLIED, keys.U64.pack(self.position))
        self.index.write(batch)
        return self.position

    def forget(self, limit: int) -> bool:
        """Delete up to `limit` ended transactions that are older than the history.

        True if there may be more.
        """
        until = keys.decided(max(0, self.now_ms() - self._config.history_ms), b"")
        found = self.index.scan(self._forgotten, until, limit)
        if found:
            self._forgotten = found[-1][0]
            batch = self.index.batch()
            for key, _ in found:
                batch.delete(b"O" + key[9:])
                batch.delete(key)
            self.index.write(batch)
        return len(found) == limit

    def begin_counting(self) -> None:
        """What was replayed at the start is not news: the counters begin here."""
        self.outcomes = OutcomeCounts()
        self.begun_count = 0
        self.gave_up_count = 0

    def counters(self) -> dict[str, float]:
        """Counts since the start, as the metrics show them."""
        return {
            "transactions_begun_total": self.begun_count,
            "transactions_parked_total": self.gave_up_count,
            **dict(self.outcomes.metrics()),
        }

    def gauges(self) -> dict[str, float]:
        """The present state, as the metrics show it."""
        return {
            "transactions_open": self.open_count,
            "transactions_parked": self.parked_count,
            "transactions_claimed": len(self.claims),
            "txn_applied_position": self.position,
        }


def refused(error: TransactionError, state: int = 0) -> EndResult:
    """A refusal as a result among others."""
    return EndResult(code=error.code, detail=str(error), state=state)


def conflict(transaction_id: bytes, told: EndResult) -> EndResult:
    """It has the other outcome."""
    word = STATE_WORDS[told.state]
    error = TransactionConflict(transaction_text(transaction_id), word)
    return EndResult(
        code=error.code,
        detail=str(error),
        state=told.state,
        decided_ms=told.decided_ms,
        source=told.source,
        checks=told.checks,
    )


def wrong_group(transaction_id: bytes, status: Status) -> EndResult:
    """It belongs to another producer group."""
    return refused(WrongProducerGroup(transaction_text(transaction_id), status.group))

"""The transactions as a projection of the log: how each record changes them.

State changes here and nowhere else, and only by records that are durable, in the
order of the log. The first outcome in the log is the outcome; applying is idempotent,
since the index may be behind what it was when the process died.

    TRANSACTION ─> prepared ─CHECK─> prepared ─PARKED─> parked ─RESUMED─> prepared
                       └───────────────────OP───────────────────┴──> an outcome

A frame is applied in slices, and a slice may end among the messages of a
transaction. Until the last one has come nobody sees it; nor, if they were added to
one that is open, does anybody decide about that one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from halfpast_chronos.horizon import Horizon
from halfpast_core_store.broker import FollowedFrame
from halfpast_core_store.ports import Clock, Index, IndexBatch
from halfpast_core_store.record import (
    HEADER,
    HEADER_SIZE,
    Record,
    RecordFlag,
    RecordKind,
    decode_record,
)

from . import keys
from .config import TxnConfig
from .half import (
    COMMITTED,
    EndInfo,
    read_added_info,
    read_begin_info,
    read_check_info,
    read_end_info,
    transaction_of,
)
from .outcomes import OutcomeCounts
from .status import Status, decode_status, encode_status
from .transactions import EndResult, Happening, Source, TransactionState
from .young import Young

TRANSACTION = int(RecordKind.TRANSACTION)
HALF = int(RecordKind.HALF)
OP = int(RecordKind.OP)
CHECK = int(RecordKind.CHECK)


@dataclass(slots=True)
class Arriving:
    """A transaction, or what is added to one: its messages are the next records."""

    transaction_id: bytes
    status: Status
    count: int
    is_new: bool
    size: int = 0
    at_ms: int = 0
    records: list[bytes] = field(default_factory=list[bytes])


class TransactionProjection:
    """All transactions of one service, as the log has them."""

    def __init__(self, index: Index, clock: Clock, config: TxnConfig) -> None:
        self.index = index
        self._clock = clock
        self._config = config
        self.horizon = Horizon(index, config, self.now_ms(), keys.TIMER_PREFIX_SIZE)
        self.position = int(keys.U64.unpack(index.get(keys.APPLIED) or bytes(8))[0])
        """Everything in the log before this has been applied."""
        self.claims: set[bytes] = set()
        """Transactions that somebody is deciding about."""
        self.decided: dict[bytes, EndResult] = {}
        """Outcomes that are durable and have not come back from the log yet."""
        self.asking: dict[bytes, bytes] = {}
        """Timers of check-backs that are on their way to the log, by transaction."""
        self.answers: dict[bytes, str] = {}
        """What the latest check-back of a transaction brought, if no outcome."""
        self.young = Young(config.young_size_max)
        self._arriving: Arriving | None = None
        self._first_frame = True  # perhaps applied before, in part
        self.outcomes = OutcomeCounts()
        self.open_count: int = 0
        self.parked_count: int = 0
        self.begun_count = 0
        self.gave_up_count = 0

    def now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000

    def apply(self, frames: Sequence[FollowedFrame], next_position: int) -> list[bytes]:
        """Apply durable frames in order; those before `position` are passed over.

        Gives the claims that this has released.
        """
        released: list[bytes] = []
        for frame in frames:
            if frame.position >= self.position:
                released += self.apply_slice(frame, 0, len(frame.records))
        self.position = max(self.position, next_position)
        return released

    def apply_slice(self, frame: FollowedFrame, start: int, stop: int) -> list[bytes]:
        """Apply some records of the next frame; the last slice moves `position`.

        Slices keep each step short. A crash between two is harmless, since the
        whole frame is then applied again.
        """
        released: list[bytes] = []
        fresh: list[bytes] = []
        batch = self.index.batch()
        for data in frame.records[start:stop]:
            kind = data[4]
            if kind == HALF:
                if self._apply_half(batch, data, fresh):
                    self._release(transaction_of(data[16:32]), released)
            elif kind == TRANSACTION:
                self._apply_begin(data)
            else:
                if self.young.get(data[16:32]) is None:
                    # It reads what has been written before, so write that now.
                    self.index.write(batch)
                    batch = self.index.batch()
                self._arriving = None
                self._apply_other(batch, decode_record(data), frame.stored_ms, fresh)
                # A check-back claims nothing; what is added does until it is here.
                if kind != CHECK and self._arriving is None:
                    self._release(data[16:32], released)
        if stop >= len(frame.records):
            batch.put(keys.APPLIED, keys.U64.pack(frame.end))
            self.position = frame.end
            self._first_frame = False
        self.index.write(batch)
        self.horizon.add_many(fresh)
        return released

    def _apply_begin(self, data: bytes) -> None:
        head = HEADER.unpack_from(data)
        transaction_id = head[6]
        body_at = HEADER_SIZE + head[11]
        info = read_begin_info(data[body_at:])
        status = Status(
            TransactionState.PREPARED,
            data[HEADER_SIZE:body_at].decode(),
            info.reference,
            head[7],
            head[10],
            info.size,
            info.check_interval_ms,
            info.check_max,
            info.check_max,
            head[8],
        )
        self._arriving = Arriving(transaction_id, status, head[10], is_new=True)

    def _apply_half(self, batch: IndexBatch, data: bytes, fresh: list[bytes]) -> bool:
        """True if it is the last one that was wanting."""
        arriving = self._arriving
        if arriving is None or data[16:30] != arriving.transaction_id[:14]:
            return False  # added before, or too late
        number = int.from_bytes(data[30:32], "big") - 1
        batch.put(keys.message(arriving.transaction_id, number), data)
        arriving.records.append(data)
        if len(arriving.records) < arriving.count:
            return False
        self._arriving = None
        transaction_id, status = arriving.transaction_id, arriving.status
        if arriving.is_new:
            self._begun(batch, transaction_id, status)
            self.young.add(transaction_id, status, arriving.records)
        else:
            status.message_count += arriving.count
            status.size += arriving.size
            status.happened(arriving.at_ms, Happening.ADDED)
            self.young.add_messages(transaction_id, arriving.records)
        batch.put(b"S" + transaction_id, encode_status(status))
        fresh.append(keys.timer(status.next_ms, transaction_id))
        return True

    def _begun(self, batch: IndexBatch, transaction_id: bytes, status: Status) -> None:
        batch.put(keys.timer(status.next_ms, transaction_id), b"")
        self.begun_count += 1
        if not self._first_frame or self.index.get(b"S" + transaction_id) is None:
            self.open_count += 1

    def _apply_other(
        self, batch: IndexBatch, record: Record, stored_ms: int, fresh: list[bytes]
    ) -> None:
        transaction_id = record.event_id
        status = self.open_status(transaction_id)
        if status is None:
            return  # it had an outcome before
        if record.kind == OP:
            self._apply_end(batch, record, status)
        elif record.kind == CHECK:
            self._apply_check(batch, record, status, fresh)
        elif record.kind == RecordKind.PARKED:
            self._apply_parked(batch, record, status)
        elif record.kind == RecordKind.RESUMED:
            self._apply_resumed(batch, record, status, fresh)
        elif record.kind == RecordKind.ADDED:
            if record.attempt < status.message_count:
                return  # applied before
            size = read_added_info(record.body).size
            self._arriving = Arriving(
                transaction_id, status, record.version, False, size, stored_ms
            )

    def _apply_end(self, batch: IndexBatch, record: Record, status: Status) -> None:
        transaction_id = record.event_id
        self.young.drop(transaction_id)
        self._forget_check(batch, transaction_id, status)
        batch.delete(b"S" + transaction_id)
        if status.state == TransactionState.PARKED:
            batch.delete(b"P" + transaction_id)
            self.parked_count -= 1
        for number in range(status.message_count):
            batch.delete(keys.message(transaction_id, number))
        committed = record.version == COMMITTED
        status.state = (
            TransactionState.COMMITTED if committed else TransactionState.ROLLED_BACK
        )
        status.decided_ms = record.born_ms
        status.next_ms = 0
        status.source = source_of(record.flags)
        status.check = record.attempt
        info = read_end_info(record.body) if record.body else EndInfo()
        status.reason, status.by = info.reason, info.by
        batch.put(b"O" + transaction_id, encode_status(status))
        batch.put(keys.decided(status.decided_ms, transaction_id), b"")
        self.decided.pop(transaction_id, None)
        self.open_count -= 1
        self.outcomes.add(committed, status.source)

    def _apply_check(
        self, batch: IndexBatch, record: Record, status: Status, fresh: list[bytes]
    ) -> None:
        if status.state == TransactionState.PARKED or record.attempt <= status.checks:
            return
        transaction_id = record.event_id
        self._forget_check(batch, transaction_id, status)
        status.checks = record.attempt
        status.last_answer = read_check_info(record.body).last_answer
        status.happened(record.born_ms, Happening.CHECKED)
        self._set_next(batch, transaction_id, status, record.due_ms, fresh)

    def _apply_parked(self, batch: IndexBatch, record: Record, status: Status) -> None:
        if status.state == TransactionState.PARKED:
            return
        transaction_id = record.event_id
        self._forget_check(batch, transaction_id, status)
        status.state = TransactionState.PARKED
        status.next_ms = 0
        status.last_answer = read_check_info(record.body).last_answer
        status.happened(record.born_ms, Happening.PARKED)
        batch.put(b"S" + transaction_id, encode_status(status))
        batch.put(b"P" + transaction_id, b"")
        self.parked_count += 1
        self.gave_up_count += 1

    def _apply_resumed(
        self, batch: IndexBatch, record: Record, status: Status, fresh: list[bytes]
    ) -> None:
        if status.state != TransactionState.PARKED:
            return
        status.state = TransactionState.PREPARED
        status.check_limit = status.checks + status.check_max
        info = read_end_info(record.body)
        status.reason, status.by = info.reason, info.by
        status.happened(record.born_ms, Happening.RESUMED)
        batch.delete(b"P" + record.event_id)
        self._set_next(batch, record.event_id, status, record.due_ms, fresh)
        self.parked_count -= 1

    def _set_next(
        self,
        batch: IndexBatch,
        transaction_id: bytes,
        status: Status,
        next_ms: int,
        fresh: list[bytes],
    ) -> None:
        status.next_ms = next_ms
        timer = keys.timer(next_ms, transaction_id)
        batch.put(b"S" + transaction_id, encode_status(status))
        batch.put(timer, b"")
        fresh.append(timer)

    def _forget_check(
        self, batch: IndexBatch, transaction_id: bytes, status: Status
    ) -> None:
        """The check-back that was due next is none any more."""
        timer = keys.timer(status.next_ms, transaction_id)
        batch.delete(timer)
        self.horizon.discard(timer)
        self.asking.pop(transaction_id, None)
        self.answers.pop(transaction_id, None)

    def _release(self, claim: bytes, released: list[bytes]) -> None:
        if claim in self.claims:
            self.claims.discard(claim)
            released.append(claim)

    # --- looking ----------------------------------------------------------------

    def open_status(self, transaction_id: bytes) -> Status | None:
        """A prepared or parked transaction; None if it is unknown or has ended."""
        young = self.young.get(transaction_id)
        if young is not None:
            return young.status
        value = self.index.get(b"S" + transaction_id)
        return None if value is None else decode_status(value)

    def open_statuses(self, transaction_ids: Sequence[bytes]) -> list[Status | None]:
        """`open_status` of many, in one go."""
        young = [self.young.get(one) for one in transaction_ids]
        old = [
            one for one, known in zip(transaction_ids, young, strict=True) if not known
        ]
        values = iter(self.index.get_many([b"S" + one for one in old]))
        found: list[Status | None] = []
        for known in young:
            if known is not None:
                found.append(known.status)
                continue
            value = next(values)
            found.append(None if value is None else decode_status(value))
        return found

    def ended_status(self, transaction_id: bytes) -> Status | None:
        """A committed or rolled back transaction; None if it is open or unknown."""
        value = self.index.get(b"O" + transaction_id)
        return None if value is None else decode_status(value)

    def halves(self, transaction_id: bytes, count: int) -> list[bytes]:
        """The first `count` HALF records of an open transaction."""
        young = self.young.get(transaction_id)
        if young is not None and len(young.records) >= count:
            return young.records[:count]
        found = self.index.get_many(
            [keys.message(transaction_id, number) for number in range(count)]
        )
        records = [record for record in found if record is not None]
        assert len(records) == count, "an open transaction has all its messages"
        return records

    def entry_count(self, record: bytes) -> int:
        """How many entries of the index a record is about: the cost of applying."""
        if record[4] != OP:
            return 1 if record[4] == HALF else 3
        status = self.open_status(record[16:32])
        return 3 + (status.message_count if status is not None else 0)


def source_of(flags: int) -> Source:
    """Who gave an outcome, by the flags of its record."""
    if flags & RecordFlag.FORCED:
        return Source.OPERATOR
    if flags & RecordFlag.FROM_CHECK:
        return Source.CHECK
    return Source.PRODUCER

"""A transaction core beside a log that is a plain list, on a clock set by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.unit.core_store_world import START_MS, FakeClock

from halfpast_core_store.broker import Append, FollowedFrame, Run
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import (
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_core_store.topics import (
    SYS_SCHEDULE,
    SYS_TRANS_HALF,
    SYS_TRANS_OP,
    TRANS_CHECK_MAX_TIME,
    USER_TOPIC_ID_MIN,
)
from halfpast_txn.config import TxnConfig
from halfpast_txn.core import Busy, Checking, Ending, TransactionCore
from halfpast_txn.decisions import Command
from halfpast_txn.half import begin_run, message_id
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.status import Status
from halfpast_txn.transactions import End, EndResult, TransactionState

TOPIC = USER_TOPIC_ID_MIN
FRAME_LENGTH = 64
GROUP = "orders"
COMMITTED = TransactionState.COMMITTED
ROLLED_BACK = TransactionState.ROLLED_BACK
OF_TRANSACTIONS = {SYS_TRANS_HALF, SYS_TRANS_OP, TRANS_CHECK_MAX_TIME}


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a commit brought to a queue."""

    event_id: bytes
    topic_id: int
    queue_id: int
    due_ms: int


def transaction_id(number: int) -> bytes:
    return number.to_bytes(14, "big") + b"\0\0"


def number_of(identity: bytes) -> int:
    return int.from_bytes(identity[:14], "big")


def half_record(number: int, index: int = 0, **fields: Any) -> bytes:
    """The HALF record of a transaction's message `index`."""
    fields.setdefault("topic_id", TOPIC)
    fields.setdefault("body", b"message %d" % index)
    return encode_record(
        RecordKind.HALF,
        event_id=message_id(transaction_id(number), index),
        born_ms=START_MS,
        **fields,
    )


def delayed_record(number: int, index: int, delay_ms: int) -> bytes:
    return half_record(number, index, due_ms=delay_ms, flags=RecordFlag.AFTER_COMMIT)


def begin_records(
    number: int,
    halves: Sequence[bytes],
    born_ms: int,
    policy: CheckPolicy | None = None,
    group: str = GROUP,
    reference: str = "",
) -> list[bytes]:
    run = begin_run(
        transaction_id(number),
        group,
        policy or CheckPolicy(),
        born_ms,
        halves,
        reference,
    )
    return run.records


class Line:
    """Appends are durable at once, but applied only by `follow`."""

    def __init__(self, **config: int) -> None:
        self.clock = FakeClock()
        self.config = TxnConfig(**config)
        self.index = MemoryIndex()
        self.frames: list[FollowedFrame] = []
        self.sent: list[Sent] = []
        self._start()

    def _start(self) -> None:
        """A new process: it counts before it applies anything."""
        self.core = TransactionCore(self.index, self.clock, self.config)
        self.slice_at = 0
        after: bytes | None = b""
        while after is not None:
            after = self.core.count_open(after)

    @property
    def now_ms(self) -> int:
        return self.core.now_ms()

    @property
    def log_end(self) -> int:
        return self.frames[-1].end if self.frames else 0

    # --- the broker's part ------------------------------------------------------

    def append(self, request: Append) -> None:
        """Make a request durable, as one frame."""
        records: list[bytes] = []
        for run in request.runs:
            if run.topic_id in OF_TRANSACTIONS:
                records += run.records
            else:
                self._arrive(run)
        self.append_records(records)

    def _arrive(self, run: Run) -> None:
        for data in run.records:
            record = decode_record(data)
            scheduled = run.topic_id == SYS_SCHEDULE
            kind = RecordKind.SCHEDULE if scheduled else RecordKind.NORMAL
            assert record.kind == kind
            if not scheduled:
                assert (record.topic_id, record.queue_id) == (
                    run.topic_id,
                    run.queue_id,
                )
            self.sent.append(
                Sent(record.event_id, record.topic_id, record.queue_id, record.due_ms)
            )

    def append_records(self, records: list[bytes]) -> None:
        start = self.log_end
        frame = FollowedFrame(start, start + FRAME_LENGTH, self.now_ms, records)
        self.frames.append(frame)

    def follow(self) -> list[bytes]:
        """Apply what is durable; gives the claims that this released."""
        released: list[bytes] = []
        while self.core.position < self.log_end:
            released += self.follow_slice(1_000)
        return released

    def follow_slice(self, count: int) -> list[bytes]:
        """Apply up to `count` records of the next frame, as a follower does."""
        if self.core.position >= self.log_end:
            return []
        frame = self.frames[self.core.position // FRAME_LENGTH]
        stop = min(self.slice_at + count, len(frame.records))
        released = self.core.apply_slice(frame, self.slice_at, stop)
        self.slice_at = stop if stop < len(frame.records) else 0
        return released

    # --- the service's part -----------------------------------------------------

    def begin(
        self,
        number: int,
        halves: Sequence[bytes] | None = None,
        policy: CheckPolicy | None = None,
        group: str = GROUP,
        reference: str = "",
    ) -> bytes:
        """A transaction with these messages, or one; gives its id."""
        if halves is None:
            halves = [half_record(number)]
        self.append_records(
            begin_records(number, halves, self.now_ms, policy, group, reference)
        )
        self.follow()
        return transaction_id(number)

    def end(self, number: int, state: int = COMMITTED, **fields: Any) -> EndResult:
        """Give an outcome, and see it through."""
        decision = self.core.decide(End(transaction_id(number), state, **fields))
        if isinstance(decision, EndResult):
            return decision
        ending = ending_of(decision)
        self.store(ending)
        self.follow()
        return ending.result

    def store(self, *endings: Ending) -> None:
        """These become durable, and their append is answered."""
        self.append(self.core.end_request(endings))
        for ending in endings:
            self.core.ended(ending)

    def see_through(self, decision: object) -> Command:
        """Append a command and apply it."""
        assert isinstance(decision, Command), decision
        self.append(decision.request)
        assert self.follow() == [decision.claim]
        return decision

    def load(self) -> None:
        while self.core.horizon.load(self.now_ms):
            pass

    def check(self) -> Checking | None:
        """What is due now, and is on its way from here on."""
        self.load()
        return self.core.check()

    def check_all(self) -> list[tuple[int, int]]:
        """Check everything that is due, and apply it: (transaction, check number)."""
        asked: list[tuple[int, int]] = []
        while (checking := self.check()) is not None:
            self.append(checking.request)
            self.follow()
            asked += [(number_of(one), check) for one, check in checking.checks]
        return asked

    def crash(self, kept: int) -> None:
        """Lose all but `kept` of the batches since the last flush, start anew."""
        self.index = self.index.crash(kept)
        self._start()
        self.follow()

    def status(self, number: int) -> Status:
        identity = transaction_id(number)
        status = self.core.open_status(identity) or self.core.ended_status(identity)
        assert status is not None
        return status

    def family(self, letter: bytes) -> list[bytes]:
        """All keys of a family of the index."""
        end = bytes((letter[0] + 1,))
        return [key for key, _ in self.index.scan(letter, end, 1_000_000)]


def ending_of(decision: object) -> Ending:
    assert isinstance(decision, Ending), decision
    return decision


def checking_of(decision: Checking | None) -> Checking:
    assert decision is not None
    return decision


def busy_with(decision: object) -> bytes:
    """The claim that a decision has to wait for."""
    assert isinstance(decision, Busy), decision
    return decision.claim

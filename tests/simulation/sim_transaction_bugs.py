"""Bugs planted into transactions on purpose: see `sim_bugs.py`."""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.simulation.sim_connection import Done
from tests.simulation.sim_producers import Producers
from tests.simulation.sim_transactions import (
    Carried,
    Departure,
    Reply,
    TransactionProcess,
)

from halfpast_core_store.broker import Append, FollowedFrame, Run
from halfpast_core_store.ports import Clock, Index, IndexBatch
from halfpast_core_store.record import (
    HEADER,
    Record,
    RecordKind,
    decode_record,
    with_kind,
)
from halfpast_core_store.store import Store
from halfpast_core_store.topics import SYS_TRANS_OP
from halfpast_txn.claims import ROLE
from halfpast_txn.config import TxnConfig
from halfpast_txn.core import Busy, Checking, Ending, TransactionCore
from halfpast_txn.half import op_record, released
from halfpast_txn.status import Status, decode_status, encode_status
from halfpast_txn.transactions import (
    AddMessages,
    CheckAnswer,
    End,
    EndResult,
    Source,
    TransactionState,
)

# --- the core -------------------------------------------------------------------


class EndsTwice(TransactionCore):
    """An outcome that is repeated is written again, with its messages."""

    def __init__(self, index: Index, clock: Clock, config: TxnConfig) -> None:
        super().__init__(index, clock, config)
        self._endings: dict[bytes, Ending] = {}

    def decide(self, end: End) -> EndResult | Busy | Ending:
        decision = super().decide(end)
        if isinstance(decision, Ending):
            self._endings[end.transaction_id] = decision
        elif isinstance(decision, EndResult) and not decision.code:
            ending = self._endings.get(end.transaction_id)
            if ending is not None:
                self.claims.add(end.transaction_id)
                return ending
        return decision


class IgnoresClaims(TransactionCore):
    """Two who decide at the same time do not see each other."""

    def decide(self, end: End) -> EndResult | Busy | Ending:
        self.claims.discard(end.transaction_id)
        return super().decide(end)


class ChecksRelease(TransactionCore):
    """A check-back that comes back from the log gives up the claim of a commit."""

    def apply_slice(self, frame: FollowedFrame, start: int, stop: int) -> list[bytes]:
        gone = super().apply_slice(frame, start, stop)
        for data in frame.records[start:stop]:
            if data[4] == RecordKind.CHECK and data[16:32] in self.claims:
                self.claims.discard(data[16:32])
                gone.append(data[16:32])
        return gone


class ForgetsChecks(TransactionCore):
    """How often a transaction was checked back is known in memory only."""

    def __init__(self, index: Index, clock: Clock, config: TxnConfig) -> None:
        super().__init__(index, clock, config)
        batch = index.batch()
        for key, value in index.scan(b"S", b"T", 1000):
            status = decode_status(value)
            status.checks = 0
            batch.put(key, encode_status(status))
        index.write(batch)


class LeavesOutTheOutcome(TransactionCore):
    """A commit appends its messages, and no record of itself."""

    def end_request(self, endings: Iterable[Ending]) -> Append:
        request = super().end_request(endings)
        if any(run.topic_id != SYS_TRANS_OP for run in request.runs):
            request.runs = [r for r in request.runs if r.topic_id != SYS_TRANS_OP]
        return request


class DelaysFromTheBeginning(TransactionCore):
    """A delay counts from when the transaction began."""

    def _ending(self, end: End, status: Status) -> Ending:
        ending = super()._ending(end, status)
        if ending.messages:
            halves = self.halves(end.transaction_id, status.message_count)
            ending.messages = [released(half, status.begun_ms) for half in halves]
        return ending


class GuessesParked(TransactionCore):
    """After the last check-back a transaction is taken to be rolled back."""

    def _check_record(
        self, transaction_id: bytes, status: Status, now_ms: int, checking: Checking
    ) -> tuple[int, bytes]:
        if status.checks < status.check_limit:
            return super()._check_record(transaction_id, status, now_ms, checking)
        return SYS_TRANS_OP, op_record(
            transaction_id,
            status.group,
            TransactionState.ROLLED_BACK,
            Source.CHECK,
            now_ms,
            status.checks,
        )


class AppliesAgain(TransactionCore):
    """Frames that were applied before are applied again, and begin anew what has
    ended."""

    def apply(self, frames: Sequence[FollowedFrame], next_position: int) -> list[bytes]:
        position = self.position
        for frame in frames:
            if frame.position < position:
                self.apply_slice(frame, 0, len(frame.records))
        self.position = position
        return super().apply(frames, next_position)


class ChecksTwice(TransactionCore):
    """A commit that is refused has its transaction checked back, also if a
    check-back is on its way."""

    def give_up(self, claim: bytes) -> None:
        self.asking.pop(claim, None)
        super().give_up(claim)


class LosesTimers(TransactionCore):
    """A transaction whose commit is refused is never checked back again."""

    def give_up(self, claim: bytes) -> None:
        self.claims.discard(claim)


class ResumesForNothing(TransactionCore):
    """A transaction that is resumed has no check-back left."""

    def _apply_other(
        self, batch: IndexBatch, record: Record, stored_ms: int, fresh: list[bytes]
    ) -> None:
        super()._apply_other(batch, record, stored_ms, fresh)
        status = self.open_status(record.event_id)
        if record.kind == RecordKind.RESUMED and status is not None:
            status.state = TransactionState.PREPARED
            status.next_ms = record.due_ms
            status.check_limit = status.checks
            batch.put(b"S" + record.event_id, encode_status(status))


class HoldsTooLittle(TransactionCore):
    """The log is given up although the index has not noted how far it is."""

    def save_position(self) -> int:
        return self.position


class SeesHalfATransaction(TransactionCore):
    """A slice of a frame may end among the messages of a transaction."""

    def apply_slice(self, frame: FollowedFrame, start: int, stop: int) -> list[bytes]:
        gone = super().apply_slice(frame, start, stop)
        arriving = self._arriving
        if arriving is not None and arriving.is_new:
            batch = self.index.batch()
            batch.put(b"S" + arriving.transaction_id, encode_status(arriving.status))
            self.index.write(batch)
        return gone


# --- what is around it ------------------------------------------------------------


class EndsEarly(TransactionProcess):
    """An outcome is answered when it is decided."""

    def put(self, ending: Ending, reply: Reply) -> None:
        reply(ending.result)
        super().put(ending, lambda result: None)


class GuessesUnknown(TransactionProcess):
    """Who does not know has rolled back."""

    def answer(self, group: str, answer: CheckAnswer, reply: Reply) -> None:
        guess = answer.state or TransactionState.ROLLED_BACK
        super().answer(
            group, CheckAnswer(answer.transaction_id, guess, answer.check), reply
        )


class AsksEarly(TransactionProcess):
    """A producer is asked before the number of the question is durable."""

    def send(self, request: Append, done: Done) -> None:
        super().send(request, done)
        records = [decode_record(data) for run in request.runs for data in run.records]
        checks = [record for record in records if record.kind == RecordKind.CHECK]
        for check in checks:
            self._world.endpoints.asked(check.event_id, check.attempt)


class DepartsAnew(TransactionProcess):
    """An outcome that waited while the role was taken anew leaves all the same."""

    def depart(self, departure: Departure, request: Append, done: Done) -> None:
        departure.token = self.claims.token
        super().depart(departure, request, done)


class GivesUpAtOnce(TransactionProcess):
    """After a lost connection nobody waits for what the log has to tell."""

    def take_role(self) -> None:
        super().take_role()
        self.role_end = 0


class AddsAgain(TransactionProcess):
    """Messages that are sent once more are added once more."""

    def add(self, request: AddMessages, reply: Carried) -> None:
        status = self.core.open_status(request.transaction_id)
        if status is not None and status.message_count > request.first_index:
            first = status.message_count
            request = AddMessages(request.transaction_id, first, request.records)
        super().add(request, reply)


class IgnoresTransactionFence(Store):
    """A transaction service that has been replaced may still append."""

    def _check_fence(self, request: Append) -> None:
        if request.fence_role != ROLE:
            super()._check_fence(request)


class ShowsHalves(Producers):
    """What is not committed yet lies in its queue already, as it is."""

    kind = RecordKind.HALF

    def more_runs(self, halves: list[bytes]) -> list[Run]:
        runs: list[Run] = []
        for half in halves:
            header = HEADER.unpack_from(half)
            runs.append(Run(header[4], header[14], [with_kind(half, self.kind)]))
        return runs


class ShowsMessages(ShowsHalves):
    """What is not committed yet lies in its queue already, like any message."""

    kind = RecordKind.NORMAL


def with_core(core: type[TransactionCore]) -> dict[str, Any]:
    """A transaction process with this core."""
    process = type(core.__name__, (TransactionProcess,), {"make_core": core})
    return {"make_transactions": process}


TRANSACTION_BUGS: dict[str, dict[str, Any]] = {
    "outcome replayed twice": with_core(EndsTwice),
    "half visible": {"make_producers": ShowsHalves},
    "half visible as a message": {"make_producers": ShowsMessages},
    "outcome answered before it is durable": {"make_transactions": EndsEarly},
    "check counter lost on restart": with_core(ForgetsChecks),
    "unknown is taken for a rollback": {"make_transactions": GuessesUnknown},
    "parked is taken for a rollback": with_core(GuessesParked),
    "check-back gives up a commit's claim": with_core(ChecksRelease),
    "claims of transactions ignored": with_core(IgnoresClaims),
    "commit without its own record": with_core(LeavesOutTheOutcome),
    "delay counted from the beginning": with_core(DelaysFromTheBeginning),
    "applied again, it begins anew": with_core(AppliesAgain),
    "half a transaction is seen": with_core(SeesHalfATransaction),
    "two check-backs with one number": with_core(ChecksTwice),
    "check-back asked before it is durable": {"make_transactions": AsksEarly},
    "no check-back after a refused commit": with_core(LosesTimers),
    "resumed without a check-back": with_core(ResumesForNothing),
    "outcome leaves under a newer fence": {"make_transactions": DepartsAnew},
    "claims given up before the log tells": {"make_transactions": GivesUpAtOnce},
    "messages added twice": {"make_transactions": AddsAgain},
    "fence of transactions ignored": {"make_store": IgnoresTransactionFence},
    "log of transactions given up too early": with_core(HoldsTooLittle),
}

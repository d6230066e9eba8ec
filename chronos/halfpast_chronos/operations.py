"""The bulk operations as a projection of the log.

    BEGIN ──> running ──> done
                 └──────> cancelled

Each record OPERATION holds all there is to know, so the latest one counts; it lies in
the same frame as the changes that it tells of. So an operation goes on after a crash
exactly where it was.
"""

import msgspec

from halfpast_core_store.broker import Append, Lane, Run
from halfpast_core_store.errors import IdempotencyConflict
from halfpast_core_store.record import Record, RecordKind, encode_record
from halfpast_core_store.topics import SYS_SCHEDULE

from . import keys
from .decisions import Busy, Command, event_text
from .operation import (
    BeginBulk,
    Begun,
    CancelOperation,
    ListOperations,
    Operation,
    OperationPage,
    OperationState,
)
from .operation_errors import (
    InvalidPageToken,
    OperationEnded,
    TooManyOperations,
    UnknownOperation,
)
from .projection import Step, TimerProjection

RUNNING_MAX = 50
KEPT_MAX = 1_000
"""Operations that are over, beyond which the oldest are forgotten."""

ID_SIZE = 16
ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(Operation).decode


class Operations:
    """All that are known: few, so they are kept in memory too."""

    def __init__(self, core: TimerProjection) -> None:
        self._core = core
        core.appliers[RecordKind.OPERATION] = self._apply
        self._known: dict[bytes, Operation] = {}
        start = b"B"
        while found := core.index.scan(start, b"C", 100):
            for key, value in found:
                self._known[key[1:]] = DECODE(value)
            start = found[-1][0] + b"\0"

    def get(self, operation_id: bytes) -> Operation:
        """Raises UnknownOperation."""
        known = self._known.get(operation_id)
        if known is None:
            raise UnknownOperation(event_text(operation_id))
        return known

    def running(self) -> list[Operation]:
        """Those that are not over, the oldest first."""
        running = [it for it in self._known.values() if it.is_running]
        return sorted(running, key=lambda it: it.operation_id)

    def page(self, request: ListOperations) -> OperationPage:
        """A page, the newest first. Raises InvalidPageToken."""
        after = request.after or b"\xff" * ID_SIZE
        if len(after) != ID_SIZE:
            raise InvalidPageToken
        wanted = [
            it
            for it in self._known.values()
            if it.operation_id < after and request.state in (0, it.state)
        ]
        wanted.sort(key=lambda it: it.operation_id, reverse=True)
        page = wanted[: request.limit]
        more = len(wanted) > len(page)
        return OperationPage(page, page[-1].operation_id if page and more else b"")

    def show(self, operation: Operation) -> None:
        """Let it be seen how far it has come, though that is not in the log yet."""
        if operation.operation_id in self._known:
            self._known[operation.operation_id] = operation

    # --- deciding -----------------------------------------------------------------

    def decide_begin(self, request: BeginBulk, expected: int) -> Begun | Busy | Command:
        """Raises TooManyOperations, IdempotencyConflict."""
        claims = [request.operation_id]
        if request.idempotency_key:
            claims.append(claim_of(request.idempotency_key))
        for claim in claims:
            if claim in self._core.claims:
                return Busy(claim)
        known = self._known.get(request.operation_id) or self._made_by(request)
        if known is not None:
            if known.fingerprint != request.fingerprint:
                raise IdempotencyConflict
            return Begun(known, replayed=True)
        if len(self.running()) >= RUNNING_MAX:
            raise TooManyOperations(RUNNING_MAX)
        operation = Operation(
            request.operation_id,
            request.bulk,
            max(request.created_ms, self._core.now_ms()),
            expected=expected,
            idempotency_key=request.idempotency_key,
            fingerprint=request.fingerprint,
        )
        return self.command(operation, [], claims)

    def decide_cancel(self, request: CancelOperation) -> Operation | Busy | Command:
        """Raises UnknownOperation, OperationEnded."""
        if request.operation_id in self._core.claims:
            return Busy(request.operation_id)
        known = self.get(request.operation_id)
        if known.state == OperationState.CANCELLED:
            return known
        if not known.is_running:
            raise OperationEnded(event_text(known.operation_id), known.finished_ms)
        ended = self.ended(known, OperationState.CANCELLED)
        return self.command(ended, [], [known.operation_id])

    def ended(self, operation: Operation, state: OperationState) -> Operation:
        """The next version, which is the last."""
        return msgspec.structs.replace(
            operation,
            state=state,
            version=operation.version + 1,
            finished_ms=self._core.now_ms(),
        )

    def command(
        self, operation: Operation, records: list[bytes], claims: list[bytes]
    ) -> Command:
        """Claim, and give the request that makes this true with these records, after
        which it is released."""
        self._core.claims.update(claims)
        record = encode_record(
            RecordKind.OPERATION,
            event_id=operation.operation_id,
            version=operation.version,
            born_ms=operation.created_ms,
            body=ENCODE(operation),
        )
        request = Append([Run(SYS_SCHEDULE, 0, [*records, record])], Lane.SYSTEM)
        return Command(request, claims, operation.operation_id)

    def _made_by(self, request: BeginBulk) -> Operation | None:
        key = request.idempotency_key
        same = (it for it in self._known.values() if it.idempotency_key == key)
        return next(same, None) if key else None

    # --- applying -----------------------------------------------------------------

    def _apply(self, step: Step, record: Record, _: bytes) -> None:
        operation = DECODE(record.body)
        self._core.unclaim(record.event_id, step.released)
        if operation.idempotency_key:
            claim = claim_of(operation.idempotency_key)
            self._core.unclaim(claim, step.released)
        step.batch.put(keys.operation(record.event_id), record.body)
        self._known[record.event_id] = operation

    def forget(self, until_ms: int) -> None:
        """Delete those that ended before, and the oldest of too many."""
        over = [it for it in self._known.values() if not it.is_running]
        over.sort(key=lambda it: it.finished_ms)
        beyond = len(over) - KEPT_MAX
        old = [
            it for n, it in enumerate(over) if n < beyond or it.finished_ms < until_ms
        ]
        if not old:
            return
        batch = self._core.index.batch()
        for it in old:
            batch.delete(keys.operation(it.operation_id))
            del self._known[it.operation_id]
        self._core.index.write(batch)


def claim_of(idempotency_key: bytes) -> bytes:
    """What is claimed of an idempotency key. No event's id is so long."""
    return b"operation " + idempotency_key

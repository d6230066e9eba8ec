"""Bulk operations: one wish about many events, carried out in the background.

Times are epoch milliseconds.
"""

from enum import IntEnum

import msgspec

EVER_MS = 2**63 - 1


class BulkAction(IntEnum):
    """What to do with the events. Numbers are part of the file format: only add."""

    CANCEL = 1
    RESCHEDULE = 2


class OperationState(IntEnum):
    """Where an operation stands; all but RUNNING are final. Only add numbers."""

    RUNNING = 1
    DONE = 2
    CANCELLED = 3


class EventFilter(msgspec.Struct, array_like=True, frozen=True):
    """Which scheduled events: those for which all of this is true.

    `topic_id` 0 means all topics, or those of `topic_ids`, in ascending order, unless
    that is empty; the due range takes its first moment and leaves its last.
    """

    topic_id: int = 0
    key: bytes | None = None
    tag: bytes | None = None
    due_after_ms: int = 0
    due_before_ms: int = EVER_MS
    topic_ids: tuple[int, ...] = ()


class Bulk(msgspec.Struct, array_like=True, frozen=True):
    """What to do with which events. A `dry_run` counts them, and changes nothing.

    RESCHEDULE: to `due_ms`, or by `shift_ms` from where each is; not into the past.
    """

    action: int
    filter: EventFilter = EventFilter()
    dry_run: bool = False
    due_ms: int | None = None
    shift_ms: int | None = None


class Operation(msgspec.Struct, array_like=True, frozen=True):
    """How far a bulk has come.

    It is about events that were accepted before `created_ms`. `scanned` events have
    been looked at, of `expected` when it began (0: not known); `matched` of them were
    meant, and `changed` of those were changed. `cursor` is where it goes on.
    """

    operation_id: bytes
    bulk: Bulk
    created_ms: int
    state: int = OperationState.RUNNING
    version: int = 1
    expected: int = 0
    scanned: int = 0
    matched: int = 0
    changed: int = 0
    finished_ms: int = 0
    cursor: bytes = b""
    idempotency_key: bytes = b""
    fingerprint: bytes = b""

    @property
    def is_running(self) -> bool:
        return self.state == OperationState.RUNNING


class BeginBulk(msgspec.Struct, array_like=True):
    """Begin an operation under a fresh id.

    With an `idempotency_key` that has begun one before, that one is given back;
    IdempotencyConflict if the `fingerprint` is another. Raises TooManyOperations.
    """

    operation_id: bytes
    bulk: Bulk
    created_ms: int
    idempotency_key: bytes = b""
    fingerprint: bytes = b""


class Begun(msgspec.Struct, array_like=True):
    """`replayed`: the operation was there already."""

    operation: Operation
    replayed: bool = False


class GetOperation(msgspec.Struct, array_like=True):
    """Raises UnknownOperation."""

    operation_id: bytes


class CancelOperation(msgspec.Struct, array_like=True):
    """Stop an operation; what it has changed stays so.

    Raises UnknownOperation, OperationEnded.
    """

    operation_id: bytes


class ListOperations(msgspec.Struct, array_like=True):
    """Operations, the newest first; `state` 0 means any. `after` is the `next_token`
    of the last page, empty for the first."""

    state: int = 0
    limit: int = 100
    after: bytes = b""


class OperationPage(msgspec.Struct, array_like=True):
    operations: list[Operation]
    next_token: bytes = b""

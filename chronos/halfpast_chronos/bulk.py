"""One slice of a bulk operation: what is met next, and the records that change it.

Each timer that is to be changed is claimed when it is met. One that somebody else has
claimed ends the slice before it: wait for that claim, then go on there. So whatever
lies before the cursor has been dealt with, once.

Timers that are moved may be met again. Those that go to later times are therefore
visited backwards; and one that is due at its new time already is left as it is.
"""

from msgspec.structs import replace

from halfpast_core_store.record import HEADER

from . import keys
from .bulk_records import BulkRecords, Move, cancel_records, move_records
from .core import DelayCore
from .decisions import Command
from .operation import BulkAction, Operation, OperationState
from .operations import Operations
from .record_filter import RecordFilter
from .walk import Met, walk_for

CHANGED_MAX = 2_000  # timers changed in one frame
SCANNED_MAX = 20_000  # looked at in one slice
ROW_COUNT_MIN, ROW_COUNT_MAX = 8, 400
ROWS_SIZE = 512 * 1024  # of one step, about


class BulkSlice:
    """Made in steps, between which others may work."""

    def __init__(
        self,
        core: DelayCore,
        records: BulkRecords,
        operation: Operation,
        changed_max: int = CHANGED_MAX,
    ) -> None:
        """The caller has claimed the operation. There is one slice at a time."""
        records.forget_met()
        bulk = operation.bulk
        self._core = core
        self._operation = operation
        self._bulk = bulk
        self._changes = not bulk.dry_run
        self._changed_max = changed_max
        self._walk = walk_for(
            core.index,
            bulk.filter,
            backwards=self._changes and (bulk.shift_ms or 0) > 0,
        )
        self._filter = RecordFilter(
            bulk.filter.key, bulk.filter.tag, operation.created_ms
        )
        self._cursor: bytes | None = operation.cursor
        self._row_count = ROW_COUNT_MIN
        self._scanned = 0
        self._matched = 0
        self._records = records
        self._timers: list[bytes] = []
        self._moves: list[Move] = []
        self.claims: list[bytes] = []
        """The events that this has claimed."""
        self.busy: bytes | None = None
        """A claim of somebody else to be waited for."""

    @property
    def is_last(self) -> bool:
        """Whether nothing is left to be looked at."""
        return self._cursor is None

    @property
    def changed(self) -> int:
        return len(self._timers) + len(self._moves)

    def step(self) -> bool:
        """Look at some more; False when the slice is complete."""
        assert self._cursor is not None
        limit = min(self._row_count, self._changed_max - self.changed)
        met, behind = self._walk.rows(self._cursor, limit)
        self._resize(sum(len(it.record) for it in met))
        wanted = [it for it in met if self._wants(it)]
        claims = self._core.claims
        for it in wanted if self._changes else ():
            if it.timer[keys.TIMER_ID_AT :] in claims:
                self.busy = it.timer[keys.TIMER_ID_AT :]
                self._cursor = it.cursor
                met = met[: met.index(it)]
                wanted = wanted[: wanted.index(it)]
                break
        else:
            self._cursor = behind
        self._scanned += len(met)
        self._matched += len(wanted)
        if self._changes:
            self._change(wanted)
        enough = self.changed >= self._changed_max or self._scanned >= SCANNED_MAX
        return not (enough or self._cursor is None or self.busy is not None)

    def _wants(self, it: Met) -> bool:
        if keys.timer_due_ms(it.timer) == self._bulk.due_ms:
            return False  # there already, perhaps brought there by this operation
        return self._filter.wants(it.record)

    def _resize(self, size: int) -> None:
        """A row brings its message along: read fewer if they are large."""
        count = self._row_count * 2 if size < ROWS_SIZE else self._row_count // 2
        self._row_count = min(max(count, ROW_COUNT_MIN), ROW_COUNT_MAX)

    def _change(self, wanted: list[Met]) -> None:
        if self._bulk.action == BulkAction.CANCEL:
            self._timers += [it.timer for it in wanted]
        else:
            wanted = self._move(wanted)
        moves = self._bulk.action == BulkAction.RESCHEDULE
        for it in wanted:
            event_id = it.timer[keys.TIMER_ID_AT :]
            self._core.claims.add(event_id)
            self.claims.append(event_id)
            self._records.meet(it.timer, it.record, moves=moves)

    def _move(self, wanted: list[Met]) -> list[Met]:
        """Tell where they go; gives those that do."""
        now_ms = self._core.now_ms()
        moved: list[Met] = []
        for it in wanted:
            due_ms = self._new_due_ms(keys.timer_due_ms(it.timer), now_ms)
            if due_ms is not None:
                version = (HEADER.unpack_from(it.record)[10] or 1) + 1
                self._moves.append((it.timer, due_ms, version))
                moved.append(it)
        return moved

    def _new_due_ms(self, due_ms: int, now_ms: int) -> int | None:
        if self._bulk.due_ms is not None:
            return self._bulk.due_ms
        shift_ms = self._bulk.shift_ms or 0
        new_ms = max(now_ms, due_ms + shift_ms)
        if new_ms == due_ms or shift_ms < 0 < new_ms - due_ms:
            return None  # it is due already, and cannot become so earlier
        return new_ms

    # --- what comes of it -----------------------------------------------------------

    def progress(self) -> Operation:
        """The operation as it stands after this slice, which changes nothing else."""
        operation = self._operation
        return replace(
            operation,
            scanned=operation.scanned + self._scanned,
            matched=operation.matched + self._matched,
            changed=operation.changed + self.changed,
            cursor=operation.cursor if self._cursor is None else self._cursor,
        )

    def command(self, operations: Operations) -> Command:
        """The request that makes all of it durable."""
        operation = self.progress()
        if self.is_last:
            operation = operations.ended(operation, OperationState.DONE)
        else:
            operation = replace(operation, version=operation.version + 1)
        operation_id = operation.operation_id
        records = cancel_records(operation_id, self._timers)
        records += move_records(operation_id, self._moves)
        return operations.command(operation, records, [operation_id, *self.claims])

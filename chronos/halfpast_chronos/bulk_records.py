"""Many timers cancelled or moved by one record.

    BULK_CANCEL       body: timer key 29 bytes, and so on
    BULK_RESCHEDULE   body: timer key 29 bytes | new due_ms u64 | new version u32 |, ...

Numbers are big-endian, as in the key (`keys.py`); at most ROW_COUNT timers a record,
which is applied in one go.
"""

import struct
from collections.abc import Sequence

from halfpast_core_store.record import (
    HEADER,
    HEADER_SIZE,
    Record,
    RecordKind,
    encode_record,
    with_attempt,
    with_time,
)

from . import keys
from .delay_server import EventState, Happening
from .event_state import StoredEvent, encode_changed
from .projection import Step, TimerProjection, was_changed

ROW_COUNT = 100
READ_COUNT = 10  # messages read at a time, each of which may be 4 MiB
CANCEL_SIZE = keys.TIMER_KEY.size
MOVE = struct.Struct(">29sQI")
MOVE_SIZE = MOVE.size
ROW_SIZES = {
    int(RecordKind.BULK_CANCEL): CANCEL_SIZE,
    int(RecordKind.BULK_RESCHEDULE): MOVE_SIZE,
}

Move = tuple[bytes, int, int]
"""A timer's key, its new due time, its new version."""


KEPT_SIZE_MAX = 4 * 1024  # of a message that is kept for being moved


class BulkRecords:
    """Applies them to the core."""

    def __init__(self, core: TimerProjection) -> None:
        self._core = core
        self._met: dict[bytes, tuple[bytes, bytes]] = {}
        core.appliers[RecordKind.BULK_CANCEL] = self._apply_cancel
        core.appliers[RecordKind.BULK_RESCHEDULE] = self._apply_moves

    # --- what was met on the way to the log -----------------------------------------

    def forget_met(self) -> None:
        """A new slice begins; whatever became of the last one."""
        self._met.clear()

    def meet(self, timer: bytes, record: bytes, *, moves: bool) -> None:
        """This timer was claimed to be changed. If this is its first change, then its
        record tells all there is to know of the event, and nothing must be read."""
        head = HEADER.unpack_from(record)
        if was_changed(head):
            return
        if not moves:
            record = record[: HEADER_SIZE + head[11]]
        elif len(record) > KEPT_SIZE_MAX:
            return
        self._met[timer[keys.TIMER_ID_AT :]] = timer, record

    def _take_met(self, timer: bytes) -> bytes | None:
        """Its record, if nothing else can have happened to it."""
        event_id = timer[keys.TIMER_ID_AT :]
        met = self._met.pop(event_id, None)
        if met is None or met[0] != timer or event_id not in self._core.claims:
            return None
        return met[1]

    # --- applying -------------------------------------------------------------------

    def _apply_cancel(self, step: Step, record: Record, _: bytes) -> None:
        core, body = self._core, record.body
        unknown: list[bytes] = []
        for at in range(0, len(body), CANCEL_SIZE):
            timer = body[at : at + CANCEL_SIZE]
            met = self._take_met(timer)
            if met is None:
                unknown.append(timer)
            else:
                self._cancel_unchanged(step, timer, met)
        for timer, event in self._begin(step, unknown):
            core.drop_timer(step.batch, timer)
            event.finish(EventState.CANCELLED, step.stored_ms, Happening.CANCELLED)
            event.version += 1
            core.finish(step.batch, timer[keys.TIMER_ID_AT :], event)
            core.cancelled_count += 1

    def _cancel_unchanged(self, step: Step, timer: bytes, met: bytes) -> None:
        core, event_id = self._core, timer[keys.TIMER_ID_AT :]
        head = HEADER.unpack_from(met)
        key = met[HEADER_SIZE:]
        core.unclaim(event_id, step.released)
        core.drop_timer(step.batch, timer)
        state = encode_changed(
            head,
            key,
            EventState.CANCELLED,
            head[8],
            Happening.CANCELLED,
            step.stored_ms,
        )
        step.batch.put(keys.event(event_id), state)
        core.history.add(step.batch, step.stored_ms, event_id)
        if key:
            step.batch.delete(keys.by_key(head[4], key, event_id))
        core.cancelled_count += 1

    def _apply_moves(self, step: Step, record: Record, _: bytes) -> None:
        moves: dict[bytes, tuple[int, int]] = {}
        for timer, due_ms, version in MOVE.iter_unpack(record.body):
            met = self._take_met(timer)
            if met is None:
                moves[timer] = due_ms, version
            else:
                self._move_unchanged(step, timer, met, due_ms, version)
        known = self._begin(step, list(moves))
        for at in range(0, len(known), READ_COUNT):
            some = known[at : at + READ_COUNT]
            messages = self._core.index.get_many([timer for timer, _ in some])
            for (timer, event), message in zip(some, messages, strict=True):
                due_ms, version = moves[timer]
                if message is not None and event.version < version:
                    self._move(step, timer, event, message, due_ms, version)

    def _move_unchanged(
        self, step: Step, timer: bytes, met: bytes, due_ms: int, version: int
    ) -> None:
        core, event_id = self._core, timer[keys.TIMER_ID_AT :]
        head = HEADER.unpack_from(met)
        key = met[HEADER_SIZE : HEADER_SIZE + head[11]]
        core.unclaim(event_id, step.released)
        state = encode_changed(
            head,
            key,
            EventState.SCHEDULED,
            due_ms,
            Happening.RESCHEDULED,
            step.stored_ms,
        )
        step.batch.put(keys.event(event_id), state)
        self._replace(step, timer, with_time(met, due_ms, version), due_ms)
        if key:
            by_key = keys.by_key(head[4], key, event_id)
            step.batch.put(by_key, keys.U64.pack(due_ms))

    def _replace(self, step: Step, timer: bytes, message: bytes, due_ms: int) -> None:
        event_id = timer[keys.TIMER_ID_AT :]
        new = keys.timer(keys.timer_topic(timer), due_ms, event_id)
        self._core.drop_timer(step.batch, timer)
        step.batch.put(new, message)
        step.fresh.add(new, message)

    def _move(
        self,
        step: Step,
        timer: bytes,
        event: StoredEvent,
        message: bytes,
        due_ms: int,
        version: int,
    ) -> None:
        event_id = timer[keys.TIMER_ID_AT :]
        message = with_attempt(with_time(message, due_ms, version), 0)
        self._replace(step, timer, message, due_ms)
        if event.attempts:
            step.batch.delete(keys.retried(event.topic_id, event_id))
            event.begin_anew()
        if event.key:
            by_key = keys.by_key(event.topic_id, event.key, event_id)
            step.batch.put(by_key, keys.U64.pack(due_ms))
        event.due_ms, event.version = due_ms, version
        event.happened(step.stored_ms, Happening.RESCHEDULED)
        step.batch.put(keys.event(event_id), event.encode())

    def _begin(
        self, step: Step, timers: Sequence[bytes]
    ) -> list[tuple[bytes, StoredEvent]]:
        """Release the claims; gives those that are pending still, with their events."""
        ids = [timer[keys.TIMER_ID_AT :] for timer in timers]
        found = self._core.states.get_many(ids)
        pending: list[tuple[bytes, StoredEvent]] = []
        for timer, event_id, event in zip(timers, ids, found, strict=True):
            self._core.unclaim(event_id, step.released)
            if event is not None and event.pending:
                pending.append((timer, event))
        return pending


def cancel_records(operation_id: bytes, timers: Sequence[bytes]) -> list[bytes]:
    """The records that cancel these timers."""
    return records(RecordKind.BULK_CANCEL, operation_id, timers)


def move_records(operation_id: bytes, moves: Sequence[Move]) -> list[bytes]:
    """The records that give these timers other times."""
    rows = [MOVE.pack(*move) for move in moves]
    return records(RecordKind.BULK_RESCHEDULE, operation_id, rows)


def records(kind: int, operation_id: bytes, rows: Sequence[bytes]) -> list[bytes]:
    return [
        encode_record(
            kind, event_id=operation_id, body=b"".join(rows[at : at + ROW_COUNT])
        )
        for at in range(0, len(rows), ROW_COUNT)
    ]


def row_count(record: bytes) -> int:
    """How many timers a record of these kinds is about; 0 for one of another kind."""
    size = ROW_SIZES.get(record[4])
    return 0 if size is None else (len(record) - HEADER_SIZE) // size

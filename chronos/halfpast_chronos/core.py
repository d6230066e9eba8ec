"""The Delay Server's core: timers as a projection of the log, and what is due.

State changes in one way only: by `apply`, with records that are durable in the
log, in log order. Firing, cancelling and the like only *write* such records; until
one comes back, the timer is `claimed`, and nobody else may decide about it. So a
crash at any point leaves either the record in the log, or nothing.

    claim ──> record appended ──> durable ──> apply: state changes, claim released
       └────> refused (nothing was stored): release

Applying is idempotent, since the index may be behind what it was when the process
died. Synchronous and pure; `service.py` and the simulator drive it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from halfpast_core_store.broker import Append, FollowedFrame, Lane, Run
from halfpast_core_store.ports import Clock, Index, IndexBatch
from halfpast_core_store.record import (
    HEADER,
    HEADER_SIZE,
    Record,
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
    with_kind,
    with_time,
)
from halfpast_core_store.topics import SYS_FIRED

from . import keys
from .config import ChronosConfig
from .delay_server import EventState, Happening
from .event_state import StoredEvent, decode_event, encode_scheduled
from .horizon import Horizon
from .lateness import Lateness

READ_COUNT = 25
FIRED_COUNT = 100  # timers in one FIRED record, which is applied in one go


SCHEDULE = int(RecordKind.SCHEDULE)


@dataclass(slots=True)
class Firing:
    """Timers on their way into the log, and the request that brings them there."""

    keys: list[bytes]
    request: Append


class DelayCore:
    """All timers of one Delay Server."""

    def __init__(self, index: Index, clock: Clock, config: ChronosConfig) -> None:
        self.index = index
        self._clock = clock
        self._config = config
        self.horizon = Horizon(index, config, self.now_ms())
        self.position = int(keys.U64.unpack(index.get(keys.APPLIED) or bytes(8))[0])
        """Everything in the log before this has been applied."""
        self.claims: set[bytes] = set()
        """Ids of events, and family-U keys, that somebody is deciding about."""
        self.lateness = Lateness()
        self.measures = False
        """Whether firings that are applied are fresh, so that lateness counts."""
        self._forgotten = b"F"  # looking from here on skips what was deleted
        self.scheduled_count = 0
        self.fired_count = 0
        self.cancelled_count = 0

    def now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000

    # --- the projection -------------------------------------------------------

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
        batch = self.index.batch()
        fresh: list[bytes] = []
        for data in frame.records[start:stop]:
            if data[4] == SCHEDULE:
                self._apply_schedule(batch, data, frame.stored_ms, fresh, released)
                continue
            # The others read what has been written before, so write that now.
            batch = self._write(batch, fresh)
            self._apply_other(batch, data, frame.stored_ms, fresh, released)
            batch = self._write(batch, fresh)
        if stop >= len(frame.records):
            batch.put(keys.APPLIED, keys.U64.pack(frame.end))
            self.position = frame.end
        self._write(batch, fresh)
        return released

    def _apply_other(
        self,
        batch: IndexBatch,
        data: bytes,
        stored_ms: int,
        fresh: list[bytes],
        released: list[bytes],
    ) -> None:
        record = decode_record(data)
        if record.kind == RecordKind.FIRED:
            self._apply_fired(batch, record.body, stored_ms, released)
        elif record.kind == RecordKind.CANCEL:
            self._apply_cancel(batch, record, stored_ms, released)
        elif record.kind == RecordKind.RESCHEDULE:
            self._apply_move(batch, record, None, stored_ms, fresh, released)
        elif record.kind == RecordKind.REPLACE:
            self._apply_move(batch, record, data, stored_ms, fresh, released)

    def _write(self, batch: IndexBatch, fresh: list[bytes]) -> IndexBatch:
        self.index.write(batch)
        if fresh:
            self.horizon.add_many(fresh)
            fresh.clear()
        return self.index.batch()

    def _apply_schedule(
        self,
        batch: IndexBatch,
        data: bytes,
        stored_ms: int,
        fresh: list[bytes],
        released: list[bytes],
    ) -> None:
        head = HEADER.unpack_from(data)
        event_id = head[6]
        timer = keys.TIMER_KEY.pack(b"T", head[8], event_id)
        key = data[HEADER_SIZE : HEADER_SIZE + head[11]] if head[11] else b""
        batch.put(timer, data)
        batch.put(b"E" + event_id, encode_scheduled(head, key, stored_ms))
        fresh.append(timer)
        if key:
            batch.put(keys.by_key(head[4], key, event_id), keys.U64.pack(head[8]))
            if head[2] & RecordFlag.UPSERT:
                own = keys.own_key(head[4], key)
                batch.put(own, event_id)
                self._release(own, released)
        self.scheduled_count += 1

    def _apply_fired(
        self, batch: IndexBatch, body: bytes, stored_ms: int, released: list[bytes]
    ) -> None:
        size = keys.TIMER_SIZE
        fired = [body[at : at + size] for at in range(0, len(body), size)]
        ids = [key[9:] for key in fired]
        found = self.index.get_many([b"E" + event_id for event_id in ids])
        now_ns = self._clock.now_ns()
        for key, event_id, value in zip(fired, ids, found, strict=True):
            self.horizon.discard(key)
            batch.delete(key)
            self._release(event_id, released)
            if value is None:
                continue
            event = decode_event(value)
            if event.pending:
                event.finish(EventState.DELIVERED, stored_ms, Happening.DELIVERED)
                self._finish(batch, event_id, event)
                if self.measures:
                    late_ns = now_ns - keys.timer_due_ms(key) * 1_000_000
                    self.lateness.add(late_ns / 1_000_000)
        self.fired_count += len(fired)

    def _apply_cancel(
        self, batch: IndexBatch, record: Record, stored_ms: int, released: list[bytes]
    ) -> None:
        self._release(record.event_id, released)
        event = self.event(record.event_id)
        if event is None or not event.pending:
            return
        timer = keys.timer(event.due_ms, record.event_id)
        self.horizon.discard(timer)
        batch.delete(timer)
        event.finish(EventState.CANCELLED, stored_ms, Happening.CANCELLED)
        event.version += 1
        self._finish(batch, record.event_id, event)
        self.cancelled_count += 1

    def _apply_move(
        self,
        batch: IndexBatch,
        record: Record,
        replacement: bytes | None,
        stored_ms: int,
        fresh: list[bytes],
        released: list[bytes],
    ) -> None:
        """A timer gets another time, and with `replacement` another content."""
        event_id = record.event_id
        self._release(event_id, released)
        if replacement is not None:
            self._release(keys.own_key(record.topic_id, record.key), released)
        event = self.event(event_id)
        if event is None or not event.pending or event.version >= record.version:
            return
        old = keys.timer(event.due_ms, event_id)
        new = keys.timer(record.due_ms, event_id)
        data = replacement or self.index.get(old)
        assert data is not None, "a pending event has a timer"
        self.horizon.discard(old)
        batch.delete(old)
        data = with_kind(data, RecordKind.SCHEDULE)
        batch.put(new, with_time(data, record.due_ms, record.version))
        fresh.append(new)
        if event.key:
            by_key = keys.by_key(event.topic_id, event.key, event_id)
            batch.put(by_key, keys.U64.pack(record.due_ms))
        event.due_ms = record.due_ms
        event.version = record.version
        event.happened(stored_ms, happening_of(record))
        batch.put(keys.event(event_id), event.encode())

    def _finish(self, batch: IndexBatch, event_id: bytes, event: StoredEvent) -> None:
        batch.put(keys.event(event_id), event.encode())
        batch.put(keys.finished(event.finished_ms, event_id), b"")
        if event.key:
            batch.delete(keys.by_key(event.topic_id, event.key, event_id))

    def _release(self, claim: bytes, released: list[bytes]) -> None:
        if claim in self.claims:
            self.claims.discard(claim)
            released.append(claim)

    # --- firing ---------------------------------------------------------------

    def fire(self) -> Firing | None:
        """What is due now, as one atomic request; the timers are claimed.

        The caller appends it, and calls `refused` if nothing was stored.
        """
        due: list[bytes] = [
            key
            for key in self.horizon.due(self.now_ms(), self._config.fire_count)
            if key[9:] not in self.claims
        ]
        fired: list[bytes] = []
        queues: dict[tuple[int, int], list[bytes]] = {}
        size = 0
        for looked, (key, data) in enumerate(self._records(due)):
            if size >= self._config.fire_size:
                self.horizon.add_many(due[looked:])
                break
            if data is None:
                continue  # it was in the wheel when it went, and was dropped late
            head = HEADER.unpack_from(data)
            message = with_kind(data, RecordKind.NORMAL)
            queues.setdefault((head[4], head[14]), []).append(message)
            fired.append(key)
            size += len(data)
        if not fired:
            return None
        self.claims.update(key[9:] for key in fired)
        return Firing(fired, fire_request(queues, fired))

    def _records(self, timers: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        """Timers with their records, read a few at a time: one may be 4 MiB."""
        for at in range(0, len(timers), READ_COUNT):
            part = timers[at : at + READ_COUNT]
            yield from zip(part, self.index.get_many(part), strict=True)

    def refused(self, firing: Firing) -> None:
        """Nothing of this was stored: the timers are due again."""
        self.release(key[9:] for key in firing.keys)
        self.horizon.add_many(firing.keys)

    def release(self, claims: Iterable[bytes]) -> None:
        """Give up claims whose record was not stored."""
        for claim in claims:
            self.claims.discard(claim)

    def return_to_wheel(self, event_id: bytes) -> None:
        """A claim was given up: if the timer is pending still, it may fire."""
        event = self.event(event_id)
        if event is not None and event.pending:
            self.horizon.add(keys.timer(event.due_ms, event_id))

    # --- questions ------------------------------------------------------------

    def event(self, event_id: bytes) -> StoredEvent | None:
        """Where an event stands, or None if it is unknown or forgotten."""
        value = self.index.get(keys.event(event_id))
        return None if value is None else decode_event(value)

    def record_of(self, event_id: bytes, event: StoredEvent) -> bytes | None:
        """The message of a pending event."""
        if not event.pending:
            return None
        return self.index.get(keys.timer(event.due_ms, event_id))

    def own_event(self, topic_id: int, key: bytes) -> bytes | None:
        """The id of the event that was put under this key last."""
        return self.index.get(keys.own_key(topic_id, key))

    def counters(self) -> dict[str, float]:
        """Counts since the start, as the metrics show them."""
        return {
            "scheduled_total": self.scheduled_count,
            "fired_total": self.fired_count,
            "cancelled_total": self.cancelled_count,
            **self.lateness.metrics(),
        }

    def gauges(self) -> dict[str, float]:
        """The present state, as the metrics show it."""
        return {
            "timers_in_wheel": len(self.horizon),
            "timers_claimed": len(self.claims),
            "delay_applied_position": self.position,
            "lateness_ms_max": self.lateness.max_ms,
        }

    # --- upkeep ---------------------------------------------------------------

    def save_position(self) -> int:
        """Enter how far the log has been looked at, also where it had nothing for
        us: what lies before a flushed position may be deleted from the log."""
        batch = self.index.batch()
        batch.put(keys.APPLIED, keys.U64.pack(self.position))
        self.index.write(batch)
        return self.position

    def forget(self, limit: int) -> bool:
        """Delete up to `limit` finished events that are older than the history.

        True if there may be more.
        """
        until = keys.finished(max(0, self.now_ms() - self._config.history_ms), b"")
        found = self.index.scan(self._forgotten, until, limit)
        if not found:
            return False
        batch = self.index.batch()
        for key, _ in found:
            event_id = key[9:]
            event = self.event(event_id)
            if event is not None and event.upsert:
                own = keys.own_key(event.topic_id, event.key)
                if self.index.get(own) == event_id:
                    batch.delete(own)
            batch.delete(keys.event(event_id))
            batch.delete(key)
        self.index.write(batch)
        self._forgotten = found[-1][0]
        return len(found) == limit


def fire_request(
    queues: dict[tuple[int, int], list[bytes]], fired: list[bytes]
) -> Append:
    """Messages for their queues and the records that their timers have fired."""
    records = [
        encode_record(RecordKind.FIRED, body=b"".join(fired[at : at + FIRED_COUNT]))
        for at in range(0, len(fired), FIRED_COUNT)
    ]
    runs = [Run(topic, queue, some) for (topic, queue), some in queues.items()]
    runs.append(Run(SYS_FIRED, 0, records))
    due_max_ms = max(keys.timer_due_ms(key) for key in fired)
    return Append(runs, Lane.SYSTEM, due_max_ms=due_max_ms)


def timer_count(record: bytes) -> int:
    """How many timers a record is about: what it costs to apply."""
    if record[4] != RecordKind.FIRED:
        return 1
    return (len(record) - HEADER_SIZE) // keys.TIMER_SIZE


def happening_of(record: Record) -> Happening:
    """What a record that moves a timer adds to its time line."""
    if record.kind == RecordKind.REPLACE:
        return Happening.REPLACED
    if record.flags & RecordFlag.DELIVER_NOW:
        return Happening.PROMOTED
    return Happening.RESCHEDULED

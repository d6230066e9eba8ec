"""The Delay Server's core: timers as a projection of the log, and what is due.

State changes in one way only: by `apply`, with records that are durable in the
log, in log order. Firing, cancelling and the like only *write* such records; until
one comes back, the timer is `claimed`, and nobody else may decide about it. So a
crash at any point leaves either the record in the log, or nothing.

    claim ──> record appended ──> durable ──> apply: state changes, claim released
       └────> refused (nothing was stored): release

`projection.py` is the half that applies, this the half that decides what to write.
Synchronous and pure; `service.py` and the simulator drive both.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from halfpast_core_store.broker import Append, Lane, Run
from halfpast_core_store.errors import CoreError, RequestTooLarge
from halfpast_core_store.ports import Clock, Index
from halfpast_core_store.record import (
    HEADER,
    HEADER_SIZE,
    RecordKind,
    encode_record,
    with_kind,
)
from halfpast_core_store.topics import SYS_FIRED

from . import keys
from .config import ChronosConfig
from .event_state import StoredEvent
from .projection import TimerProjection

GAP = (
    "timers scheduled before this are unknown: the folder chronos/ is new, and the "
    "log does not reach back; restore it from a backup"
)
READ_COUNT = 25
FIRED_COUNT = 100  # timers in one FIRED record, which is applied in one go


@dataclass(slots=True)
class Firing:
    """Timers on their way into the log, and the request that brings them there."""

    keys: list[bytes]
    request: Append


class DelayCore(TimerProjection):
    """The timers, and what to do about them."""

    def __init__(self, index: Index, clock: Clock, config: ChronosConfig) -> None:
        super().__init__(index, clock, config)
        self._fire_size = config.fire_size
        self._forgotten = b"F"  # looking from here on skips what was deleted

    # --- firing ---------------------------------------------------------------

    def fire(self) -> Firing | None:
        """What is due now, as one atomic request; the timers are claimed.

        The caller appends it, and calls `refused` if nothing was stored.
        """
        due: list[bytes] = [
            key
            for key in self.horizon.due(self.now_ms(), self._config.fire_count)
            if key[keys.TIMER_ID_AT :] not in self.claims
        ]
        fired: list[bytes] = []
        queues: dict[tuple[int, int], list[bytes]] = {}
        size = 0
        for looked, (key, data) in enumerate(self._records(due)):
            if size >= self._fire_size:
                self.horizon.add_many(due[looked:])
                break
            if data is None:
                continue  # it was in the wheel when it went, and was dropped late
            head = HEADER.unpack_from(data)
            message = with_kind(data, RecordKind.NORMAL)
            queues.setdefault((head[4], head[14]), []).append(message)
            fired.append(key)
            self._fired[key[keys.TIMER_ID_AT :]] = (key, data)
            size += len(data)
        if not fired:
            return None
        self.claims.update(key[keys.TIMER_ID_AT :] for key in fired)
        return Firing(fired, fire_request(queues, fired))

    def _records(self, timers: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        """Timers with their records: those that the horizon kept, the others read a
        few at a time, since one may be 4 MiB."""
        take = self.horizon.take_record
        for at in range(0, len(timers), READ_COUNT):
            part = timers[at : at + READ_COUNT]
            records = [take(key) for key in part]
            missing = [i for i, record in enumerate(records) if record is None]
            if missing:
                found = self.index.get_many([part[i] for i in missing])
                for i, record in zip(missing, found, strict=True):
                    records[i] = record
            yield from zip(part, records, strict=True)

    def refused(self, firing: Firing, error: CoreError | None = None) -> None:
        """Nothing of this was stored: the timers are due again."""
        if isinstance(error, RequestTooLarge):  # the broker's frames are small
            self._fire_size = max(1, min(self._fire_size, error.size_max) // 2)
        self.release(key[keys.TIMER_ID_AT :] for key in firing.keys)
        for key in firing.keys:
            self._fired.pop(key[keys.TIMER_ID_AT :], None)
        self.horizon.add_many(firing.keys)

    def release(self, claims: Iterable[bytes]) -> None:
        """Give up claims whose record was not stored."""
        for claim in claims:
            self.claims.discard(claim)

    def return_to_wheel(self, event_id: bytes) -> None:
        """A claim was given up: if the timer is pending still, it may fire."""
        event = self.event(event_id)
        if event is not None and event.pending:
            self._fired.pop(event_id, None)
            self.horizon.add(keys.timer(event.topic_id, event.due_ms, event_id))

    # --- questions ------------------------------------------------------------

    def record_of(self, event_id: bytes, event: StoredEvent) -> bytes | None:
        """The message of a pending event."""
        if not event.pending:
            return None
        return self.index.get(keys.timer(event.topic_id, event.due_ms, event_id))

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
    entries = [keys.fired_entry(key) for key in fired]
    records = [
        encode_record(RecordKind.FIRED, body=b"".join(entries[at : at + FIRED_COUNT]))
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
    return (len(record) - HEADER_SIZE) // keys.FIRED_SIZE

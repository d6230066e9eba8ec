"""Where one event stands, as the index keeps it.

| state u8 | version u32 | due_ms u64 | created_ms u64 | finished_ms u64 |
| topic u32 | upsert u8 | happenings u8 | key_len u16 |
| (happening u8, at_ms u64) x happenings | key |            little-endian
"""

import struct
from dataclasses import dataclass, field

from halfpast_core_store.record import Record, RecordFlag

from .delay_server import Event, EventState, Happening

FIXED = struct.Struct("<BIQQQIBBH")
FRESH = struct.Struct("<BIQQQIBBHBQ")  # the same with one entry, and no key
FIRED = struct.Struct("<BIQQQIBBHBQBQ")  # and with two
ENTRY = struct.Struct("<BQ")
TIMELINE_MAX = 32
SCHEDULED = int(EventState.SCHEDULED)
DELIVERED = int(EventState.DELIVERED)
ACCEPTED = int(Happening.SCHEDULED)
ARRIVED = int(Happening.DELIVERED)


@dataclass(slots=True)
class StoredEvent:
    """An entry of family E. Times are epoch ms."""

    state: int
    version: int
    due_ms: int
    created_ms: int
    topic_id: int
    key: bytes = b""
    upsert: bool = False
    finished_ms: int = 0
    timeline: list[tuple[int, int]] = field(default_factory=lambda: [])

    @classmethod
    def scheduled(cls, record: Record) -> "StoredEvent":
        """A timer that has just been accepted."""
        return cls(
            EventState.SCHEDULED,
            record.version or 1,
            record.due_ms,
            record.born_ms,
            record.topic_id,
            record.key,
            bool(record.flags & RecordFlag.UPSERT),
            0,
            [(record.born_ms, Happening.SCHEDULED)],
        )

    @property
    def pending(self) -> bool:
        return self.state == EventState.SCHEDULED

    def happened(self, at_ms: int, what: int) -> None:
        """Add to the time line. A long one loses its middle, not its beginning."""
        if len(self.timeline) >= TIMELINE_MAX:
            del self.timeline[TIMELINE_MAX // 2]
        self.timeline.append((at_ms, what))

    def finish(self, state: EventState, at_ms: int, what: Happening) -> None:
        self.state = state
        self.finished_ms = at_ms
        self.happened(at_ms, what)

    def encode(self) -> bytes:
        return b"".join(
            (
                FIXED.pack(
                    self.state,
                    self.version,
                    self.due_ms,
                    self.created_ms,
                    self.finished_ms,
                    self.topic_id,
                    self.upsert,
                    len(self.timeline),
                    len(self.key),
                ),
                *(ENTRY.pack(what, at_ms) for at_ms, what in self.timeline),
                self.key,
            )
        )

    def public(self, event_id: bytes, record: bytes | None) -> Event:
        """As the Delay Server shows it."""
        delivered = self.state == EventState.DELIVERED
        return Event(
            event_id,
            self.topic_id,
            self.state,
            self.version,
            self.due_ms,
            self.created_ms,
            self.finished_ms,
            max(0, self.finished_ms - self.due_ms) if delivered else 0,
            self.key,
            record,
            list(self.timeline),
        )


def decode_event(data: bytes) -> StoredEvent:
    """An entry of family E."""
    state, version, due_ms, created_ms, finished_ms, topic_id, upsert, count, size = (
        FIXED.unpack_from(data)
    )
    end = FIXED.size + ENTRY.size * count
    timeline = [(at, what) for what, at in ENTRY.iter_unpack(data[FIXED.size : end])]
    return StoredEvent(
        state,
        version,
        due_ms,
        created_ms,
        topic_id,
        data[end : end + size],
        bool(upsert),
        finished_ms,
        timeline,
    )


def encode_scheduled(head: tuple[int, ...], key: bytes) -> bytes:
    """What `StoredEvent.scheduled(...).encode()` gives, without the objects.

    `head` is the record's unpacked header.
    """
    fresh = FRESH.pack(
        SCHEDULED,
        head[10] or 1,
        head[8],
        head[7],
        0,
        head[4],
        1 if head[2] & RecordFlag.UPSERT else 0,
        1,
        len(key),
        ACCEPTED,
        head[7],
    )
    return fresh + key if key else fresh


def encode_delivered(head: tuple[int, ...], key: bytes, stored_ms: int) -> bytes:
    """The same for a timer that fired and had never been changed."""
    fired = FIRED.pack(
        DELIVERED,
        head[10] or 1,
        head[8],
        head[7],
        stored_ms,
        head[4],
        1 if head[2] & RecordFlag.UPSERT else 0,
        2,
        len(key),
        ACCEPTED,
        head[7],
        ARRIVED,
        stored_ms,
    )
    return fired + key if key else fired

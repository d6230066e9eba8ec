"""Where one event stands, as the index keeps it.

| state u8 | version u32 | due_ms u64 | created_ms u64 | finished_ms u64 |
| topic u32 | upsert u8 | happenings u8 | key_len u16 |
| (happening u8, at_ms u64) x happenings | key |            little-endian

and behind the key, if it was not taken: | attempts u16 | retry_ms u64 | reason |
"""

import struct
from dataclasses import dataclass, field

from halfpast_core_store.record import RecordFlag

from .delay_server import Event, EventState, Happening

FIXED = struct.Struct("<BIQQQIBBH")
FIRED = struct.Struct("<BIQQQIBBHBQBQ")  # the same with two entries, and no key
ENTRY = struct.Struct("<BQ")
FAILURE = struct.Struct("<HQ")
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
    attempts: int = 0
    """How often its topic has not taken it since it was due."""
    retry_ms: int = 0
    """When it is tried again; 0 unless that is what it waits for."""
    reason: str = ""
    """Why it was not taken the last time."""

    @classmethod
    def scheduled(cls, head: tuple[int, ...], key: bytes) -> "StoredEvent":
        """A timer to which nothing has happened. `head` is its record's header."""
        return cls(
            SCHEDULED,
            head[10] or 1,
            head[8],
            head[7],
            head[4],
            key,
            bool(head[2] & RecordFlag.UPSERT),
            0,
            [(head[7], ACCEPTED)],
        )

    @property
    def pending(self) -> bool:
        return self.state == EventState.SCHEDULED

    @property
    def open(self) -> bool:
        """Whether something may still become of it."""
        return self.state in (EventState.SCHEDULED, EventState.DEAD)

    @property
    def timer_ms(self) -> int:
        """When its timer is due: at its due time, or later if that failed."""
        return self.retry_ms or self.due_ms

    def begin_anew(self) -> None:
        """It gets another time, and with that all its attempts."""
        self.attempts = self.retry_ms = 0
        self.reason = ""

    def happened(self, at_ms: int, what: int) -> None:
        """Add to the time line. A long one loses its middle, not its beginning."""
        if len(self.timeline) >= TIMELINE_MAX:
            del self.timeline[TIMELINE_MAX // 2]
        self.timeline.append((at_ms, what))

    def finish(self, state: EventState, at_ms: int, what: Happening) -> None:
        self.state = state
        self.finished_ms = at_ms
        self.retry_ms = 0
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
                self._failure(),
            )
        )

    def _failure(self) -> bytes:
        if not self.attempts:
            return b""
        return FAILURE.pack(self.attempts, self.retry_ms) + self.reason.encode()

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
            self.attempts,
            self.retry_ms,
            self.reason,
        )


def decode_event(data: bytes) -> StoredEvent:
    """An entry of family E."""
    state, version, due_ms, created_ms, finished_ms, topic_id, upsert, count, size = (
        FIXED.unpack_from(data)
    )
    end = FIXED.size + ENTRY.size * count
    timeline = [(at, what) for what, at in ENTRY.iter_unpack(data[FIXED.size : end])]
    attempts, retry_ms, reason = 0, 0, ""
    if len(data) > end + size:
        attempts, retry_ms = FAILURE.unpack_from(data, end + size)
        reason = data[end + size + FAILURE.size :].decode()
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
        attempts,
        retry_ms,
        reason,
    )


def encode_delivered(head: tuple[int, ...], key: bytes, stored_ms: int) -> bytes:
    """What `StoredEvent.encode()` gives for a timer that fired and had never been
    changed, without the objects. `head` is the record's unpacked header."""
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


def encode_changed(
    head: tuple[int, ...],
    key: bytes,
    state: EventState,
    due_ms: int,
    what: Happening,
    at_ms: int,
) -> bytes:
    """The same for a timer of which this is the first change: cancelled or moved."""
    changed = FIRED.pack(
        state,
        (head[10] or 1) + 1,
        due_ms,
        head[7],
        0 if state == SCHEDULED else at_ms,
        head[4],
        1 if head[2] & RecordFlag.UPSERT else 0,
        2,
        len(key),
        ACCEPTED,
        head[7],
        what,
        at_ms,
    )
    return changed + key if key else changed

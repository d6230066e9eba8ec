"""Idempotency keys: the same request twice is stored once and answered alike.

A DEDUP record goes into the same frame as the messages it stands for. The answer
to a request is a function of the request, its first event id and the time it was
accepted, so only those two are kept:

    key 16 bytes | fingerprint 16 bytes | base id 16 bytes | accepted_ns u64
"""

import struct
from collections.abc import Sequence

from .broker import Dedup
from .errors import IdempotencyConflict
from .ports import Index, IndexBatch
from .record import RecordKind, decode_record, encode_record

BODY = struct.Struct("<16s16s16sQ")


class DedupTable:
    """Idempotency keys within their window, durable ones only."""

    def __init__(self, index: Index, window_ms: int) -> None:
        self._index = index
        self._window_ns = window_ms * 1_000_000

    def find(self, asked: Dedup) -> Dedup | None:
        """The earlier use of this key. Raises IdempotencyConflict if that was for
        another request."""
        value = self._index.get(b"D" + asked.key)
        if value is None:
            return None
        found = Dedup(*BODY.unpack(value))
        if self.expired(found, asked.accepted_ns):
            return None
        return same_request(found, asked)

    def expired(self, found: Dedup, now_ns: int) -> bool:
        return found.accepted_ns < now_ns - self._window_ns

    def apply(self, batch: IndexBatch, records: Sequence[bytes]) -> None:
        """Enter durable records of SYS_DEDUP."""
        for data in records:
            body = decode_record(data).body
            batch.put(b"D" + body[:16], body)

    def purge(self, start: bytes, now_ns: int, limit: int) -> tuple[bytes, bool]:
        """Delete keys past their window, looking at `limit` of them. Gives the key
        to go on from, empty at the end, and whether many of them were past it."""
        found = self._index.scan(start or b"D", b"E", limit)
        batch = self._index.batch()
        past = [
            key
            for key, value in found
            if self.expired(Dedup(*BODY.unpack(value)), now_ns)
        ]
        for key in past:
            batch.delete(key)
        self._index.write(batch)
        return found[-1][0] if len(found) == limit else b"", 2 * len(past) > limit


def same_request(found: Dedup, asked: Dedup) -> Dedup:
    """`found`, unless it was another request under the same key."""
    if found.fingerprint != asked.fingerprint:
        raise IdempotencyConflict()
    return found


def dedup_record(dedup: Dedup) -> bytes:
    """The record that remembers a key."""
    return encode_record(
        RecordKind.DEDUP,
        event_id=dedup.base_id,
        born_ms=dedup.accepted_ns // 1_000_000,
        body=BODY.pack(dedup.key, dedup.fingerprint, dedup.base_id, dedup.accepted_ns),
    )

"""The W3C trace context of a message, which travels in its properties.

    traceparent   00-<trace id, 32 hex>-<span id, 16 hex>-<flags, 2 hex>
    tracestate    what vendors add, handed on as it came

The names are those of the CloudEvents extension for distributed tracing too. Whatever
is between a message's publication and its delivery may take months, so spans are not
nested over it: each is linked to the one before. The span of a firing has ids that
follow from the event's, so that a consumer can link to it and nothing is written for
it; its trace has the event's own id.
"""

from hashlib import blake2b
from typing import NamedTuple

import msgspec

from halfpast_core_store.record import HEADER, HEADER_SIZE

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
_MARK = TRACEPARENT.encode()
_HEX = frozenset("0123456789abcdef")
_SIZE = 55
_decode = msgspec.msgpack.Decoder(dict[str, str]).decode


class TraceContext(NamedTuple):
    """A span that is known by its ids."""

    trace_id: int
    span_id: int
    is_sampled: bool

    @property
    def traceparent(self) -> str:
        """As the property or header has it."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


def read_traceparent(text: str) -> TraceContext | None:
    """None for what is none, or of a version that may look different."""
    parts = text.split("-")
    if len(text) != _SIZE or [*map(len, parts)] != [2, 32, 16, 2]:
        return None
    if parts[0] != "00" or not _HEX.issuperset("".join(parts)):
        return None
    trace_id, span_id, flags = (int(it, 16) for it in parts[1:])
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, bool(flags & 1))


def firing_of(event_id: bytes, *, is_sampled: bool) -> TraceContext:
    """The span of the firing of this event."""
    return of_object(event_id, b"fire", is_sampled=is_sampled)


def of_object(object_id: bytes, what: bytes, *, is_sampled: bool) -> TraceContext:
    """A span that follows from the id of 16 bytes of what it is about."""
    span_id = blake2b(object_id, digest_size=8, person=what).digest()
    return TraceContext(
        int.from_bytes(object_id, "big"), int.from_bytes(span_id, "big"), is_sampled
    )


def packed_properties(record: bytes) -> bytes:
    """The properties of a record, as they are stored."""
    header = HEADER.unpack_from(record)
    at = HEADER_SIZE + header[11] + header[12]
    return record[at : at + header[13]]


def context_in(packed: bytes) -> TraceContext | None:
    """What stored properties say; None for nothing. Quick where that is so."""
    if _MARK not in packed:
        return None
    return read_traceparent(_decode(packed).get(TRACEPARENT, ""))

"""The trace of the request that is just being answered, for those who store events.

Without tracing it is empty, and nothing is done about it.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

import msgspec

from halfpast_core_store.record import PROPERTIES_SIZE_MAX

REQUEST_TRACE: Final[ContextVar[bytes]] = ContextVar("halfpast_trace", default=b"")
"""Properties as they are stored: a MessagePack map, or nothing."""

_MARK: Final = b"traceparent"
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(dict[str, str]).decode


def packed_trace(values: Mapping[str, str]) -> bytes:
    """What `REQUEST_TRACE` holds for these."""
    return _pack(dict(values)) if values else b""


def with_trace(properties: bytes, trace: bytes) -> bytes:
    """The properties of an event with the request's trace in them; an event that brings
    its own, or has no room, keeps what it has."""
    if not properties:
        return trace
    values = _unpack(properties)
    if _MARK in properties and _MARK.decode() in values:
        return properties
    packed = _pack({**values, **_unpack(trace)})
    return packed if len(packed) <= PROPERTIES_SIZE_MAX else properties

"""A message that a push process holds, between its pop and its end."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import msgspec

from halfpast_api.push.lines import LineKey
from halfpast_core_store.broker import Delivered
from halfpast_core_store.record import Record, decode_record

_properties: Final = msgspec.msgpack.Decoder(dict[str, str])


@dataclass(slots=True, eq=False)
class Held:
    """`line` is None where order does not matter. `receipt` changes with each
    extension, `settling` once its end is being told to the broker."""

    topic: str
    queue: int
    offset: int
    attempt: int
    stored_ms: int
    record: Record
    receipt: bytes
    hidden_until_ms: int
    line: LineKey | None = None
    size: int = 0
    settling: bool = False
    extending: "asyncio.Future[None] | None" = field(default=None, repr=False)

    @property
    def properties(self) -> dict[str, str]:
        packed = self.record.properties
        return _properties.decode(packed) if packed else {}


def hold(
    delivered: Delivered, topic: str, hidden_until_ms: int, *, ordered: bool
) -> Held:
    """What a pop gave, held."""
    record = decode_record(delivered.record)
    line = (topic, delivered.queue, record.key) if ordered and record.key else None
    return Held(
        topic=topic,
        queue=delivered.queue,
        offset=delivered.offset,
        attempt=delivered.attempt,
        stored_ms=delivered.stored_ms,
        record=record,
        receipt=delivered.receipt,
        hidden_until_ms=hidden_until_ms,
        line=line,
        size=len(delivered.record),
    )

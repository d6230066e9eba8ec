"""Events of a request become records for the log.

A pure function of the events, their topics and a seed: the first event id and the
time of acceptance. A request that is repeated under its idempotency key gets the
first seed back, and so the first answer.

`EventEncoder.add` sees every published event and costs about half a microsecond;
the rare cases are in functions of `payload` and `due_time`.
"""

import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from halfpast_api.config import ID_BLOCK_SIZE
from halfpast_api.due_time import due_ms
from halfpast_api.event_body import EventBody
from halfpast_api.event_id import id_text
from halfpast_api.payload import (
    data_bytes,
    event_too_large,
    properties_bytes,
    tag_bytes,
    too_long,
)
from halfpast_api.reading import Format
from halfpast_api.times import NS_PER_MS, due_ms_of
from halfpast_api.topic_directory import Topic
from halfpast_api.tracing.request_trace import REQUEST_TRACE, with_trace
from halfpast_core_store.broker import Run
from halfpast_core_store.record import (
    HEADER,
    HEADER_SIZE,
    KEY_SIZE_MAX,
    RecordFlag,
    RecordKind,
    tag_hash,
)
from halfpast_core_store.topics import SYS_SCHEDULE

REFUSED: Final = -1

_pack = HEADER.pack
# The same header in parts: the length, all up to the last bytes of the id, those, when
# it was born and is due, and the rest. Most events of a request differ in few of them.
_PARTS: Final = struct.Struct("<I26s2sQQ16s")
assert _PARTS.size == HEADER_SIZE
_pack_parts = _PARTS.pack
_join = b"".join
_crc32 = zlib.crc32
_NORMAL: Final = int(RecordKind.NORMAL)
_SCHEDULE: Final = int(RecordKind.SCHEDULE)
_JSON: Final = int(RecordFlag.JSON)
# The end of the n-th id of a block, as bytes and as text.
TAILS: Final = tuple(n.to_bytes(2, "big") for n in range(ID_BLOCK_SIZE))
_FIRST: Final = TAILS[0]
_TEXT_TAILS: Final = tuple(f"{n:04x}" for n in range(ID_BLOCK_SIZE))

Row = tuple[Any, ...]  # the fields of an EventBody, then the name of its topic


class Seed(NamedTuple):
    """What a request's answer depends on, beside the request.

    The last 16 bits of `base_id` are zero; the n-th event's id is `base_id + n`.
    """

    base_id: bytes
    accepted_ns: int

    @classmethod
    def fresh(cls, new_id: Callable[[], bytes], now_ns: int) -> "Seed":
        """`new_id` makes UUIDv7s."""
        return cls(new_id()[:14] + b"\0\0", now_ns)

    def id_texts(self) -> Iterable[str]:
        """The ids of the block as texts, in order and without end checks."""
        prefix = id_text(self.base_id)[:-4]
        return (prefix + tail for tail in _TEXT_TAILS)


@dataclass(slots=True)
class Encoded:
    """Records by queue, and of each event the due time: 0 for one that is delivered
    at once, REFUSED for one that is not stored at all."""

    runs: list[Run] = field(default_factory=list[Run])
    dues_ms: list[int] = field(default_factory=list[int])
    refusals: dict[int, Exception] = field(default_factory=dict[int, Exception])


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is known to be wrong before anything is encoded: with topics, by name,
    and with events, by index."""

    topics: Mapping[str, Exception] = field(default_factory=dict[str, Exception])
    events: Mapping[int, Exception] = field(default_factory=dict[int, Exception])


NOTHING_WRONG: Final = Wrong()


def row_of(event: EventBody, topic: str) -> Row:
    """One event that has its topic from elsewhere, as the encoder wants it."""
    return (*msgspec.structs.astuple(event), topic)


def encode_events(
    rows: Iterable[Row | None],
    topics: Mapping[str, Topic],
    seed: Seed,
    form: Format,
    wrong: Wrong = NOTHING_WRONG,
) -> Encoded:
    """Encode at most ID_BLOCK_SIZE events. Refusals are gathered, not raised.

    `wrong` tells what to say of the rows that are None and of the names that are
    not in `topics`.
    """
    encoded = Encoded()
    scheduled: list[bytes] = []
    encoders = encode_rows(
        zip(rows, TAILS, strict=False),
        lambda topic: EventEncoder(topic, seed, form, scheduled),
        encoded,
        topics,
        wrong,
    )
    for encoder in encoders:
        encoded.runs += encoder.runs()
    if scheduled:
        encoded.runs.append(Run(SYS_SCHEDULE, 0, scheduled))
    return encoded


def encode_rows(
    rows: Iterable[tuple[Row | None, bytes]],
    encoder_for: "Callable[[Topic], EventEncoder]",
    encoded: Encoded,
    topics: Mapping[str, Topic],
    wrong: Wrong,
) -> "Collection[EventEncoder]":
    """Encode rows, each with the end of its id, by one encoder for each topic.

    Their due times and refusals go to `encoded`, their records stay with the
    encoders, which are given back.
    """
    dues_ms = encoded.dues_ms
    add_due = dues_ms.append
    encoders: dict[str, EventEncoder] = {}
    last, encoder = "", None
    for row, tail in rows:
        try:
            if row is None:
                raise wrong.events[len(dues_ms)]
            name = row[-1]
            if encoder is None or name != last:
                if (encoder := encoders.get(name)) is None:
                    if (topic := topics.get(name)) is None:
                        raise wrong.topics[name]
                    encoder = encoders[name] = encoder_for(topic)
                last = name
            add_due(encoder.add(row, tail))
        except Exception as error:
            encoded.refusals[len(dues_ms)] = error
            add_due(REFUSED)
    return encoders.values()


class EventEncoder:
    """Encodes the events of one request that go to one topic.

    Scheduled ones are appended to `scheduled`, those for now come from `runs`.
    `flags` are set in every record.
    """

    __slots__ = (
        "_accepted_ns",
        "_born_ms",
        "_flags",
        "_form",
        "_id_prefix",
        "_is_json",
        "_now_ms",
        "_plain",
        "_runs",
        "_schedule",
        "_sticky",
        "_topic",
        "_trace",
    )

    def __init__(
        self,
        topic: Topic,
        seed: Seed,
        form: Format,
        scheduled: list[bytes],
        flags: int = 0,
    ) -> None:
        self._topic = topic
        self._id_prefix = seed.base_id[:14]
        self._accepted_ns = seed.accepted_ns
        self._born_ms = seed.accepted_ns // NS_PER_MS
        self._now_ms = due_ms_of(seed.accepted_ns)
        self._form = form
        self._is_json = form is Format.JSON
        self._flags = flags
        self._schedule = scheduled.append
        self._sticky = topic.next_queue()
        self._runs: dict[int, list[bytes]] = {}
        self._plain: dict[int, list[tuple[bytes, bytes]]] = {}
        self._trace = REQUEST_TRACE.get()

    def runs(self) -> list[Run]:
        """The records for now, by queue."""
        return [Run(self._topic.id, queue, them) for queue, them in self._runs.items()]

    def add(self, row: Row, tail: bytes) -> int:
        """Encode one event, whose id ends in `tail`. Gives its due time, 0 for now.

        Raises Refusal.
        """
        data, base64, key, tag, properties, deliver_at, delay, delay_ms, _ = row
        topic = self._topic
        if self._is_json and base64 is None and data is not UNSET:
            body, flags = bytes(data), _JSON
        else:
            body, flags = data_bytes(data, base64, self._form)
        if len(body) > topic.max_body_bytes:
            raise event_too_large(len(body), topic.max_body_bytes)
        if key:
            key = key.encode()
            if len(key) > KEY_SIZE_MAX:
                raise too_long("key", len(key), KEY_SIZE_MAX)
            queue = _crc32(key) % topic.queue_count
        else:
            key, queue = b"", self._sticky
        tag = tag_bytes(tag) if tag else b""
        if properties is UNSET:
            properties = self._trace
        else:
            properties = properties_bytes(properties, self._form)
            if self._trace:
                properties = with_trace(properties, self._trace)
        max_delay_ms = topic.max_delay_ms
        if (
            delay_ms is not None
            and 0 <= delay_ms <= max_delay_ms
            and delay is None
            and deliver_at is None
        ):
            due: int = self._now_ms + delay_ms  # nearly all of a large batch
        else:
            due = due_ms(deliver_at, delay, delay_ms, self._accepted_ns, max_delay_ms)
        if tail != _FIRST and not (key or tag or properties):
            plain = self._plain.get(flags) or self._plain_parts(flags)
            before, behind = plain[due > 0]
            record = (
                _pack_parts(
                    HEADER_SIZE + len(body),
                    before,
                    tail,
                    self._born_ms,
                    due,
                    behind,
                )
                + body
            )
        else:
            record = self._record((key, tag, properties, body), flags, tail, due, queue)
        if due:
            self._schedule(record)
        else:
            self._runs.setdefault(queue, []).append(record)
        return due

    def _plain_parts(self, flags: int) -> list[tuple[bytes, bytes]]:
        """Of headers of events without key, tag and properties: what is before and
        behind that which differs; of those for now, and of scheduled ones."""
        heads = [
            _pack(
                *(0, kind, flags | self._flags, 0, self._topic.id, 0),
                *(self._id_prefix + _FIRST, 0, 0, 0, 0, 0, 0, 0, self._sticky),
            )
            for kind in (_NORMAL, _SCHEDULE)
        ]
        self._plain[flags] = [(head[4:30], head[48:]) for head in heads]
        return self._plain[flags]

    def _record(
        self,
        parts: tuple[bytes, bytes, bytes, bytes],
        flags: int,
        tail: bytes,
        due: int,
        queue: int,
    ) -> bytes:
        """Any event: its key, tag, properties and body behind the header."""
        key, tag, properties, body = parts
        return _join(
            (
                _pack(
                    HEADER_SIZE + len(key) + len(tag) + len(properties) + len(body),
                    _SCHEDULE if due else _NORMAL,
                    flags | self._flags,
                    0,
                    self._topic.id,
                    0,
                    self._id_prefix + tail,
                    self._born_ms,
                    due,
                    tag_hash(tag) if tag else 0,
                    0,
                    len(key),
                    len(tag),
                    len(properties),
                    queue,
                ),
                *parts,
            )
        )

"""A line becomes an event as the server takes it, or a Refusal that says why not.

What the server checks without knowing its topics is checked here by the same code,
so nothing of that kind is found only when half of a file has been sent.
"""

import time
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.config import BodyLimits
from halfpast_api.encoding import TAILS, EventEncoder, Seed
from halfpast_api.event_body import BatchEventBody, EventBody
from halfpast_api.metadata.settings import DELAY_MS_MAX
from halfpast_api.names import check_topic_to_write
from halfpast_api.problems import refuse_field
from halfpast_api.reading import Format, Reader
from halfpast_api.strictness import DATA
from halfpast_api.topic_directory import Topic
from halfpast_core_store.record import BODY_SIZE_MAX

_LEVELS_AROUND: Final = 2  # a batch is an object with a list of events
_NAMES_MAX: Final = 10_000
_ID: Final = bytes(16)
_encode: Final = msgspec.json.Encoder().encode


class LineBody(EventBody, kw_only=True, gc=False):
    """One event of a batch. The topic may be missing, and there may be more: the
    `id` of an exported event and why a former import `refused` it count for nothing.
    """

    topic: str | None = None
    id: Raw | UnsetType = UNSET
    refused: Raw | UnsetType = UNSET


class EventLines:
    """Reads lines. Events without a topic get the `default_topic`.

    Raises Refusal if no topic can have that name.
    """

    def __init__(self, default_topic: str | None) -> None:
        self._default_topic = default_topic
        self._names: set[str] = set()
        depth_max = BodyLimits().depth_max - _LEVELS_AROUND
        self._reader = Reader(LineBody, depth_max, DATA | {"refused"})
        self._topic = Topic(
            name="",
            id=0,
            queue_count=1,
            max_delay_ms=DELAY_MS_MAX,
            max_body_bytes=BODY_SIZE_MAX,
            is_durable=True,
            stale_at_s=0.0,
        )
        if default_topic is not None:
            check_topic_to_write(default_topic)

    def read(self, raw: bytes) -> bytes:
        """The event as JSON, its data as it came, to the byte. Raises Refusal."""
        body = self._reader.read(raw, Format.JSON)
        topic = body.topic or self._default_topic
        if topic is None:
            raise refuse_field(
                "missing_field", "/topic", '"topic" must be given, or --topic for all'
            )
        if topic not in self._names:
            check_topic_to_write(topic)
            if len(self._names) < _NAMES_MAX:
                self._names.add(topic)
        fields = msgspec.structs.astuple(body)[:8]
        seed = Seed(_ID, time.time_ns())
        EventEncoder(self._topic, seed, Format.JSON, []).add((*fields, topic), TAILS[0])
        if body.topic and body.id is UNSET and body.refused is UNSET:
            return raw
        return _encode(
            BatchEventBody(
                topic=topic,
                data=body.data,
                data_base64=body.data_base64,
                key=body.key,
                tag=body.tag,
                properties=body.properties,
                deliver_at=body.deliver_at,
                delay=body.delay,
                delay_ms=body.delay_ms,
            )
        )

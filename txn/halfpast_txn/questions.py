"""Check-backs as their takers see them: built when they are taken."""

import asyncio

import msgspec

from halfpast_core_store.broker import Broker, TopicNames
from halfpast_core_store.record import (
    HEADER,
    HEADER_SIZE,
    RecordFlag,
    decode_record,
)

from .check_desk import Question
from .core import TransactionCore
from .transactions import Check, CheckMessage, MessageHead

decode_properties = msgspec.msgpack.Decoder(dict[str, str]).decode
MESSAGES_MAX = 20
SLICE_COUNT = 10
TOPICS_MAX = 10_000  # whose names are kept
AFTER_COMMIT = RecordFlag.AFTER_COMMIT
TRACE_PROPERTY = "traceparent"  # of the W3C; see `halfpast_api.tracing`


class Questions:
    """Turns questions into what a producer needs to answer them."""

    def __init__(self, core: TransactionCore, broker: Broker) -> None:
        self._core = core
        self._broker = broker
        self._topics: dict[int, str] = {}

    async def build(
        self, asked: list[Question], *, with_first: bool = False
    ) -> list[Check]:
        """Those that still want an answer. Raises what the broker raises."""
        found: list[tuple[Check, list[MessageHead]]] = []
        for place, (transaction_id, number) in enumerate(asked, 1):
            if place % SLICE_COUNT == 0:
                await asyncio.sleep(0)
            status = self._core.still_asked(transaction_id, number)
            if status is None:
                continue
            count = min(status.message_count, MESSAGES_MAX)
            halves = self._core.halves(transaction_id, count)
            heads = [*map(head_of, halves)]
            check = Check(
                transaction_id,
                status.group,
                number,
                status.begun_ms,
                status.reference,
                status.message_count,
                [],
                halves[0] if with_first else b"",
            )
            found.append((check, heads))
        names = await self._names({h.topic_id for _, heads in found for h in heads})
        for check, heads in found:
            check.messages = [message_of(head, names) for head in heads]
        return [check for check, _ in found]

    async def _names(self, topic_ids: set[int]) -> dict[int, str]:
        """Names of topics; of one that does not exist any more, none."""
        names = {one: self._topics[one] for one in topic_ids if one in self._topics}
        unknown = sorted(topic_ids - names.keys())
        if unknown:
            resolved = await self._broker.topics_by_id(TopicNames(unknown))
            new = {topic.id: topic.name for topic in resolved.topics if topic}
            if len(self._topics) + len(new) > TOPICS_MAX:
                self._topics = {}
            self._topics |= new
            names |= new
        return names


def message_of(head: MessageHead, names: dict[int, str]) -> CheckMessage:
    """A message as a check-back tells of it."""
    return CheckMessage(
        head.event_id,
        names.get(head.topic_id, ""),
        head.key.decode(errors="replace"),
        head.tag.decode(errors="replace"),
        head.trace,
    )


def head_of(half: bytes) -> MessageHead:
    """A HALF record without its body, which is not even copied."""
    header = HEADER.unpack_from(half)
    body_at = HEADER_SIZE + header[11] + header[12] + header[13]
    record = decode_record(half[:body_at])
    delayed = record.flags & AFTER_COMMIT
    return MessageHead(
        record.event_id,
        record.topic_id,
        record.key,
        record.tag,
        len(half) - body_at,
        due_ms=0 if delayed else record.due_ms,
        delay_ms=record.due_ms if delayed else 0,
        trace=trace_in(record.properties),
    )


def trace_in(properties: bytes) -> str:
    """The trace that a message brought along, empty for none."""
    if TRACE_PROPERTY.encode() not in properties:
        return ""
    return decode_properties(properties).get(TRACE_PROPERTY, "")

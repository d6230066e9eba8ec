"""What a consumer group has in flight on a topic, and under which keys."""

from halfpast_core_store.broker import Broker, Pull
from halfpast_core_store.errors import CorruptLog, OffsetOutOfRange, UnknownTopic
from halfpast_core_store.group_standing import DescribeGroup
from halfpast_core_store.in_flight import InFlight
from halfpast_core_store.record import decode_record

PAGE_SIZE = 1_000


async def list_in_flight(broker: Broker, group: str, topic: str) -> list[InFlight]:
    """All of it, by queue and offset; nothing on a topic that does not exist yet."""
    found: list[InFlight] = []
    after = (-1, -1)
    while True:
        try:
            described = await broker.describe_group(
                DescribeGroup(group, topic, PAGE_SIZE, after)
            )
        except UnknownTopic:
            return []
        found += described.messages
        if len(described.messages) < PAGE_SIZE:
            return found
        after = found[-1].queue, found[-1].offset


async def key_of(broker: Broker, topic: str, place: InFlight) -> bytes:
    """The key of a message; empty if it has none, or is not kept any more."""
    try:
        pulled = await broker.pull(Pull(topic, place.queue, place.offset, 1, 0, 1))
    except (OffsetOutOfRange, CorruptLog):
        return b""
    if not pulled.messages or pulled.messages[0].offset != place.offset:
        return b""
    return decode_record(pulled.messages[0].record).key

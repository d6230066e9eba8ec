"""Dead letters of a consumer group: reading those that nobody has dealt with.

They lie in a topic of the group's own, in the order in which they died. Where the group
stands on that topic tells which of them have been redriven or discarded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from halfpast_core_store.broker import Broker, Delivered, Pull
from halfpast_core_store.dead_letter import DeadLetter, read_dead_letter
from halfpast_core_store.errors import CorruptLog, OffsetOutOfRange, UnknownTopic
from halfpast_core_store.group_standing import DescribeGroup, GroupDescription
from halfpast_core_store.groups import contiguous
from halfpast_core_store.record import Record, decode_record
from halfpast_core_store.topics import dead_letter_topic

PULL_MAX: Final = 1_000
PULL_SIZE_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessage:
    """`number` is its place among the dead letters of the group; `properties` are those
    that it had when it lived."""

    number: int
    dead_ms: int
    record: Record
    dead: DeadLetter
    properties: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadPage:
    """Some dead letters. `next_number` is where to go on, None at the end."""

    messages: Sequence[DeadMessage]
    next_number: int | None


async def count_dead(broker: Broker, group: str) -> int:
    """How many dead letters of the group nobody has dealt with."""
    described = await _describe(broker, group, 0, 0)
    if described is None:
        return 0
    queue = described.queues[0]
    return queue.offset_max - queue.offset + described.in_flight


async def read_dead(broker: Broker, group: str, number: int, limit: int) -> DeadPage:
    """Up to `limit` dead letters from `number` on, but for what cannot be read."""
    limit = min(limit, PULL_MAX)
    described = await _describe(broker, group, number, limit)
    if described is None:
        return DeadPage(messages=(), next_number=None)
    queue = described.queues[0]
    offsets = [it.offset for it in described.messages]
    if len(offsets) < limit:
        first = max(number, queue.offset, queue.offset_min)
        offsets += range(first, min(first + limit - len(offsets), queue.offset_max))
    found: list[DeadMessage] = []
    topic = dead_letter_topic(group)
    next_number = offsets[-1] + 1 if len(offsets) == limit else None
    for first, count in contiguous(offsets):
        read = await _pull(broker, topic, first, count)
        found += [dead for it in read if (dead := _dead(it)) is not None]
        if len(read) < count and read:  # too large for one answer: go on there
            next_number = read[-1].offset + 1
            break
    return DeadPage(messages=found, next_number=next_number)


async def _describe(
    broker: Broker, group: str, number: int, limit: int
) -> GroupDescription | None:
    request = DescribeGroup(group, dead_letter_topic(group), limit, (0, number - 1))
    try:
        return await broker.describe_group(request)
    except UnknownTopic:
        return None


async def _pull(broker: Broker, topic: str, first: int, count: int) -> list[Delivered]:
    """What is kept of a stretch; damaged and forgotten ones are left out."""
    found: list[Delivered] = []
    end = first + count
    while first < end:
        request = Pull(topic, 0, first, end - first, 0, PULL_SIZE_MAX)
        try:
            pulled = (await broker.pull(request)).messages
        except OffsetOutOfRange as error:
            first = max(first + 1, error.offset_min)
            continue
        except CorruptLog:
            first += 1
            continue
        found += [it for it in pulled if it.offset < end]
        break
    return found


def _dead(delivered: Delivered) -> DeadMessage | None:
    record = decode_record(delivered.record)
    dead, properties = read_dead_letter(record)
    if dead is None:
        return None
    return DeadMessage(
        number=delivered.offset,
        dead_ms=delivered.stored_ms,
        record=record,
        dead=dead,
        properties=properties,
    )

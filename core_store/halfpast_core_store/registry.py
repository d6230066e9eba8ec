"""Names and numbers of topics and consumer groups.

On disk everything goes by number; the names come from records in SYS_TOPICS. A
topic is created, or given more queues, by a TOPIC record; a group by a GROUP
record. The last record of a name counts.
"""

import struct
from collections.abc import Sequence

from . import keys
from .broker import TopicInfo
from .errors import QueuesShrink
from .ports import Index, IndexBatch
from .record import GROUP_AT, RecordKind, decode_record, encode_record
from .topics import GROUP_ID_MIN, SYSTEM_TOPICS, USER_TOPIC_ID_MIN

TOPIC = struct.Struct("<IH")
GROUP = struct.Struct("<I")
CACHE_SIZE_MAX = 100_000


class Registry:
    """Topics and groups of a store. Reads through a cache; the index is complete."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._topics: dict[str, TopicInfo] = {}
        self._groups: dict[str, int] = {}
        self._drafts: dict[str, TopicInfo] = {}
        self._system = {
            name: TopicInfo(number, name, 1) for name, number in SYSTEM_TOPICS.items()
        }
        self._next_topic_id = max(
            USER_TOPIC_ID_MIN, keys.read_u64(index.get(keys.NEXT_TOPIC_ID))
        )
        self._next_group_id = max(
            GROUP_ID_MIN, keys.read_u64(index.get(keys.NEXT_GROUP_ID))
        )

    # --- topics ---------------------------------------------------------------

    def topic(self, name: str) -> TopicInfo | None:
        """A topic that exists durably, or None."""
        info = self._topics.get(name) or self._system.get(name)
        if info is None:
            value = self._index.get(b"T" + name.encode())
            if value is not None:
                number, queue_count = TOPIC.unpack(value)
                info = TopicInfo(number, name, queue_count)
                self._remember(info)
        return info

    def topic_by_id(self, number: int) -> TopicInfo | None:
        """The topic of this id, or None."""
        name = self._index.get(keys.topic_id(number))
        if name is not None:
            return self.topic(name.decode())
        for info in self._system.values():
            if info.id == number:
                return info
        return None

    def topics(self, after: str, limit: int) -> list[TopicInfo]:
        """Users' topics in order of their names, beginning behind `after`."""
        found = self._index.scan(b"T" + after.encode() + b"\0", b"U", limit)
        return [
            TopicInfo(number, key[1:].decode(), queue_count)
            for key, value in found
            for number, queue_count in [TOPIC.unpack(value)]
        ]

    def draft_topic(self, name: str, queue_count: int, now_ms: int) -> bytes | None:
        """The record that creates this topic or widens it; None if there is nothing
        to do. Raises QueuesShrink. Drafts of one name that are not durable yet agree
        on its id, and no later one takes queues away."""
        known = self.topic(name)
        if known is not None and queue_count < known.queue_count:
            raise QueuesShrink(name, known.queue_count, queue_count)
        draft = self._drafts.get(name)
        if draft is not None:
            queue_count = max(queue_count, draft.queue_count)
        if known is not None and queue_count == known.queue_count:
            return None
        former = known or draft
        if former is not None:
            number = former.id
        else:
            number = self._next_topic_id
            self._next_topic_id += 1
        self._drafts[name] = TopicInfo(number, name, queue_count)
        return encode_record(
            RecordKind.TOPIC,
            topic_id=number,
            queue_id=queue_count,
            key=name.encode(),
            born_ms=now_ms,
        )

    def _remember(self, info: TopicInfo) -> None:
        if len(self._topics) >= CACHE_SIZE_MAX:
            self._topics.clear()
        self._topics[info.name] = info

    # --- groups ---------------------------------------------------------------

    def group(self, name: str) -> int | None:
        """The id of a group, also of one that is still being created, or None."""
        number = self._groups.get(name)
        if number is None:
            value = self._index.get(b"G" + name.encode())
            if value is not None:
                number = GROUP.unpack(value)[0]
                self._groups[name] = number
        return number

    def group_name(self, number: int) -> str | None:
        """The name of the group of this id, or None."""
        name = self._index.get(keys.group_id(number))
        return None if name is None else name.decode()

    def groups(self, after: str, limit: int) -> list[str]:
        """Names of groups in order, beginning behind `after`."""
        found = self._index.scan(b"G" + after.encode() + b"\0", b"H", limit)
        return [key[1:].decode() for key, _ in found]

    def draft_group(self, name: str, now_ms: int) -> tuple[int, bytes]:
        """A new group's id and the record that creates it. The record must become
        durable before, or in the same frame as, anything that uses the id."""
        assert self.group(name) is None
        number = self._next_group_id
        self._next_group_id += 1
        self._groups[name] = number
        return number, encode_record(
            RecordKind.GROUP, group_id=number, key=name.encode(), born_ms=now_ms
        )

    # --- projection -----------------------------------------------------------

    def apply(self, batch: IndexBatch, records: Sequence[bytes]) -> None:
        """Enter durable records of SYS_TOPICS."""
        for data in records:
            record = decode_record(data)
            name = record.key
            if record.kind == RecordKind.TOPIC:
                number, queue_count = record.topic_id, record.queue_id
                batch.put(b"T" + name, TOPIC.pack(number, queue_count))
                batch.put(keys.topic_id(number), name)
                self._next_topic_id = max(self._next_topic_id, number + 1)
                batch.put(keys.NEXT_TOPIC_ID, keys.U64.pack(self._next_topic_id))
                self._remember(TopicInfo(number, name.decode(), queue_count))
                self._forget_draft(name.decode(), queue_count)
            elif record.kind == RecordKind.GROUP:
                number = record.group_id
                batch.put(b"G" + name, GROUP.pack(number))
                batch.put(keys.group_id(number), name)
                self._next_group_id = max(self._next_group_id, number + 1)
                batch.put(keys.NEXT_GROUP_ID, keys.U64.pack(self._next_group_id))
                self._groups[name.decode()] = number

    def _forget_draft(self, name: str, queue_count: int) -> None:
        draft = self._drafts.get(name)
        if draft is not None and draft.queue_count <= queue_count:
            del self._drafts[name]

    def reserve(
        self, batch: IndexBatch, topic_ids: Sequence[int], of_groups: Sequence[bytes]
    ) -> None:
        """Give the ids of these topics, and of the groups of these records, to
        nobody else, even if the part of the log that named them is not kept."""
        topic_id = max(topic_ids, default=0)
        group_id = max(
            (GROUP.unpack_from(r, GROUP_AT)[0] for r in of_groups), default=0
        )
        if topic_id >= self._next_topic_id:
            self._next_topic_id = topic_id + 1
            batch.put(keys.NEXT_TOPIC_ID, keys.U64.pack(self._next_topic_id))
        if group_id >= self._next_group_id:
            self._next_group_id = group_id + 1
            batch.put(keys.NEXT_GROUP_ID, keys.U64.pack(self._next_group_id))

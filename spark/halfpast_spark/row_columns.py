"""The columns of some rows, each made when it is asked for.

A row is named by its record in the chunk and its place among that record's rows.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from halfpast_core_store.record import HEADER_SIZE, RecordFlag, RecordKind
from halfpast_core_store.topics import DEAD_LETTER_PREFIX

from .arrow import pa, pc
from .entries import Entries
from .event_schema import COMMITTED, KINDS, ROLLED_BACK
from .frame_join import FrameJoin, transaction_ids
from .frame_records import Bytes, Mask, Numbers, Records
from .names import Names
from .reasons import REASONS
from .row_kinds import (
    CODES,
    IN_FRAME,
    IN_QUEUE,
    OF_MESSAGE,
    OF_TRANSACTION,
    RELEASED,
    WITH_ATTEMPT,
    WITH_HEAD,
    Codes,
)
from .text_columns import named, texts, uuid_texts

BIG_U64 = np.dtype(">u8")
BIG_U32 = np.dtype(">u4")


class RowColumns:
    """Some rows of one chunk."""

    def __init__(
        self,
        records: Records,
        entries: Entries,
        codes: Codes,
        names: Names,
        record: Numbers,
        place: Numbers,
        number: Numbers,
    ) -> None:
        self._records = records
        self._entries = entries
        self._codes = codes
        self._names = names
        self._record = record
        self._place = place
        self._number = number
        self._code = codes[record]
        self._heads = records.heads[record]

    def __len__(self) -> int:
        return len(self._record)

    def only(self, keep: Mask) -> "RowColumns":
        """Some of these rows."""
        return RowColumns(
            self._records,
            self._entries,
            self._codes,
            self._names,
            self._record[keep],
            self._place[keep],
            self._number[keep],
        )

    def column(self, name: str) -> Any:
        """The column of this name, as an Arrow array."""
        made: Any = COLUMN_MAKERS[name](self)
        return made

    @property
    def codes(self) -> Codes:
        """The kinds of the rows, as in `row_kinds.py`."""
        return self._code

    @property
    def ids(self) -> Bytes:
        """The event ids, 16 bytes each."""
        return self._details[0]

    def is_kind(self, kind: str) -> Mask:
        matches: Mask = self._code == CODES[kind]
        return matches

    # --- what several columns need --------------------------------------------------

    @cached_property
    def _details(self) -> tuple[Bytes, Numbers, Numbers]:
        """Id, due time and topic of each row, where entries of bodies have them."""
        ids = self._heads["id"].copy()
        due_ms = self._heads["due_ms"].copy()
        topics = self._heads["topic"].astype(np.int64)
        kinds = self._heads["kind"]
        for kind, id_at, due_at, topic_at in (
            (RecordKind.FIRED, 9, 1, None),
            (RecordKind.BULK_CANCEL, 13, None, 1),
            (RecordKind.BULK_RESCHEDULE, 13, 29, 1),
        ):
            rows = np.flatnonzero(kinds == kind)
            if not len(rows):
                continue
            entries = self._entries.fixed(kind, self._record[rows], self._place[rows])
            ids[rows] = entries[:, id_at : id_at + 16]
            if due_at is not None:
                due_ms[rows] = big(entries[:, due_at : due_at + 8], BIG_U64)
            if topic_at is not None:
                topics[rows] = big(entries[:, topic_at : topic_at + 4], BIG_U32)
        rows = np.flatnonzero(kinds == RecordKind.OCCURRED)
        if len(rows):
            due_ms[rows], ids[rows] = self._entries.occurrences(
                self._record[rows], self._place[rows]
            )
        delays = self._heads["flags"] & RecordFlag.AFTER_COMMIT
        due_ms[(kinds == RecordKind.HALF) & (delays != 0)] = 0
        return ids, due_ms, topics

    @cached_property
    def _messages(self) -> Numbers:
        """For rows whose message is in the same frame, its record; else -1."""
        found: Numbers = np.full(len(self), -1, np.int64)
        rows = np.flatnonzero(IN_FRAME[self._code])
        if len(rows):
            join = FrameJoin(self._records, IN_QUEUE[self._codes])
            frames = self._records.frame[self._record[rows]]
            found[rows] = join.find(frames, self._details[0][rows])
        return found

    @cached_property
    def _consumed(self) -> tuple[Numbers, Numbers, Numbers]:
        """The rows of consumption, their queues and offsets."""
        rows = np.flatnonzero(self.is_kind("consumed"))
        queues, offsets = self._entries.consumed(self._record[rows], self._place[rows])
        return rows, queues, offsets

    def topic_ids(self) -> Numbers:
        """The number of each row's topic; 0 for a fired timer without a message."""
        topics = self._details[2].copy()
        dead = self.is_kind("dead_letter")
        unnamed = (topics == 0) & ~IN_FRAME[self._code]
        run_topics = self._records.run_topic[self._record]
        topics[dead | unnamed] = run_topics[dead | unnamed]
        has_message = self._messages >= 0
        messages = self._messages[has_message]
        topics[has_message] = self._records.run_topic[messages]
        return topics

    # --- columns --------------------------------------------------------------------

    def kind(self) -> Any:
        return _KINDS.take(pa.array(self._code))

    def position(self) -> Any:
        positions = np.array([frame.position for frame in self._records.frames])
        return pa.array(positions[self._records.frame[self._record]], pa.int64())

    def number(self) -> Any:
        return pa.array(self._number.astype(np.int32))

    def stored_ms(self) -> Any:
        times = np.array([frame.stored_ms for frame in self._records.frames])
        return pa.array(times[self._records.frame[self._record]], pa.int64())

    def born_ms(self) -> Any:
        return where(self._heads["born_ms"], self._heads["born_ms"] != 0)

    def due_ms(self) -> Any:
        due_ms = self._details[1]
        return where(due_ms, due_ms != 0)

    def topic_id(self) -> Any:
        return pa.array(self.topic_ids().astype(np.int32))

    def topic(self) -> Any:
        return named(self.topic_ids(), self._names.topic)

    def queue(self) -> Any:
        in_queue = IN_QUEUE[self._code] | OF_TRANSACTION[self._code]
        run_queues = self._records.run_queue[self._record]
        queues = np.where(in_queue, run_queues, self._heads["queue"]).astype(np.int32)
        has_message = self._messages >= 0
        messages = self._messages[has_message]
        queues[has_message] = self._records.run_queue[messages]
        rows, consumed, _ = self._consumed
        queues[rows] = consumed
        return pa.array(queues)

    def offset(self) -> Any:
        offsets = self._records.offset[self._record].copy()
        has_message = self._messages >= 0
        offsets[has_message] = self._records.offset[self._messages[has_message]]
        rows, _, consumed = self._consumed
        offsets[rows] = consumed
        is_there = IN_QUEUE[self._code] | has_message
        is_there[rows] = True
        return where(offsets, is_there)

    def event_id(self) -> Any:
        return uuid_texts(self._details[0], ~self.is_kind("consumed"))

    def transaction_id(self) -> Any:
        ids = transaction_ids(self._heads["id"])
        return uuid_texts(ids, self.of_transaction(ids))

    def of_transaction(self, ids: Bytes) -> Mask:
        """Which rows are of a transaction; `ids` are of those that they may be of."""
        is_there: Mask = OF_TRANSACTION[self._code] | self.is_kind("half")
        is_op = self._codes == CODES["op"]
        if is_op.any():
            rows = np.flatnonzero(RELEASED[self._code])
            frames = self._records.frame[self._record[rows]]
            found = FrameJoin(self._records, is_op).find(frames, ids[rows])
            is_there[rows] = found >= 0
        return is_there

    def group(self) -> Any:
        tellers = np.where(OF_TRANSACTION[self._code], self._record, -1)
        is_half = self.is_kind("half")
        tellers[is_half] = self._half_heads[self._record[is_half]]
        sizes = np.where(tellers >= 0, self._records.heads["key_size"][tellers], 0)
        starts = self._records.starts[tellers] + HEADER_SIZE
        groups = texts(self._records.octets, starts, sizes.astype(np.int64))
        consumed, dead = self.is_kind("consumed"), self.is_kind("dead_letter")
        if consumed.any():
            numbers = self._heads["group"].astype(np.int64)
            groups = pc.coalesce(groups, named(numbers, self._names.group, consumed))
        if dead.any():
            groups = pc.coalesce(groups, named(self.topic_ids(), self._dead_of, dead))
        return groups

    @cached_property
    def _half_heads(self) -> Numbers:
        """For each record, the head of a transaction before it in its run, or -1."""
        numbers = np.arange(len(self._records))
        before = np.maximum.accumulate(np.where(WITH_HEAD[self._codes], numbers, -1))
        same_run = self._records.run[before] == self._records.run
        heads: Numbers = np.where((before >= 0) & same_run, before, -1)
        return heads

    def _dead_of(self, topic_id: int) -> str | None:
        name = self._names.topic(topic_id)
        has_prefix = name.startswith(DEAD_LETTER_PREFIX)
        return name.removeprefix(DEAD_LETTER_PREFIX) if has_prefix else None

    def check(self) -> Any:
        attempts = self._heads["attempt"].astype(np.int32)
        return where(attempts, WITH_ATTEMPT[self._code])

    def from_check(self) -> Any:
        return self._op_flag(RecordFlag.FROM_CHECK)

    def forced(self) -> Any:
        return self._op_flag(RecordFlag.FORCED)

    def _op_flag(self, flag: int) -> Any:
        is_set = (self._heads["flags"] & flag) != 0
        return pa.array(is_set & self.is_kind("op"))

    def outcome(self) -> Any:
        versions = np.minimum(self._heads["version"], 3).astype(np.int8)
        is_there = self.is_kind("op") & (versions >= 1) & (versions <= 2)
        return _OUTCOMES.take(pa.array(versions, mask=~is_there))

    def key(self) -> Any:
        is_there = OF_MESSAGE[self._code] | self.is_kind("occurred")
        is_there |= self.is_kind("recurring")
        sizes = np.where(is_there, self._heads["key_size"], 0).astype(np.int64)
        starts = self._records.starts[self._record] + HEADER_SIZE
        return texts(self._records.octets, starts, sizes)

    def tag(self) -> Any:
        is_there = OF_MESSAGE[self._code]
        sizes = np.where(is_there, self._heads["tag_size"], 0).astype(np.int64)
        starts = self._records.starts[self._record] + HEADER_SIZE
        return texts(self._records.octets, starts + self._heads["key_size"], sizes)

    def size(self) -> Any:
        sizes = (self._records.ends - self._records.bodies)[self._record]
        return pa.array(np.where(OF_MESSAGE[self._code], sizes, 0).astype(np.int32))

    def message_count(self) -> Any:
        counts = self._heads["version"].astype(np.int32)
        return where(counts, WITH_HEAD[self._code])

    def reason(self) -> Any:
        found: list[str | None] = [None] * len(self)
        sizes = (self._records.ends - self._records.bodies)[self._record]
        has_words = (sizes > 0) | (self._heads["properties_size"] > 0)
        for kind, read in REASONS.items():
            for row in np.flatnonzero(self.is_kind(kind) & has_words).tolist():
                found[row] = read(self._records, int(self._record[row])) or None
        return pa.array(found, pa.string())


COLUMN_MAKERS: dict[str, Callable[[RowColumns], Any]] = {
    "kind": RowColumns.kind,
    "position": RowColumns.position,
    "number": RowColumns.number,
    "stored_ms": RowColumns.stored_ms,
    "born_ms": RowColumns.born_ms,
    "due_ms": RowColumns.due_ms,
    "topic_id": RowColumns.topic_id,
    "topic": RowColumns.topic,
    "queue": RowColumns.queue,
    "offset": RowColumns.offset,
    "event_id": RowColumns.event_id,
    "transaction_id": RowColumns.transaction_id,
    "group": RowColumns.group,
    "check": RowColumns.check,
    "from_check": RowColumns.from_check,
    "forced": RowColumns.forced,
    "outcome": RowColumns.outcome,
    "key": RowColumns.key,
    "tag": RowColumns.tag,
    "size": RowColumns.size,
    "message_count": RowColumns.message_count,
    "reason": RowColumns.reason,
}
_KINDS = pa.array(list(KINDS), pa.string())
_OUTCOMES = pa.array(["", COMMITTED, ROLLED_BACK], pa.string())


def where(values: Any, is_there: Mask) -> Any:
    """A column with nulls where it is not there."""
    return pa.array(values, mask=~is_there)


def big(octets: Bytes, dtype: Any) -> Numbers:
    """Big-endian numbers, one row of bytes each."""
    numbers: Numbers = np.ascontiguousarray(octets).view(dtype).reshape(-1).astype("i8")
    return numbers

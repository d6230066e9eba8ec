"""The event table made once more, record by record and in plain Python."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from halfpast_chronos import keys
from halfpast_chronos.bulk_records import MOVE
from halfpast_core_store.folder import read_manifest
from halfpast_core_store.frame import FLAG_END, FrameHeader, read_runs
from halfpast_core_store.real_disk import RealFile
from halfpast_core_store.record import Record, RecordFlag, RecordKind, decode_record
from halfpast_core_store.segment import SUFFIX, Segment, intact_frame
from halfpast_core_store.topics import SYSTEM_TOPICS

Row = dict[str, Any]
WORDS = {
    RecordKind.SCHEDULE: "schedule", RecordKind.RESCHEDULE: "reschedule",
    RecordKind.REPLACE: "replace", RecordKind.CANCEL: "cancel",
    RecordKind.FAILED: "failed", RecordKind.DEAD: "dead",
    RecordKind.REDRIVEN: "redriven", RecordKind.RECURRING: "recurring",
    RecordKind.RECURRING_ENDED: "recurring_ended", RecordKind.OPERATION: "operation",
    RecordKind.TRANSACTION: "transaction", RecordKind.ADDED: "added",
    RecordKind.HALF: "half", RecordKind.CHECK: "check", RecordKind.OP: "op",
    RecordKind.PARKED: "parked", RecordKind.RESUMED: "resumed",
}  # fmt: skip
TRANSACTIONS = {"transaction", "added", "check", "op", "parked", "resumed"}


def frames_of(folder: Path) -> Iterator[tuple[FrameHeader, bytes]]:
    """All intact frames of a log."""
    salt = read_manifest(folder).salt
    for path in sorted((folder / "log").glob(f"*{SUFFIX}")):
        file = RealFile(path, writable=False)
        segment = Segment(int(path.stem), file)
        position = segment.base
        while found := intact_frame(segment, position, salt):
            if found[0].flags & FLAG_END:
                break
            yield found
            position += found[0].length
        file.close()


def expected_rows(folder: Path) -> list[Row]:
    """The whole event table of a store."""
    return list(Oracle().rows(folder))


class Oracle:
    """Remembers names as it reads."""

    def __init__(self) -> None:
        self.topics = {number: name for name, number in SYSTEM_TOPICS.items()}
        self.groups: dict[int, str] = {}

    def rows(self, folder: Path) -> Iterator[Row]:
        for header, frame in frames_of(folder):
            placed: list[tuple[Record, int, int, int]] = []
            for topic, queue, base, starts in read_runs(frame, header):
                for i in range(len(starts) - 1):
                    record = decode_record(frame, starts[i])
                    placed.append((record, topic, queue, base + i))
                    self._learn(record)
            for number, row in enumerate(self._frame(placed)):
                row |= {
                    "position": header.position,
                    "number": number,
                    "stored_ms": header.stored_ms,
                }
                yield row

    def _learn(self, record: Record) -> None:
        if record.kind == RecordKind.TOPIC:
            self.topics[record.topic_id] = record.key.decode()
        elif record.kind == RecordKind.GROUP:
            self.groups[record.group_id] = record.key.decode()

    def _frame(self, placed: list[tuple[Record, int, int, int]]) -> Iterator[Row]:
        homes = {
            record.event_id: (topic, queue, offset)
            for record, topic, queue, offset in placed
            if record.kind == RecordKind.NORMAL
        }
        ended = {r.event_id for r, *_ in placed if r.kind == RecordKind.OP}
        group = None
        for record, topic, queue, offset in placed:
            if record.kind in (RecordKind.TRANSACTION, RecordKind.ADDED):
                group = record.key.decode()
            if record.kind in WORDS:
                row = self._plain(record, topic, queue, group)
            elif record.kind == RecordKind.NORMAL:
                row = self._message(record, topic, queue, offset)
            else:
                yield from self._many(record, homes)
                continue
            released = row["kind"] in ("message", "delivered", "schedule")
            transaction = record.event_id[:14] + b"\0\0"
            if released and transaction in ended:
                row["transaction_id"] = text(transaction)
            yield row

    def _message(self, record: Record, topic: int, queue: int, offset: int) -> Row:
        row = self._base("message", record, topic, queue)
        row |= message_fields(record)
        row["offset"] = offset
        if record.due_ms:
            row["kind"] = "delivered"
        if record.flags & RecordFlag.DEAD_LETTER:
            properties = msgspec.msgpack.decode(record.properties)
            row |= {
                "kind": "dead_letter",
                "group": self.topics[topic].removeprefix("%DLQ%"),
                "check": record.attempt,
                "reason": properties["dead_letter_reason"],
            }
        return row

    def _plain(self, record: Record, topic: int, queue: int, group: str | None) -> Row:
        word = WORDS[RecordKind(record.kind)]
        is_transaction = word in TRANSACTIONS
        row = self._base(
            word,
            record,
            topic if is_transaction else record.topic_id or topic,
            queue if is_transaction else record.queue_id,
        )
        if word in ("schedule", "replace", "half"):
            row |= message_fields(record)
        if word == "recurring":
            row["key"] = record.key.decode()
        if is_transaction:
            row["transaction_id"] = text(record.event_id)
            row["group"] = record.key.decode()
        if word == "half":
            row["transaction_id"] = text(record.event_id[:14] + b"\0\0")
            row["group"] = group
            if record.flags & RecordFlag.AFTER_COMMIT:
                row["due_ms"] = None
        if word in ("transaction", "added"):
            row["message_count"] = record.version
        if word in ("check", "op", "parked", "resumed", "failed", "dead"):
            row["check"] = record.attempt
        if word == "op":
            row["from_check"] = bool(record.flags & RecordFlag.FROM_CHECK)
            row["forced"] = bool(record.flags & RecordFlag.FORCED)
            row["outcome"] = {1: "committed", 2: "rolled_back"}[record.version]
        row["reason"] = reason_of(word, record) or None
        return row

    def _many(
        self, record: Record, homes: dict[bytes, tuple[int, int, int]]
    ) -> Iterator[Row]:
        body = record.body
        row = self._base("", record, record.topic_id, record.queue_id)
        match record.kind:
            case RecordKind.FIRED:
                for _, due_ms, event_id in keys.FIRED_ENTRY.iter_unpack(body):
                    topic, queue, offset = homes.get(event_id, (0, 0, None))
                    yield (
                        row
                        | self._at("fired", topic, queue, offset)
                        | {
                            "event_id": text(event_id),
                            "due_ms": due_ms,
                        }
                    )
            case RecordKind.OCCURRED:
                for due_ms, event_id, *rest in msgspec.msgpack.decode(body)[1]:
                    if rest[0]:
                        continue
                    yield (
                        row
                        | self._at("occurred", *homes[event_id])
                        | {
                            "event_id": text(event_id),
                            "due_ms": due_ms,
                            "key": record.key.decode(),
                        }
                    )
            case RecordKind.BULK_CANCEL:
                for _, topic, _, event_id in keys.TIMER_KEY.iter_unpack(body):
                    at = self._at("cancel", topic, 0, None)
                    yield row | at | {"event_id": text(event_id)}
            case RecordKind.BULK_RESCHEDULE:
                for key, due_ms, _ in MOVE.iter_unpack(body):
                    _, topic, _, event_id = keys.TIMER_KEY.unpack(key)
                    yield (
                        row
                        | self._at("reschedule", topic, 0, None)
                        | {
                            "event_id": text(event_id),
                            "due_ms": due_ms,
                        }
                    )
            case RecordKind.POP_ACK:
                for queue, first, count in msgspec.msgpack.decode(body)[1]:
                    for offset in range(first, first + count):
                        yield row | self._consumed(record, queue, offset)
            case RecordKind.OFFSETS:
                offsets, before = msgspec.msgpack.decode(body, strict=False)
                for queue, end in offsets.items():
                    for offset in range(before[queue], end):
                        yield row | self._consumed(record, queue, offset)
            case _:
                pass

    def _consumed(self, record: Record, queue: int, offset: int) -> Row:
        return self._at("consumed", record.topic_id, queue, offset) | {
            "group": self.groups[record.group_id],
            "event_id": None,
        }

    def _at(self, kind: str, topic: int, queue: int, offset: int | None) -> Row:
        return {
            "kind": kind,
            "topic_id": topic,
            "topic": self.topics[topic] if topic else "",
            "queue": queue,
            "offset": offset,
        }

    def _base(self, kind: str, record: Record, topic: int, queue: int) -> Row:
        return {
            **self._at(kind, topic, queue, None),
            "born_ms": record.born_ms or None,
            "due_ms": record.due_ms or None,
            "event_id": text(record.event_id),
            "transaction_id": None,
            "group": None,
            "check": None,
            "from_check": False,
            "forced": False,
            "outcome": None,
            "key": None,
            "tag": None,
            "size": 0,
            "message_count": None,
            "reason": None,
        }


def message_fields(record: Record) -> Row:
    return {
        "key": record.key.decode(errors="replace") or None,
        "tag": record.tag.decode() or None,
        "size": len(record.body),
    }


def reason_of(word: str, record: Record) -> str:
    if word in ("failed", "dead"):
        return record.body.decode()
    if word in ("op", "resumed", "check", "parked") and record.body:
        return str(msgspec.msgpack.decode(record.body)[0])
    if word == "recurring_ended":
        return "times"
    return ""


def text(event_id: bytes) -> str:
    return str(uuid.UUID(bytes=event_id))

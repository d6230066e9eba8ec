"""Faults in a copy of a log: what no store may ever do, for audits to find.

    faults = break_copy(store, copy, FaultPlan(lost=2, doubled=2, early=2, ...))

All frames are written anew, behind one another, so the copy is a log without any
damage: only what it tells is wrong. `Faults` says which ids each fault hit. A frame is
used for one fault only, and only frames whose timers are all alike are used.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import BinaryIO

from halfpast_chronos.keys import FIRED_SIZE
from halfpast_core_store.folder import MANIFEST, read_manifest
from halfpast_core_store.frame import (
    FLAG_END,
    HEADER_SIZE,
    FrameHeader,
    draft_frame,
    peek_header,
    read_runs,
    records_of,
    seal_frame,
    verify_frame,
)
from halfpast_core_store.record import HEADER_SIZE as RECORD_HEADER_SIZE
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_core_store.segment import SUFFIX, segment_name
from halfpast_loadtest.errors import LoadtestError
from halfpast_txn.half import ROLLED_BACK

Run = tuple[int, int, int, list[bytes]]
SEGMENT_SIZE = 16 * 1024 * 1024
TAIL_SIZE = 4096  # of zeroes, as a preallocated segment has them
ID_AT = 9  # in what a FIRED record says of a timer: b"T", due_ms u64, id


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """How many frames to break, by fault."""

    lost: int = 0
    """The timers fire nowhere."""
    doubled: int = 0
    """They fire again, at the end of the log."""
    early: int = 0
    """They are stored a second before they were due."""
    hollow: int = 0
    """They are told to have fired, and their messages are not there."""
    missing: int = 0
    """A commit without its messages."""
    contradicted: int = 0
    """A transaction that is committed, and rolled back at the end of the log."""
    leaked: int = 0
    """The message of a transaction that was rolled back is there."""


@dataclass(slots=True)
class Faults:
    """The ids that were hit: of timers for the first four, of transactions for the
    others."""

    hit: dict[str, set[str]] = field(default_factory=lambda: {})

    def add(self, fault: str, *ids: str) -> None:
        self.hit.setdefault(fault, set()).update(ids)

    def count(self, fault: str) -> int:
        return len(self.hit.get(fault, ()))


@dataclass(slots=True)
class Frame:
    """One frame of the log, taken apart."""

    header: FrameHeader
    runs: list[Run]

    def kinds(self) -> set[int]:
        return {record[4] for _, _, _, records in self.runs for record in records}

    def ids_of(self, kind: int) -> list[str]:
        """The ids of records of this kind; of a FIRED, those of its timers."""
        found: list[str] = []
        for _, _, _, records in self.runs:
            for record in records:
                if record[4] != kind:
                    continue
                if kind == RecordKind.FIRED:
                    body = record[RECORD_HEADER_SIZE:]
                    found += [
                        _text(body[at + ID_AT : at + FIRED_SIZE])
                        for at in range(0, len(body), FIRED_SIZE)
                    ]
                else:
                    found.append(_text(record[16:32]))
        return found

    def dues(self) -> list[int]:
        """When the messages in it were due; 0 for one that was not delayed."""
        return [
            decode_record(record).due_ms
            for _, _, _, records in self.runs
            for record in records
            if record[4] == RecordKind.NORMAL
        ]

    def without(self, *kinds: int) -> "Frame":
        runs = [
            (topic, queue, offset, [it for it in records if it[4] not in kinds])
            for topic, queue, offset, records in self.runs
        ]
        return Frame(self.header, [run for run in runs if run[3]])


def break_copy(
    store: Path, copy: Path, plan: FaultPlan, *, segment_size: int = SEGMENT_SIZE
) -> Faults:
    """Write the log of `store` to the new folder `copy`, with these faults.

    Raises LoadtestError if the log has too few frames that could be broken.
    """
    salt = read_manifest(store).salt
    breaker = _Breaker(list(read_frames(store, salt)), plan)
    frames = breaker.broken()
    frames.append(_repeated_names(frames))
    (copy / "log").mkdir(parents=True)
    shutil.copy(store / MANIFEST, copy / MANIFEST)
    write_frames(copy / "log", frames, salt, segment_size)
    return breaker.faults


def read_frames(store: Path, salt: int) -> Iterator[Frame]:
    """All frames of a log that nobody writes to."""
    for path in sorted((store / "log").glob(f"*{SUFFIX}")):
        base, at = int(path.name.removesuffix(SUFFIX)), 0
        with path.open("rb") as file:
            while (header := peek_header(_read(file, at, HEADER_SIZE))) is not None:
                frame = _read(file, at, header.length)
                if verify_frame(frame, base + at, salt) is None:
                    raise LoadtestError(f"{path} is damaged at {at}")
                at += header.length
                if header.flags & FLAG_END:
                    break
                runs = [
                    (it.topic_id, it.queue_id, it.base_offset, records_of(frame, it))
                    for it in read_runs(frame, header)
                ]
                yield Frame(header, runs)


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def write_frames(
    folder: Path, frames: Sequence[Frame], salt: int, segment_size: int
) -> None:
    """Closed segments of about this size; the last frame stands alone in an open one,
    so that all others can be exported."""
    position = 0
    left = list(frames)
    while left:
        with (folder / segment_name(position)).open("wb") as file:
            end = position + segment_size
            while position < end:
                position = _write(file, left.pop(0), position, salt)
                if len(left) < 2:
                    break
            if left:
                closing = Frame(left[0].header._replace(flags=FLAG_END), [])
                position = _write(file, closing, position, salt)
            else:
                file.write(bytes(TAIL_SIZE))


def _write(file: BinaryIO, frame: Frame, position: int, salt: int) -> int:
    draft = draft_frame(
        frame.runs,
        position=position,
        stored_ms=frame.header.stored_ms,
        epoch=frame.header.epoch,
        flags=frame.header.flags,
    )
    for piece in seal_frame(draft, salt):
        file.write(piece)
    return draft.end


class _Breaker:
    """Goes through the frames and breaks the first ones that will do."""

    def __init__(self, frames: list[Frame], plan: FaultPlan) -> None:
        self._frames = frames
        self._left = {it.name: int(getattr(plan, it.name)) for it in fields(plan)}
        self._at_the_end: list[Frame] = []
        self._halves: dict[str, tuple[Run, ...]] = {}
        self.faults = Faults()

    def broken(self) -> list[Frame]:
        """All frames, broken as planned."""
        last = self._frames[-1].header
        found: list[Frame] = []
        for frame in self._frames:
            self._remember_halves(frame)
            made = self._changed(frame)
            if made is not None:
                found.append(made)
        for frame in self._at_the_end:
            frame.header = frame.header._replace(stored_ms=last.stored_ms)
            found.append(frame)
        missing = {name: count for name, count in self._left.items() if count}
        if missing:
            raise LoadtestError(f"the log has no more frames to break: {missing}")
        return found

    def _take(self, *names: str) -> str:
        """The next fault of these that is still to be made, or nothing."""
        for name in names:
            if self._left[name]:
                self._left[name] -= 1
                return name
        return ""

    def _changed(self, frame: Frame) -> Frame | None:
        """Only frames of one thing are used: a group commit may have put others in."""
        kinds = frame.kinds()
        if kinds == {RecordKind.FIRED, RecordKind.NORMAL}:
            return self._fired(frame) if all(frame.dues()) else frame
        if len(ops := frame.ids_of(RecordKind.OP)) != 1:
            return frame
        if kinds == {RecordKind.OP, RecordKind.NORMAL}:
            return self._committed(frame, ops[0])
        return self._rolled_back(frame, ops[0]) if len(kinds) == 1 else frame

    def _fired(self, frame: Frame) -> Frame | None:
        fault = self._take("lost", "doubled", "early", "hollow")
        if not fault:
            return frame
        self.faults.add(fault, *frame.ids_of(RecordKind.FIRED))
        if fault == "lost":
            return None
        if fault == "doubled":
            self._at_the_end.append(Frame(frame.header, frame.runs))
            return frame
        if fault == "hollow":
            return frame.without(RecordKind.NORMAL)
        header = frame.header._replace(stored_ms=min(frame.dues()) - 1000)
        return Frame(header, frame.runs)

    def _committed(self, frame: Frame, key: str) -> Frame:
        fault = self._take("missing", "contradicted")
        if not fault:
            return frame
        self.faults.add(fault, key)
        if fault == "missing":
            return frame.without(RecordKind.NORMAL)
        alone = frame.without(RecordKind.NORMAL)
        self._at_the_end.append(_with_outcome(alone, ROLLED_BACK))
        return frame

    def _rolled_back(self, frame: Frame, key: str) -> Frame:
        halves = self._halves.get(key)
        if halves is None or not self._take("leaked"):
            return frame
        self.faults.add("leaked", key)
        return Frame(frame.header, [*halves, *frame.runs])

    def _remember_halves(self, frame: Frame) -> None:
        """Each transaction's first message, as it would be delivered."""
        for _, _, _, records in frame.runs:
            for record in records:
                told = decode_record(record)
                if told.kind == RecordKind.HALF and not told.due_ms:
                    key = _text(told.event_id[:14] + b"\0\0")
                    normal = record[:4] + bytes((RecordKind.NORMAL,)) + record[5:]
                    run = (told.topic_id, told.queue_id, 1 << 40, [normal])
                    self._halves.setdefault(key, (run,))


def _repeated_names(frames: Sequence[Frame]) -> Frame:
    """A frame that audits tell nothing of, stored with the last one."""
    others = {kind for frame in frames for kind in frame.kinds()} - {RecordKind.TOPIC}
    named = (frame.without(*others) for frame in frames)
    runs = next(frame.runs for frame in named if frame.runs)
    return Frame(frames[-1].header, runs)


def _with_outcome(frame: Frame, outcome: int) -> Frame:
    """The same OP, saying something else."""
    runs = [
        (
            topic,
            queue,
            offset,
            [it[:52] + outcome.to_bytes(4, "little") + it[56:] for it in records],
        )
        for topic, queue, offset, records in frame.runs
    ]
    return Frame(frame.header, runs)


def _text(event_id: bytes) -> str:
    digits = event_id.hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts)

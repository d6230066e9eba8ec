"""The driver's own record of what it sent and what it was told, one line each.

It is written before a request leaves and after its answer came, and synced to disk
in the background, so that a failed run can be examined and checked again:

    python -m tests.acceptance.crash_journal JOURNAL    counts by fate
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from halfpast_loadtest.delivery_check import Expectation, Fate, Problem, due_set

SYNC_EVERY_S = 0.05


class Sent(msgspec.Struct, tag=True, kw_only=True):
    """An event is about to be sent. `due_ms`: the time asked for, if absolute."""

    serial: str
    topic: str
    data: str
    due_ms: int | None = None
    due_floor_ms: int = 0
    lane: str = ""
    sequence: int = 0
    atomic_group: str = ""


class Acked(msgspec.Struct, tag=True, kw_only=True):
    """The server acknowledged it under this id."""

    serial: str
    event_id: str
    due_ms: int | None


class Change(msgspec.Struct, tag=True, kw_only=True):
    """A cancel, or a move to `due_ms` (0 for deliver-now), is about to be sent."""

    serial: str
    due_ms: int | None = None


class Changed(msgspec.Struct, tag=True, kw_only=True):
    """What was answered: cancelled, moved, too_late or not_found."""

    serial: str
    outcome: str
    due_ms: int | None = None


Entry = Sent | Acked | Change | Changed


class Journal:
    """Appends entries to a file. Between `Sent` and `Acked` the outcome is open."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *entries: Entry) -> None:
        """In the kernel's hands when this returns, on disk soon after."""
        lines = [msgspec.json.encode(entry) + b"\n" for entry in entries]
        os.write(self._fd, b"".join(lines))

    @asynccontextmanager
    async def syncing(self) -> AsyncGenerator[None]:
        """Sync to disk every 50 ms inside the block, and at its end."""

        async def sync_for_ever() -> None:
            while True:
                await asyncio.sleep(SYNC_EVERY_S)
                await asyncio.to_thread(os.fsync, self._fd)

        task = asyncio.create_task(sync_for_ever())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Sync what was written and let the file go."""
        os.fsync(self._fd)
        os.close(self._fd)


@dataclass(slots=True)
class Told:
    """What the entries say, folded: one expectation per event, and contradictions."""

    expectations: dict[str, Expectation] = field(default_factory=dict[str, Expectation])
    problems: list[Problem] = field(default_factory=list[Problem])


def read_journal(path: Path) -> list[Entry]:
    """All entries, in the order they were written."""
    decoder = msgspec.json.Decoder(Entry)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]


def fold(entries: Iterable[Entry], checked_ms: int) -> Told:
    """What must be in the log at `checked_ms`, by what the answers promised."""
    told = Told()
    for entry in entries:
        if isinstance(entry, Sent):
            told.expectations[entry.serial] = _sent(entry)
            continue
        one = told.expectations[entry.serial]
        if isinstance(entry, Acked):
            if one.event_id and one.event_id != entry.event_id:
                detail = f"{entry.event_id} for the same key that gave {one.event_id}"
                told.problems.append(Problem("wrong_replay", one.serial, detail))
            elif not one.event_id:
                told.expectations[entry.serial] = _acked(one, entry)
        elif isinstance(entry, Change):
            told.expectations[entry.serial] = _changing(one, entry)
        else:
            if entry.outcome == "not_found":
                detail = f"acknowledged {one.event_id} is unknown to the server"
                told.problems.append(Problem("lost", one.serial, detail))
            told.expectations[entry.serial] = _changed(one, entry)
    for serial, one in told.expectations.items():
        told.expectations[serial] = _at(one, checked_ms)
    return told


def _sent(entry: Sent) -> Expectation:
    return Expectation(
        serial=entry.serial,
        topic=entry.topic,
        fate=Fate.AT_MOST_ONCE,
        data=entry.data.encode(),
        due_ms=due_set(entry.due_ms),
        due_floor_ms=entry.due_floor_ms,
        lane=entry.lane,
        sequence=entry.sequence,
        atomic_group=entry.atomic_group,
    )


def _acked(one: Expectation, entry: Acked) -> Expectation:
    return replace(
        one, fate=Fate.ONCE, event_id=entry.event_id, due_ms=due_set(entry.due_ms)
    )


def _changing(one: Expectation, entry: Change) -> Expectation:
    """Until it is answered, both the old state and the new one are possible."""
    if entry.due_ms is None:
        fate = Fate.AT_MOST_ONCE if one.fate is Fate.ONCE else one.fate
        return replace(one, fate=fate)
    if entry.due_ms == 0:  # deliver-now: the server will name the time
        return replace(one, due_ms=frozenset(), due_floor_ms=0)
    floor_ms = min(one.due_floor_ms, entry.due_ms)
    due_ms = one.due_ms | {entry.due_ms} if one.due_ms else one.due_ms
    return replace(one, due_ms=due_ms, due_floor_ms=floor_ms)


def _changed(one: Expectation, entry: Changed) -> Expectation:
    if entry.outcome == "cancelled":
        return replace(one, fate=Fate.NEVER)
    if entry.outcome == "too_late":
        return replace(one, fate=Fate.ONCE)
    if entry.outcome == "moved":
        assert entry.due_ms is not None
        moved = due_set(entry.due_ms)
        return replace(one, fate=Fate.ONCE, due_ms=moved, due_floor_ms=entry.due_ms)
    return one


def _at(one: Expectation, checked_ms: int) -> Expectation:
    if one.fate is not Fate.ONCE or not one.due_ms:
        return one
    if min(one.due_ms) > checked_ms:
        return replace(one, fate=Fate.WAITING)
    if max(one.due_ms) > checked_ms:
        return replace(one, fate=Fate.AT_MOST_ONCE)
    return one


if __name__ == "__main__":
    folded = fold(read_journal(Path(sys.argv[1])), 2**62)
    print(Counter(one.fate.value for one in folded.expectations.values()))
    print(*folded.problems, sep="\n")

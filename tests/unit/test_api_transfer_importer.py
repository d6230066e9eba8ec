"""Chunks are under way side by side, and settled in the order of the file."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from halfpast import OutcomeUnknown, RetryPolicy
from halfpast.errors import FieldError, Problem, api_problem
from halfpast_api.transfer.chunk import LINES_MAX, RefusedLine, chunks
from halfpast_api.transfer.event_line import EventLines
from halfpast_api.transfer.import_calls import ImportCalls
from halfpast_api.transfer.importer import UNDER_WAY_MAX, Importer, rehearse
from halfpast_api.transfer.journal import ImportOptions, Journal
from halfpast_api.transfer.line import Position
from halfpast_api.transfer.ndjson_lines import NdjsonLines
from halfpast_api.transfer.progress import Counts

OPTIONS = ImportOptions(server="http://a", topic="t", format="ndjson")


class Server(ImportCalls):
    """Answers when the test says so. Refuses the events in `bad`."""

    def __init__(self, *, patient: bool = False) -> None:
        super().__init__("http://nowhere", RetryPolicy())
        self.answers = asyncio.Event()
        if not patient:
            self.answers.set()
        self.full = asyncio.Event()
        self.stored: dict[str, list[int]] = {}
        self.bad: set[int] = set()
        self.lost: set[int] = set()
        self.under_way = 0
        self.under_way_max = 0

    async def store(self, events: Sequence[bytes], idempotency_key: str) -> Counts:
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        if self.under_way == UNDER_WAY_MAX:
            self.full.set()
        try:
            await self.answers.wait()
            return self._store(events, idempotency_key)
        finally:
            self.under_way -= 1

    def _store(self, events: Sequence[bytes], key: str) -> Counts:
        numbers = [json.loads(event)["data"] for event in events]
        errors = [
            FieldError(f"/events/{index}", "bad")
            for index, number in enumerate(numbers)
            if number in self.bad
        ]
        if errors:
            raise api_problem(Problem(status=422, code="bad", errors=tuple(errors)))
        replayed = key in self.stored
        assert self.stored.setdefault(key, numbers) == numbers
        if self.lost.intersection(numbers):
            raise OutcomeUnknown("POST", 1, "lost", key)
        return Counts(stored=len(numbers), recognised=len(numbers) if replayed else 0)

    def numbers(self) -> list[int]:
        return sorted(n for numbers in self.stored.values() for n in numbers)


class Log:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.refusals: list[int] = []

    def moved(self, counts: Counts, offset: int) -> None:
        self.lines.append(counts.lines)

    def refused(self, lines: Sequence[RefusedLine]) -> None:
        self.refusals += [line.line for line in lines]


def written(path: Path, count: int) -> Path:
    path.write_bytes(b"".join(b'{"data":%d}\n' % n for n in range(count)))
    return path


async def run(
    path: Path, server: Server, log: Log, *, skips_bad: bool = False
) -> Journal:
    with path.open("rb") as file:
        journal = Journal.of_file(path, file, OPTIONS)
        progress = journal.progress
        source = NdjsonLines(file, progress.file.size, name="f")
        found = chunks(source, EventLines("t"), progress.position, progress.chunk)
        importer = Importer(
            server, found, journal, log, end=source.size, skips_bad=skips_bad
        )
        await importer.run()
        return journal


@pytest.mark.asyncio
async def test_some_chunks_are_under_way_together_and_never_more(
    tmp_path: Path,
) -> None:
    path, server, log = (
        written(tmp_path / "f", 9 * LINES_MAX),
        Server(patient=True),
        Log(),
    )
    running = asyncio.create_task(run(path, server, log))
    await asyncio.wait_for(server.full.wait(), 10)
    assert log.lines == []
    server.answers.set()
    journal = await running
    assert server.under_way_max == UNDER_WAY_MAX
    assert log.lines == [LINES_MAX * n for n in range(1, 10)]
    assert server.numbers() == list(range(9 * LINES_MAX))
    assert journal.progress.is_complete


@pytest.mark.asyncio
async def test_a_lost_answer_leaves_all_behind_it_to_the_next_run(
    tmp_path: Path,
) -> None:
    count = 6 * LINES_MAX
    path, server = written(tmp_path / "f", count), Server()
    server.lost = {2 * LINES_MAX + 7}
    with pytest.raises(OutcomeUnknown):
        await run(path, server, Log())
    with path.open("rb") as file:
        progress = Journal.of_file(path, file, OPTIONS).progress
    assert (progress.chunk, progress.position.line) == (2, 2 * LINES_MAX)
    assert (progress.is_settled, progress.is_complete) == (False, False)
    server.lost = set()
    journal = await run(path, server, Log())
    assert server.numbers() == list(range(count))
    counts = journal.progress.counts
    assert (counts.lines, counts.stored) == (count, count)
    assert counts.recognised >= LINES_MAX


@pytest.mark.asyncio
async def test_it_stops_behind_what_is_refused_and_goes_on_there(
    tmp_path: Path,
) -> None:
    count = 12 * LINES_MAX
    path, server, log = written(tmp_path / "f", count), Server(), Log()
    server.bad = {5, LINES_MAX + 1, 10 * LINES_MAX}
    first = await run(path, server, log)
    assert 0 < len(log.refusals) < 3
    assert (first.progress.is_complete, first.progress.is_settled) == (False, True)
    assert first.progress.position.line <= UNDER_WAY_MAX * LINES_MAX
    second = await run(path, server, log, skips_bad=True)
    assert log.refusals == [6, LINES_MAX + 2, 10 * LINES_MAX + 1]
    assert second.progress.is_complete
    assert server.numbers() == sorted(set(range(count)) - server.bad)
    assert second.progress.counts.refused == 3
    assert len(second.refused.path.read_bytes().splitlines()) == 3


@pytest.mark.asyncio
async def test_a_file_with_a_bad_end_is_done_all_the_same(tmp_path: Path) -> None:
    path, server = written(tmp_path / "f", LINES_MAX), Server()
    server.bad = {LINES_MAX - 1}
    assert (await run(path, server, Log())).progress.is_complete


def test_a_rehearsal_counts_and_sends_nothing(tmp_path: Path) -> None:
    path, log = tmp_path / "f", Log()
    path.write_bytes(b'{"data":1}\n?\n' * LINES_MAX)
    with path.open("rb") as file:
        source = NdjsonLines(file, path.stat().st_size, name="f")
        counts = rehearse(chunks(source, EventLines("t"), Position(), 0), log)
    assert (counts.lines, counts.stored) == (2 * LINES_MAX, LINES_MAX)
    assert counts.refused == LINES_MAX
    assert log.refusals[:2] == [2, 4]

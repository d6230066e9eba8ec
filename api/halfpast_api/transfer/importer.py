"""Import: chunks in order from the file, several of them under way at a time."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from halfpast_api.transfer.chunk import Chunk, RefusedLine
from halfpast_api.transfer.delivery import Delivered, Delivery
from halfpast_api.transfer.import_calls import ImportCalls
from halfpast_api.transfer.journal import Journal
from halfpast_api.transfer.progress import Counts

UNDER_WAY_MAX: Final = 4


class Watch(Protocol):
    """Whoever looks on."""

    def moved(self, counts: Counts, offset: int) -> None:
        """So much has been done in all, up to there in the file."""
        ...

    def refused(self, lines: Sequence[RefusedLine]) -> None:
        """These events were not stored."""
        ...


class Importer:
    """Sends all of `chunks`. Results are settled in the order of the file, which ends
    at the offset `end`, if anybody knows.

    Memory is that of `UNDER_WAY_MAX` chunks and the one that is being read.
    """

    def __init__(
        self,
        calls: ImportCalls,
        chunks: Iterator[Chunk],
        journal: Journal,
        watch: Watch,
        *,
        end: int | None,
        skips_bad: bool,
    ) -> None:
        self._calls = calls
        self._chunks = chunks
        self._journal = journal
        self._watch = watch
        self._end = end
        self._skips_bad = skips_bad
        self._under_way: deque[tuple[Chunk, asyncio.Task[Delivered]]] = deque()
        self._reading: asyncio.Task[Chunk | None] | None = None
        self._is_read = False
        self._is_stopped = False

    async def run(self) -> None:
        """Until the end of the file, or until events were refused.

        Raises a HalfpastError or TransferError when it cannot go on. In any case
        the journal is ended, and tells how far it came.
        """
        self._journal.begin()
        try:
            while self._has_more or self._under_way:
                await self._step()
        except BaseException:
            await self._abandon()
            raise
        if self._reading is not None:
            self._reading.cancel()
        offset = self._journal.progress.position.offset
        is_complete = not self._is_stopped or offset == self._end
        self._journal.end(is_settled=True, is_complete=is_complete)

    @property
    def _has_more(self) -> bool:
        return not self._is_read and not self._is_stopped

    async def _step(self) -> None:
        """Wait for the next chunk or for the oldest answer, whichever comes first."""
        wanted: list[asyncio.Task[Any]] = []
        if self._has_more and len(self._under_way) < UNDER_WAY_MAX:
            if self._reading is None:
                # In a thread, since a pipe may keep us waiting.
                reading = asyncio.to_thread(next, self._chunks, None)
                self._reading = asyncio.create_task(reading)
            wanted.append(self._reading)
        if self._under_way:
            wanted.append(self._under_way[0][1])
        await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
        if self._under_way and self._under_way[0][1].done():
            self._settle_first()
        if self._reading in wanted and self._reading.done() and self._has_more:
            chunk, self._reading = self._reading.result(), None
            self._send(chunk)

    def _send(self, chunk: Chunk | None) -> None:
        if chunk is None:
            self._is_read = True
            return
        journal = self._journal
        apart = journal.apart(chunk.number)
        delivery = Delivery(
            self._calls, journal.key_prefix, chunk, apart, journal.note_apart
        )
        self._under_way.append((chunk, asyncio.create_task(delivery.run())))

    def _settle_first(self) -> None:
        chunk, task = self._under_way[0]
        done = task.result()
        self._under_way.popleft()
        self._journal.commit(chunk, done)
        if done.refused:
            self._watch.refused(done.refused)
            self._is_stopped |= not self._skips_bad
        progress = self._journal.progress
        self._watch.moved(progress.counts, progress.position.offset)

    async def _abandon(self) -> None:
        """Something failed. A later run repeats what is under way now."""
        is_settled = not self._under_way
        tasks: list[asyncio.Task[Any]] = [task for _, task in self._under_way]
        if self._reading is not None:
            tasks.append(self._reading)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._journal.end(is_settled=is_settled, is_complete=False)


def rehearse(chunks: Iterator[Chunk], watch: Watch) -> Counts:
    """Read everything and send nothing. Good events count as stored."""
    counts = Counts()
    for chunk in chunks:
        good, bad = len(chunk.events), len(chunk.refused)
        counts.add(Counts(lines=chunk.line_count, stored=good, refused=bad))
        if chunk.refused:
            watch.refused(chunk.refused)
        watch.moved(counts, chunk.end.offset)
    return counts

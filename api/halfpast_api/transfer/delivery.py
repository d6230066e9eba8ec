"""One chunk to the server: all of its events are stored, or refused for good.

A chunk is one atomic request, so a repetition after a crash cannot find half of it.
Are there events that the server refuses, it says which; each of those then goes in
a request of its own (the first answer may have been about a quota that passes, or
about a topic that exists by now), and all the others go together. Which they are is
noted before, so that a later run makes the very same requests under the same keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from halfpast import ApiProblem
from halfpast.retry import worth_repeating
from halfpast_api.transfer.chunk import Chunk, RefusedLine
from halfpast_api.transfer.import_calls import ImportCalls, refused_indexes
from halfpast_api.transfer.progress import Counts


@dataclass(slots=True)
class Delivered:
    """What became of the events of one chunk."""

    counts: Counts = field(default_factory=Counts)
    refused: list[RefusedLine] = field(default_factory=list[RefusedLine])


class Delivery:
    """Delivers one chunk. `note` keeps which events go apart, before they do."""

    def __init__(
        self,
        calls: ImportCalls,
        key_prefix: str,
        chunk: Chunk,
        apart: Sequence[int],
        note: Callable[[int, list[int]], None],
    ) -> None:
        self._calls = calls
        self._key = f"{key_prefix}-{chunk.number}"
        self._chunk = chunk
        self._apart = list(apart)
        self._note = note

    async def run(self) -> Delivered:
        """Raises a HalfpastError if it cannot be settled now; run it again later."""
        done = Delivered()
        while not await self._store_together(done):
            pass
        for index in self._apart:
            await self._store_alone(index, done)
        done.refused += self._chunk.refused
        done.refused.sort(key=lambda line: line.line)
        done.counts.lines = self._chunk.line_count
        done.counts.refused = len(done.refused)
        return done

    async def _store_together(self, done: Delivered) -> bool:
        """All that do not go apart. False if more of them have to."""
        apart = set(self._apart)
        indexes = [i for i in range(len(self._chunk.events)) if i not in apart]
        if not indexes:
            return True
        events = [self._chunk.events[index] for index in indexes]
        try:
            done.counts.add(await self._calls.store(events, self._key_together()))
        except ApiProblem as problem:
            refused = [indexes[i] for i in refused_indexes(problem) if i < len(indexes)]
            if not refused or _may_pass(problem):
                raise
            self._apart = sorted([*self._apart, *refused])
            self._note(self._chunk.number, self._apart)
            return False
        return True

    async def _store_alone(self, index: int, done: Delivered) -> None:
        event, key = self._chunk.events[index], f"{self._key}-event-{index}"
        try:
            done.counts.add(await self._calls.store([event], key))
        except ApiProblem as problem:
            if not refused_indexes(problem) or _may_pass(problem):
                raise
            done.refused.append(
                RefusedLine(
                    line=self._chunk.numbers[index],
                    code=problem.code,
                    reason=_reason(problem),
                    raw=event,
                )
            )

    def _key_together(self) -> str:
        if not self._apart:
            return self._key
        left_out = ",".join(map(str, self._apart))
        return f"{self._key}-without-{sha256(left_out.encode()).hexdigest()[:16]}"


def _may_pass(problem: ApiProblem) -> bool:
    """Whether it is no word about the event, but about the present moment."""
    return worth_repeating(problem.status, problem.retryable)


def _reason(problem: ApiProblem) -> str:
    """Of a request with a single event."""
    error = problem.errors[0]
    pointer = error.pointer.removeprefix("/events/0")
    return f"{error.detail} (at {pointer})" if pointer else error.detail

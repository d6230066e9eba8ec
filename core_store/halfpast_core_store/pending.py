"""Requests that wait for a frame, and a frame on its way to the disk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .broker import Append, Appended
from .commit_log import LogWrite
from .frame import HEADER_SIZE, RUN_SIZE
from .group_state import Change
from .ports import IndexBatch

Answer = Appended | Exception
Done = Callable[[Answer], None]
SystemRecords = dict[int, Sequence[bytes]]


@dataclass(slots=True)
class Pending:
    """A request that waits, and whom to tell. `changes` go into the index with it;
    `waiters` came later with the same idempotency key."""

    request: Append
    size: int
    done: Done
    changes: Sequence[Change] = ()
    waiters: Sequence[Done] = ()
    answered: bool = False

    def answer(self, answer: Answer) -> None:
        """Tell the one who asked, once."""
        if not self.answered:
            self.answered = True
            self.done(answer)

    def stored(self, position: int, stored_ms: int) -> None:
        """The request is durable: tell everybody who has not been told."""
        if not self.answered:
            self.answered = True
            self.done(Appended(position, stored_ms))
        for waiter in self.waiters:
            waiter(Appended(position, stored_ms, self.request.dedup))

    def fail(self, error: Exception) -> None:
        """Tell everybody who has not been told that it went wrong."""
        self.answer(error)
        for waiter in self.waiters:
            waiter(error)


@dataclass(slots=True)
class Sealed:
    """A frame on its way to the disk, with the requests in it."""

    write: LogWrite
    items: list[Pending]
    system: SystemRecords


def request_size(request: Append) -> int:
    """Bytes that a request takes at most, counting a frame of its own."""
    size = HEADER_SIZE + 8
    for run in request.runs:
        size += RUN_SIZE + sum(map(len, run.records))
    if request.dedup is not None:
        size += RUN_SIZE + 160
    return size


def put_change(batch: IndexBatch, key: bytes, value: bytes | None) -> None:
    """Enter one change of a projection."""
    if value is None:
        batch.delete(key)
    else:
        batch.put(key, value)

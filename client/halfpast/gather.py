"""What many callers send, sent together.

A request costs the client and the server some ten microseconds whatever it
carries, so one batch of fifty events is far cheaper than fifty requests. Items
are gathered while the event loop runs the callers that are ready; a batch leaves
at the end of that turn. While `in_flight` batches are under way the next one
waits for an answer and grows, but never longer than `linger_s`.

So a lone caller waits for nobody, and a crowd pays for few requests.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherLimits:
    """How much is sent together. A batch is closed by count or by bytes."""

    count_max: int = 500
    size_max: int = 1024 * 1024
    in_flight: int = 2
    linger_s: float = 0.001


class Gatherer(Generic[Item, Result]):
    """Turns what single callers give into batches. Belongs to one event loop.

    `send` takes a batch and gives one result or error per item, in their order.
    `abandoned` is called with a result whose caller has given up meanwhile.
    """

    def __init__(
        self,
        send: Callable[
            [Sequence[Item]], Coroutine[Any, Any, Sequence[Result | Exception]]
        ],
        limits: GatherLimits,
        abandoned: Callable[[Result], None] | None = None,
    ) -> None:
        self._send = send
        self._limits = limits
        self._abandoned = abandoned
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._count = 0
        self._size = 0
        self._timer: asyncio.Handle | None = None
        self._batches: set[asyncio.Task[None]] = set()

    def add(self, item: Item, size: int, count: int = 1) -> "asyncio.Future[Result]":
        """Send the item with the next batch; the future brings its own result.

        It fills `size` bytes and counts as `count`. Cancelling the future takes
        the item out of the batch if that has not left yet.
        """
        loop = asyncio.get_running_loop()
        if self._waiting and self._is_full(size, count):
            self._leave()
        done: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, done))
        self._size += size
        self._count += count
        if self._timer is None:
            self._timer = loop.call_soon(self._turn_ended)
        return done

    async def drain(self) -> None:
        """Send what is waiting, and return when everything is answered."""
        self._leave()
        while self._batches:
            await asyncio.wait(self._batches)

    def _is_full(self, size: int, count: int) -> bool:
        return (
            self._count + count > self._limits.count_max
            or self._size + size > self._limits.size_max
        )

    def _turn_ended(self) -> None:
        if len(self._batches) < self._limits.in_flight:
            self._leave()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limits.linger_s, self._leave)

    def _leave(self) -> None:
        """The gathered items go off as one batch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [waiting for waiting in self._waiting if not waiting[1].done()]
        self._waiting = []
        self._count = self._size = 0
        if batch:
            task = asyncio.get_running_loop().create_task(self._deliver(batch))
            self._batches.add(task)
            task.add_done_callback(self._returned)

    def _returned(self, task: "asyncio.Task[None]") -> None:
        self._batches.discard(task)
        if self._waiting:
            self._leave()

    async def _deliver(
        self, batch: "Sequence[tuple[Item, asyncio.Future[Result]]]"
    ) -> None:
        results: Sequence[Result | Exception]
        try:
            results = await self._send([item for item, _ in batch])
            assert len(results) == len(batch)
        except asyncio.CancelledError:
            for _, done in batch:
                done.cancel()
            raise
        except Exception as error:  # whatever it is, the callers must not hang
            # Each caller gets its own: a traceback grows where it is raised.
            results = [copy(error) for _ in batch]
        for (_, done), result in zip(batch, results, strict=True):
            if done.done():  # its caller has given up
                if self._abandoned is not None and not isinstance(result, Exception):
                    self._abandoned(result)
            elif isinstance(result, Exception):
                done.set_exception(result)
            else:
                done.set_result(result)

"""Publishes of many callers, sent together.

A request costs the client and the server some ten microseconds whatever it
carries, so one batch of fifty events is far cheaper than fifty requests. Events
are gathered while the event loop runs the callers that are ready; a batch leaves
at the end of that turn. While `in_flight` batches are under way the next one
waits for an answer and grows, but never longer than `linger_s`.

So a lone caller waits for nobody, and a crowd pays for few requests.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from halfpast.errors import ApiProblem
from halfpast.model import Published


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherLimits:
    """How much is sent together. A batch is closed by count or by bytes."""

    count_max: int = 500
    size_max: int = 1024 * 1024
    in_flight: int = 2
    linger_s: float = 0.001


@dataclass(frozen=True, slots=True)
class Gathered:
    """An encoded event and the caller who waits for it."""

    topic: str
    packed: bytes
    done: "asyncio.Future[Published]"


SendBatch = Callable[
    [Sequence[Gathered]], Coroutine[Any, Any, Sequence[Published | ApiProblem]]
]


class Gatherer:
    """Turns single publishes into batches. Belongs to one event loop."""

    def __init__(self, send: SendBatch, limits: GatherLimits) -> None:
        self._send = send
        self._limits = limits
        self._waiting: list[Gathered] = []
        self._size = 0
        self._timer: asyncio.Handle | None = None
        self._batches: set[asyncio.Task[None]] = set()

    async def publish(self, topic: str, packed: bytes) -> Published:
        """Send the event with the next batch and give its own result.

        Cancelling the caller takes the event out of the batch if that has not
        left yet.
        """
        loop = asyncio.get_running_loop()
        if self._is_full(len(packed)):
            self._leave()
        gathered = Gathered(topic, packed, loop.create_future())
        self._waiting.append(gathered)
        self._size += len(packed)
        if self._timer is None:
            self._timer = loop.call_soon(self._turn_ended)
        return await gathered.done

    async def drain(self) -> None:
        """Send what is waiting, and return when everything is answered."""
        self._leave()
        while self._batches:
            await asyncio.wait(self._batches)

    def _is_full(self, more: int) -> bool:
        return len(self._waiting) >= self._limits.count_max or (
            bool(self._waiting) and self._size + more > self._limits.size_max
        )

    def _turn_ended(self) -> None:
        if len(self._batches) < self._limits.in_flight:
            self._leave()
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limits.linger_s, self._leave)

    def _leave(self) -> None:
        """The gathered events go off as one batch."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [g for g in self._waiting if not g.done.done()]
        self._waiting = []
        self._size = 0
        if batch:
            task = asyncio.get_running_loop().create_task(self._deliver(batch))
            self._batches.add(task)
            task.add_done_callback(self._returned)

    def _returned(self, task: "asyncio.Task[None]") -> None:
        self._batches.discard(task)
        if self._waiting:
            self._leave()

    async def _deliver(self, batch: list[Gathered]) -> None:
        results: Sequence[Published | Exception]
        try:
            results = await self._send(batch)
            assert len(results) == len(batch)
        except asyncio.CancelledError:
            for gathered in batch:
                gathered.done.cancel()
            raise
        except Exception as error:  # whatever it is, the callers must not hang
            # Each caller gets its own: a traceback grows where it is raised.
            results = [copy(error) for _ in batch]
        for gathered, result in zip(batch, results, strict=True):
            if gathered.done.done():  # its caller has given up
                continue
            if isinstance(result, Published):
                gathered.done.set_result(result)
            else:
                gathered.done.set_exception(result)

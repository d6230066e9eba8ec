"""A consumer: pops messages, hands them to your function, settles them.

    pop -> handler returns          -> ack
           handler raises           -> nack: the group's back-off, then dead letter
           handler raises RetryLater -> nack with your own delay
           handler takes long       -> the invisible time is extended
    stop -> running handlers finish, what was not begun goes back at once

At least once: a message comes again if its ack is lost or the process dies.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypedDict, Unpack

from halfpast.consuming import FilterType
from halfpast.delivery import Delivery, Extending, Keeper
from halfpast.errors import ApiProblem, HalfpastError, NotFound
from halfpast.model import Message
from halfpast.polling import backoff_s, pause, polled
from halfpast.settler import Settler, Settling

if TYPE_CHECKING:  # brings OpenTelemetry, which need not be there
    from halfpast.traces import Traces

log = logging.getLogger("halfpast")

Handler = Callable[[Message], Awaitable[None]] | Callable[[Message], None]


class RetryLater(Exception):
    """Raise it in a handler to get the message again after `delay`."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(delay)
        self.delay = delay


class ConsumerOptions(TypedDict, total=False):
    """How a consumer works; see `ConsumerConfig` for meanings and defaults."""

    concurrency: int
    invisible: timedelta
    poll: timedelta
    filter: str | None
    filter_type: FilterType
    grace: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """How a consumer works.

    `concurrency`: how many handlers run at a time. `invisible`: how soon others
    get a message if this process dies; longer handlers are fine. `poll`: how long
    one request waits for messages, and so how long `stop` takes when idle.
    `filter`: tags, as in "paid || refunded", or with the `filter_type` "sql92" what
    must be true of a message, as in "region = 'eu' AND amount > 100". `grace`: how
    long `stop` waits for running handlers before it cancels them; None means for ever.
    """

    concurrency: int = 16
    invisible: timedelta = timedelta(minutes=1)
    poll: timedelta = timedelta(seconds=2)
    filter: str | None = None
    filter_type: FilterType = "tag"
    grace: timedelta | None = None


class Popping(Settling, Extending, Protocol):
    """The calls that a Consumer makes; `Client` has them."""

    async def pop(
        self,
        group: str,
        topic: str,
        /,
        *,
        max_messages: int,
        wait: timedelta,
        invisible: timedelta,
        filter: str | None,
        filter_type: FilterType,
    ) -> list[Message]: ...


class Consumer:
    """Consumes one topic for one group. Belongs to one event loop.

    `async with Consumer(...)` consumes in the background and stops gracefully at
    the end; `run` consumes in the foreground until `stop` is called. A handler
    that is not a coroutine function runs in a thread.
    """

    def __init__(
        self,
        client: Popping,
        group: str,
        topic: str,
        handler: Handler,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.config = ConsumerConfig(**options)
        self._client = client
        self._group = group
        self._topic = topic
        self._handler = handler
        self._stopping = asyncio.Event()
        self._running: dict[asyncio.Task[None], Delivery] = {}
        self._slot_free = asyncio.Event()
        self._settler = Settler(client, group)
        self._threads = ThreadPoolExecutor(
            self.config.concurrency, thread_name_prefix=f"halfpast-{group}"
        )
        self._background: asyncio.Task[None] | None = None
        self._traces: Traces | None = getattr(client, "traces", None)
        self.handled = 0
        self.failed = 0

    @property
    def lost(self) -> int:
        """Messages that were handled, but will come again: settled too late."""
        return self._settler.lost

    async def run(self) -> None:
        """Consume until `stop` is called.

        Waits out a server that is away and a topic that is not there yet; raises
        an ApiProblem if the server refuses to let this group read.
        """
        keeper = Keeper(
            self._client, self._group, self.config.invisible, self._running.values()
        )
        keeping = asyncio.create_task(keeper.run())
        try:
            await self._pop_until_stopped()
        finally:
            await self._finish()
            keeping.cancel()
            self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Pop no more. `run` returns when all handlers are done and settled."""
        self._stopping.set()
        self._slot_free.set()

    async def wait_stopped(self) -> None:
        """After `async with` began: returns when it has stopped, raises as `run`."""
        if self._background is not None:
            await asyncio.shield(self._background)

    async def __aenter__(self) -> Self:
        self._background = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        await self.wait_stopped()

    async def _pop_until_stopped(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            free = await self._free_slots()
            try:
                messages = await self._pop(free)
            except HalfpastError as error:
                if _is_final(error):
                    raise
                failures += 1
                await self._pause(backoff_s(failures), error)
                continue
            failures = 0
            if self._stopping.is_set():
                self._release(messages)
            else:
                self._start(messages)

    async def _free_slots(self) -> int:
        while len(self._running) >= self.config.concurrency:
            self._slot_free.clear()
            await self._slot_free.wait()
            if self._stopping.is_set():
                return 0
        return self.config.concurrency - len(self._running)

    async def _pop(self, count: int) -> list[Message]:
        if count == 0:
            return []
        popping = self._client.pop(
            self._group,
            self._topic,
            max_messages=count,
            wait=self.config.poll,
            invisible=self.config.invisible,
            filter=self.config.filter,
            filter_type=self.config.filter_type,
        )
        return await polled(popping, self._stopping, self.config.poll) or []

    async def _pause(self, pause_s: float, error: Exception) -> None:
        log.warning("group %s cannot read %s: %s", self._group, self._topic, error)
        await pause(pause_s, self._stopping)

    def _start(self, messages: Sequence[Message]) -> None:
        loop = asyncio.get_running_loop()
        hidden_until_s = loop.time() + self.config.invisible.total_seconds()
        for message in messages:
            delivery = Delivery(message, hidden_until_s)
            task = loop.create_task(self._handle(delivery))
            self._running[task] = delivery
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        self._slot_free.set()

    async def _handle(self, delivery: Delivery) -> None:
        delay: timedelta | None = None
        try:
            await self._call(delivery.message)
        except RetryLater as later:
            delay = later.delay
        except asyncio.CancelledError:
            delay = timedelta(0)  # we are stopping: somebody else shall do it
        except Exception:
            log.exception("handler failed for event %s", delivery.message.id)
        else:
            self.handled += 1
            self._settler.ack(await delivery.final_receipt())
            return
        self.failed += 1
        self._settler.nack(await delivery.final_receipt(), delay)

    async def _call(self, message: Message) -> None:
        if self._traces is None:
            await self._run_handler(message)
            return
        with self._traces.handling(self._group, message):
            await self._run_handler(message)

    async def _run_handler(self, message: Message) -> None:
        if inspect.iscoroutinefunction(self._handler):
            await self._handler(message)
            return
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        result = await loop.run_in_executor(
            self._threads, lambda: context.run(self._handler, message)
        )
        if inspect.isawaitable(result):  # a plain function that returns a coroutine
            await result

    def _release(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._settler.nack(message.receipt, timedelta(0))

    async def _finish(self) -> None:
        """Let the handlers end, then tell the server."""
        grace = self.config.grace
        if self._running:
            limit_s = None if grace is None else grace.total_seconds()
            await asyncio.wait(self._running, timeout=limit_s)
        late = list(self._running)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        await self._settler.flush()


def _is_final(error: HalfpastError) -> bool:
    """Whether waiting cannot help. A missing topic may be created any time."""
    return (
        isinstance(error, ApiProblem)
        and not isinstance(error, NotFound)
        and not error.retryable
        and error.status < 500
    )

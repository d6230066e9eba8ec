"""The client for programs without asyncio: the same code on a loop in a thread.

There is no second implementation. Each method of `SyncClient` is the one of
`Client`, run on the background loop while the calling thread waits; `Blocking`
keeps its parameters and result types.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from halfpast.client import Client
from halfpast.consumer import Consumer, ConsumerOptions, Handler
from halfpast.errors import ClientClosed
from halfpast.gather import GatherLimits
from halfpast.retry import RetryPolicy
from halfpast.sync_transaction import SyncTransaction, SyncTransactionalProducer
from halfpast.transacting import TransactionOptions
from halfpast.transactional_producer import (
    CheckFunction,
    TransactionalProducerOptions,
)

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

P = ParamSpec("P")
R = TypeVar("R")


class Blocking(Generic[P, R]):
    """A coroutine method of `Client`, as a method of `SyncClient` that waits."""

    def __init__(
        self, method: Callable[Concatenate[Client, P], Coroutine[Any, Any, R]]
    ) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: "SyncClient", kind: type) -> Callable[P, R]: ...

    def __get__(self, owner: "SyncClient | None", kind: type) -> Self | Callable[P, R]:
        if owner is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return owner.wait(self._method(owner.client, *args, **kwargs))

        return call


class BlockingIterator(Generic[P, R]):
    """The same for a method that gives an asynchronous iterator."""

    def __init__(
        self, method: Callable[Concatenate[Client, P], AsyncIterator[R]]
    ) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: "SyncClient", kind: type) -> Callable[P, Iterator[R]]: ...

    def __get__(
        self, owner: "SyncClient | None", kind: type
    ) -> Self | Callable[P, Iterator[R]]:
        if owner is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
            items = aiter(self._method(owner.client, *args, **kwargs))
            while (item := owner.wait(_next(items))) is not None:
                yield item

        return call


class SyncClient:
    """`Client` for threads. Use it inside `with`; any thread may call it."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:7080",
        *,
        gather: bool | GatherLimits = False,
        retry: RetryPolicy | None = None,
        api_key: str | None = None,
        namespace: str | None = None,
        tracing: "bool | TracerProvider" = False,
    ) -> None:
        self._make = partial(
            Client,
            base_url,
            gather=gather,
            retry=retry,
            api_key=api_key,
            namespace=namespace,
            tracing=tracing,
        )
        self._thread: _LoopThread | None = None
        self._client: Client | None = None

    publish = Blocking(Client.publish)
    schedule = Blocking(Client.schedule)
    put = Blocking(Client.put)
    batch = Blocking(Client.batch)
    cancel = Blocking(Client.cancel)
    reschedule = Blocking(Client.reschedule)
    deliver_now = Blocking(Client.deliver_now)
    get = Blocking(Client.get)
    events = BlockingIterator(Client.events)
    cancel_events = Blocking(Client.cancel_events)
    reschedule_events = Blocking(Client.reschedule_events)
    operation = Blocking(Client.operation)
    operations = BlockingIterator(Client.operations)
    wait_for_operation = Blocking(Client.wait_for_operation)
    stop_operation = Blocking(Client.stop_operation)
    due = Blocking(Client.due)
    create_schedule = Blocking(Client.create_schedule)
    get_schedule = Blocking(Client.get_schedule)
    schedules = BlockingIterator(Client.schedules)
    change_schedule = Blocking(Client.change_schedule)
    pause_schedule = Blocking(Client.pause_schedule)
    resume_schedule = Blocking(Client.resume_schedule)
    delete_schedule = Blocking(Client.delete_schedule)
    next_occurrences = Blocking(Client.next_occurrences)
    pop = Blocking(Client.pop)
    ack = Blocking(Client.ack)
    nack = Blocking(Client.nack)
    extend = Blocking(Client.extend)
    topic = Blocking(Client.topic)
    pull = Blocking(Client.pull)
    checks = Blocking(Client.checks)
    answer_checks = Blocking(Client.answer_checks)
    clock = Blocking(Client.clock)
    advance_clock = Blocking(Client.advance_clock)

    def transaction(
        self, producer_group: str, **options: Unpack[TransactionOptions]
    ) -> SyncTransaction:
        """As `Client.transaction`, for `with`."""
        transaction = self.client.transaction(producer_group, **options)
        return SyncTransaction(self, transaction)

    def produce(
        self,
        group: str,
        check: CheckFunction,
        **options: Unpack[TransactionalProducerOptions],
    ) -> SyncTransactionalProducer:
        """Transactions of a producer group; `check` answers check-backs, in threads.

        Use it in `with`, as a TransactionalProducer.
        """
        return SyncTransactionalProducer(self, group, check, **options)

    def consume(
        self,
        group: str,
        topic: str,
        handler: Handler,
        **options: Unpack[ConsumerOptions],
    ) -> "SyncConsumer":
        """Call `handler` for each message, in threads, until `stop`.

        Use it in `with`: `with client.consume(...) as consumer: consumer.join()`.
        """
        return SyncConsumer(self, group, topic, handler, options)

    @property
    def client(self) -> Client:
        """The asynchronous client on the background loop."""
        if self._client is None:
            raise ClientClosed
        return self._client

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run `work` on the background loop and wait for its result."""
        if self._thread is None:
            work.close()
            raise ClientClosed
        return self._thread.wait(work)

    def __enter__(self) -> Self:
        self._thread = _LoopThread()
        try:
            self._client = self.wait(_opened(self._make))
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """As `Client.close`; then the thread ends."""
        thread, client = self._thread, self._client
        self._client = None
        if thread is not None and client is not None:
            thread.wait(client.close())
            self._thread = None
            thread.close()


class SyncConsumer:
    """A consumer in the background of a `SyncClient`."""

    def __init__(
        self,
        owner: SyncClient,
        group: str,
        topic: str,
        handler: Handler,
        options: ConsumerOptions,
    ) -> None:
        self._owner = owner
        self._make = lambda: Consumer(owner.client, group, topic, handler, **options)
        self._consumer: Consumer | None = None

    def __enter__(self) -> Self:
        self._consumer = self._owner.wait(_started(self._make))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.join()

    def stop(self) -> None:
        """Pop no more; `join` returns when the running handlers are done."""
        self._owner.wait(_stop(self._begun()))

    def join(self) -> None:
        """Wait until it has stopped; raises what stopped it."""
        self._owner.wait(self._begun().wait_stopped())

    def _begun(self) -> Consumer:
        if self._consumer is None:
            raise ClientClosed
        return self._consumer


class _LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="halfpast", daemon=True
        )
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # such as KeyboardInterrupt in this thread
            future.cancel()
            raise

    def close(self) -> None:
        # An iterator over events that was left half-way still hangs in there.
        self.wait(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _opened(make: Callable[[], Client]) -> Client:
    return await make().__aenter__()


async def _started(make: Callable[[], Consumer]) -> Consumer:
    return await make().__aenter__()


async def _stop(consumer: Consumer) -> None:
    consumer.stop()


async def _next(items: AsyncIterator[R]) -> R | None:
    return await anext(items, None)

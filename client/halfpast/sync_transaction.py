"""Transactions for programs without asyncio: the same code on the client's loop."""

from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, Unpack

from halfpast.errors import ClientClosed
from halfpast.model import NewEvent
from halfpast.transaction import Transaction
from halfpast.transaction_model import LocalOutcome, TransactionState
from halfpast.transactional_producer import (
    CheckFunction,
    TransactionalProducer,
    TransactionalProducerOptions,
)

if TYPE_CHECKING:
    from halfpast.client import Client

R = TypeVar("R")


class Waiting(Protocol):
    """What this needs of a SyncClient."""

    @property
    def client(self) -> "Client": ...

    def wait(self, work: Coroutine[Any, Any, R]) -> R: ...


class SyncTransaction:
    """`Transaction` for threads. Use it in `with`, from one thread at a time.

    `asynchronous` is the Transaction on the background loop.
    """

    def __init__(self, owner: Waiting, asynchronous: Transaction) -> None:
        self._owner = owner
        self.asynchronous = asynchronous

    @property
    def id(self) -> str:
        """The server's name for it, known after the first `send`."""
        return self.asynchronous.id

    @property
    def producer_group(self) -> str:
        return self.asynchronous.producer_group

    @property
    def state(self) -> TransactionState:
        return self.asynchronous.state

    @property
    def local(self) -> LocalOutcome:
        """What is known of the database transaction that belongs to it."""
        return self.asynchronous.local

    def send(
        self,
        topic: str,
        data: object,
        *,
        key: str | None = None,
        tag: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
    ) -> str:
        """As `Transaction.send`."""
        return self._owner.wait(
            self.asynchronous.send(
                topic,
                data,
                key=key,
                tag=tag,
                properties=properties,
                deliver_at=deliver_at,
                delay=delay,
            )
        )

    def send_all(self, events: Iterable[NewEvent]) -> list[str]:
        """As `Transaction.send_all`."""
        return self._owner.wait(self.asynchronous.send_all(events))

    def commit(self) -> None:
        """As `Transaction.commit`."""
        self._owner.wait(self.asynchronous.commit())

    def rollback(self) -> None:
        """As `Transaction.rollback`."""
        self._owner.wait(self.asynchronous.rollback())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._owner.wait(self.asynchronous.__aexit__(kind, error, trace))


class SyncTransactionalProducer:
    """A TransactionalProducer in the background of a SyncClient."""

    def __init__(
        self,
        owner: Waiting,
        group: str,
        check: CheckFunction,
        **options: Unpack[TransactionalProducerOptions],
    ) -> None:
        self._owner = owner
        self._settings = (group, check, options)
        self._producer: TransactionalProducer | None = None

    def transaction(self, *, reference: str | None = None) -> SyncTransaction:
        """As `TransactionalProducer.transaction`, for `with`."""
        transaction = self.asynchronous.transaction(reference=reference)
        return SyncTransaction(self._owner, transaction)

    @property
    def asynchronous(self) -> TransactionalProducer:
        """The producer on the background loop, once `with` has begun."""
        if self._producer is None:
            raise ClientClosed
        return self._producer

    def __enter__(self) -> Self:
        self._producer = self._owner.wait(self._started())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._owner.wait(self.asynchronous.__aexit__(kind, error, trace))

    async def _started(self) -> TransactionalProducer:
        group, check, options = self._settings
        producer = TransactionalProducer(self._owner.client, group, check, **options)
        return await producer.__aenter__()

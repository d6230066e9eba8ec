"""A transaction: messages that are delivered if and only if your own work commits.

    async with client.transaction("orders") as tx:
        await tx.send("order-created", {"id": 7})   # durable, and invisible
        ... local work ...
    # left cleanly: committed; left by an error: rolled back

How the block ends is decided by what is known of the local transaction:

    known of it               left cleanly              left by an error
    nothing (no barrier)      commit                    roll back
    committed                 commit                    commit
    rolled back               roll back                 roll back
    open still                refused: wrong nesting    left to the check-back
    its COMMIT went unseen    commit                    left to the check-back
    its COMMIT failed         left to the check-back    left to the check-back

The error that left the block is always the one that its caller sees.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from halfpast.errors import (
    ApiProblem,
    HalfpastError,
    OutcomeUnknown,
    ServerUnreachable,
    TransactionConflict,
    TransactionInDoubt,
    TransactionMisuse,
    TransactionParked,
)
from halfpast.model import NewEvent
from halfpast.retry import worth_repeating
from halfpast.transaction_body import BeginBody
from halfpast.transaction_calls import TransactionCalls
from halfpast.transaction_model import LocalOutcome, TransactionState

log = logging.getLogger("halfpast")
ERROR_EXIT_S = 5.0  # an error waits so long for the rollback to be told


class Transaction:
    """Messages of one producer group with one outcome. Made by `Client.transaction`.

    Use it in `async with`. Without a `send` it does nothing. `local` is what is known
    of the database transaction; a barrier keeps it up to date.
    """

    def __init__(self, calls: TransactionCalls, begin: BeginBody) -> None:
        self._calls = calls
        self._begin = begin
        self._id = ""
        self._count = 0
        self._turn: asyncio.Lock | None = None
        self._is_unsure = False  # a send failed, but may have happened
        self._is_ending = False  # a commit or rollback was asked for
        self.state = TransactionState.EMPTY
        self.local = LocalOutcome.UNWATCHED

    @property
    def id(self) -> str:
        """The server's name for it, known after the first `send`."""
        if not self._id:
            raise TransactionMisuse(
                "nothing was sent, so the transaction has no id", "send a message first"
            )
        return self._id

    @property
    def producer_group(self) -> str:
        return self._begin.producer_group

    async def send(
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
        """Store a message that nobody sees before the commit; returns its id.

        The fields are those of `Client.publish`; a `delay` begins with the commit.
        """
        event = NewEvent(
            topic=topic,
            data=data,
            key=key,
            tag=tag,
            properties=properties,
            deliver_at=deliver_at,
            delay=delay,
        )
        return (await self._send([self._calls.packed(event)]))[0]

    async def send_all(self, events: Iterable[NewEvent]) -> list[str]:
        """Store several messages with one request; returns their ids."""
        packed = [self._calls.packed(event) for event in events]
        return await self._send(packed) if packed else []

    async def commit(self) -> None:
        """Deliver the messages; durable when this returns. Leaving the block does it.

        TransactionConflict if it was rolled back meanwhile. TransactionInDoubt if
        the server was not reached or did not answer: the check-back settles it, or
        another `commit`, which is harmless.
        """
        if not self._id:
            return
        if self.local is LocalOutcome.OPEN:
            raise TransactionMisuse(
                f"the local transaction of {self._id} is open still",
                "commit it first, inside of the transaction's block",
            )
        if self.local is LocalOutcome.ROLLED_BACK:
            raise TransactionMisuse(
                f"the local transaction of {self._id} was rolled back",
                "roll this one back too",
            )
        if self.local is LocalOutcome.IN_DOUBT:
            raise self._in_doubt("commit", "nobody knows if the local COMMIT succeeded")
        await self._end(TransactionState.COMMITTED)

    async def rollback(self) -> None:
        """Drop the messages. Leaving the block by an error does it."""
        if not self._id:
            return
        if self.local not in (LocalOutcome.UNWATCHED, LocalOutcome.ROLLED_BACK):
            raise TransactionMisuse(
                f"the local transaction of {self._id} is open or has committed",
                "only what was rolled back locally can be rolled back here",
            )
        await self._end(TransactionState.ROLLED_BACK)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._id or self.state is not TransactionState.PREPARED:
            return
        if error is None:
            is_undone = self.local is LocalOutcome.ROLLED_BACK
            await (self.rollback() if is_undone else self.commit())
        elif self.local is LocalOutcome.COMMITTED:
            await self._end_at_error(TransactionState.COMMITTED)
        elif self._is_ending:  # what was asked for may have happened
            log.info("transaction %s is left to its check-back", self._id)
        elif self.local in (LocalOutcome.UNWATCHED, LocalOutcome.ROLLED_BACK):
            await self._end_at_error(TransactionState.ROLLED_BACK)
        else:
            log.info("transaction %s is left to its check-back", self._id)

    async def _send(self, messages: Sequence[bytes]) -> list[str]:
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            self._check_sendable()
            self._is_unsure = True
            try:
                ids = await self._store(messages)
            except (ApiProblem, ServerUnreachable) as error:
                # Refused or never sent; a 5xx leaves it open.
                self._is_unsure = isinstance(error, ApiProblem) and error.status >= 500
                raise
            self._is_unsure = False
            self._count += len(messages)
            return ids

    async def _store(self, messages: Sequence[bytes]) -> list[str]:
        if self._id:
            return await self._calls.add(self._id, self._count, messages)
        begun = await self._calls.begin(self._begin, messages)
        self._id = begun.id
        self.state = TransactionState.PREPARED
        if begun.messages:
            return [message.id for message in begun.messages]
        return [_message_id(begun.id, index) for index in range(len(messages))]

    def _check_sendable(self) -> None:
        if self._is_ending or self.local not in _SENDABLE:
            raise TransactionMisuse(
                "the transaction is ending, so nothing can be added",
                "send before the local commit, or begin a new transaction",
            )
        if self._is_unsure:
            raise TransactionMisuse(
                "an earlier message of this transaction may be stored or not",
                "roll back and begin a new transaction",
            )

    async def _end(self, outcome: TransactionState) -> None:
        if self.state is outcome:
            return
        self._is_ending = True
        call = f"{outcome.value} transaction"
        try:
            await self._calls.end(self._id, outcome)
        except TransactionConflict as error:
            self.state = _durable(error)
            raise
        except TransactionParked:
            self.state = TransactionState.PARKED
            raise
        except OutcomeUnknown as error:
            raise self._in_doubt(call, error.why, error.attempts) from error
        except ServerUnreachable as error:
            raise self._in_doubt(call, str(error)) from error
        except ApiProblem as error:
            if not worth_repeating(error.status, error.retryable):
                raise
            raise self._in_doubt(call, str(error)) from error
        self.state = outcome

    async def _end_at_error(self, outcome: TransactionState) -> None:
        """Tell the server, but do not keep the error waiting for long.

        Whatever goes wrong here must not hide that error; the check-back settles it.
        """
        self._is_ending = True
        ending = self._calls.end_soon(self._id, outcome)
        ending.add_done_callback(self._ended_at_error)
        await asyncio.wait((ending,), timeout=ERROR_EXIT_S)
        if ending.done() and not ending.cancelled() and ending.exception() is None:
            self.state = outcome

    def _ended_at_error(self, ending: "asyncio.Task[None]") -> None:
        error = None if ending.cancelled() else ending.exception()
        if error is not None:
            log.warning("transaction %s is left to its check-back: %s", self._id, error)

    def _in_doubt(self, call: str, why: str, attempts: int = 0) -> HalfpastError:
        return TransactionInDoubt(self._id, call, attempts, why)


_SENDABLE = {LocalOutcome.UNWATCHED, LocalOutcome.OPEN, LocalOutcome.ROLLED_BACK}


def _durable(conflict: TransactionConflict) -> TransactionState:
    try:
        return TransactionState(conflict.state)
    except ValueError:  # a newer server's word
        return TransactionState.PREPARED


def _message_id(transaction_id: str, index: int) -> str:
    """Ids of messages count on from their transaction's, which ends in 0000."""
    return f"{transaction_id[:-4]}{index + 1:04x}"

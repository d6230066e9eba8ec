"""The calls behind a transaction: begin, add, end; gathered if the client gathers.

What must not be lost with its caller goes on without it. A commit or rollback that
was begun is carried through when its caller is cancelled. A begin whose caller was
cancelled is rolled back when its answer comes, for nobody would ever end it.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from halfpast.errors import ApiProblem, HalfpastError, UnexpectedAnswer
from halfpast.gather import Gatherer, GatherLimits
from halfpast.model import NewEvent
from halfpast.request_body import MSGPACK, packed_event
from halfpast.retry import worth_repeating
from halfpast.server_calls import ServerCalls, escaped
from halfpast.transaction_body import (
    AddedBody,
    BeginBody,
    BegunBatchBody,
    BegunBody,
    EndBody,
    EndedBody,
    packed_add,
    packed_begins,
    packed_ends,
)
from halfpast.transaction_model import TransactionState
from halfpast.transport import Answer, Repeat, Transport

log = logging.getLogger("halfpast")
T = TypeVar("T")
BATCH_COUNT_MAX = 1000  # transactions that the server takes with one request
_VERBS = {
    TransactionState.COMMITTED: "commit",
    TransactionState.ROLLED_BACK: "rollback",
}


class TransactionCalls(ServerCalls):
    """What `Transaction` asks of the server. Belongs to one event loop."""

    def __init__(self, http: Transport, gather: GatherLimits | None) -> None:
        super().__init__(http)
        self._begins: Gatherer[bytes, BegunBody] | None = None
        self._ends: Gatherer[EndBody, None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        if gather is not None:
            limits = replace(gather, count_max=min(gather.count_max, BATCH_COUNT_MAX))
            self._begins = Gatherer(self._send_begins, limits, self._abandoned)
            self._ends = Gatherer(self._send_ends, limits)

    def packed(self, event: NewEvent) -> bytes:
        """A message as it is sent; where there is tracing, with the present context."""
        traces = self._http.traces
        return packed_event(event if traces is None else traces.stamped(event))

    async def begin(self, body: BeginBody, messages: Sequence[bytes]) -> BegunBody:
        """A transaction that holds these messages, durable when this returns."""
        packed = body.packed(messages)
        if self._begins is not None:
            return await self._begins.add(packed, len(packed), len(messages))
        beginning = self._start(self._begin_alone(packed))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(self._begun_for_nobody)
            raise

    async def add(
        self, transaction_id: str, first_index: int, messages: Sequence[bytes]
    ) -> list[str]:
        """The ids of further messages, which follow the first `first_index` ones."""
        answer = await self._post(
            f"/v1/transactions/{escaped(transaction_id)}:add",
            packed_add(first_index, messages),
        )
        return [message.id for message in answer.read(AddedBody).messages]

    async def end(self, transaction_id: str, state: TransactionState) -> None:
        """Commit or roll back; it goes on if the caller is cancelled meanwhile."""
        if self._ends is None:
            await asyncio.shield(self._start(self._end_alone(transaction_id, state)))
            return
        end = EndBody(transaction_id, state.value)
        try:
            await asyncio.shield(self._ends.add(end, len(transaction_id)))
        except ApiProblem as problem:
            if not worth_repeating(problem.status, problem.retryable):
                raise
            await asyncio.shield(self._start(self._end_alone(transaction_id, state)))

    def end_soon(
        self, transaction_id: str, state: TransactionState
    ) -> "asyncio.Task[None]":
        """`end` in the background."""
        return self._start(self.end(transaction_id, state))

    async def drain(self) -> None:
        """Return when the server has answered all that was begun here."""
        if self._begins is not None:
            await self._begins.drain()
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._ends is not None:
            await self._ends.drain()

    async def _begin_alone(self, packed: bytes) -> BegunBody:
        key = {"Idempotency-Key": uuid4().hex}
        return (await self._post("/v1/transactions", packed, key)).read(BegunBody)

    async def _end_alone(self, transaction_id: str, state: TransactionState) -> None:
        path = f"/v1/transactions/{escaped(transaction_id)}:{_VERBS[state]}"
        await self._send("POST", path, repeat=Repeat.SAME_ANSWER)

    async def _send_begins(
        self, batch: Sequence[bytes]
    ) -> Sequence[BegunBody | ApiProblem]:
        key = {"Idempotency-Key": uuid4().hex}
        answer = await self._post("/v1/transactions:batch", packed_begins(batch), key)
        items = answer.read(BegunBatchBody).results
        _check_count(answer, len(items), len(batch))
        return [item.outcome() for item in items]

    async def _send_ends(self, batch: Sequence[EndBody]) -> Sequence[ApiProblem | None]:
        answer = await self._post("/v1/transactions:end", packed_ends(batch))
        items = answer.read(EndedBody).results
        _check_count(answer, len(items), len(batch))
        return [item.outcome() for item in items]

    async def _post(
        self, path: str, body: bytes, headers: dict[str, str] | None = None
    ) -> Answer:
        # Each is recognised when it comes twice: by its key, its first index, or
        # since an outcome never changes.
        return await self._send(
            "POST",
            path,
            repeat=Repeat.SAME_ANSWER,
            body=body,
            content_type=MSGPACK,
            headers=headers,
        )

    def _start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _begun_for_nobody(self, beginning: "asyncio.Task[BegunBody]") -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            self._abandoned(beginning.result())

    def _abandoned(self, begun: BegunBody) -> None:
        self._start(self._roll_back_quietly(begun.id))

    async def _roll_back_quietly(self, transaction_id: str) -> None:
        try:
            await self.end(transaction_id, TransactionState.ROLLED_BACK)
        except HalfpastError as error:
            log.warning("could not roll transaction %s back: %s", transaction_id, error)


def _check_count(answer: Answer, got: int, wanted: int) -> None:
    if got != wanted:
        why = f"{got} results for {wanted} transactions"
        raise UnexpectedAnswer(str(answer.call), answer.status, why)

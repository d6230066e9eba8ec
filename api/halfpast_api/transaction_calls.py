"""Transactions over HTTP, as the command line needs them.

Times stay the text that the server wrote, so that --json shows what it said.
"""

from collections.abc import AsyncIterator, Mapping
from uuid import uuid4

import msgspec

from halfpast.request_body import json_body
from halfpast.server_calls import escaped
from halfpast.transport import Answer, Repeat
from halfpast_api.open_calls import OpenCalls

PATH = "/v1/transactions"


class MessageView(msgspec.Struct, omit_defaults=True):
    """One message of a transaction, without its data."""

    id: str
    topic: str
    key: str | None = None
    tag: str | None = None
    size: int | None = None
    deliver_at: str | None = None
    delay_ms: int | None = None


class TimelineView(msgspec.Struct):
    """Something that happened to a transaction."""

    at: str
    what: str


class TransactionView(msgspec.Struct, omit_defaults=True):
    """All that the server tells of a transaction. What it left out is empty."""

    id: str
    state: str
    producer_group: str = ""
    reference: str = ""
    begun_at: str = ""
    age_ms: int | None = None
    message_count: int = 0
    checks: int = 0
    check_max: int = 0
    check_interval_ms: int = 0
    next_check_at: str = ""
    last_answer: str = ""
    decided_at: str = ""
    source: str = ""
    check: int = 0
    reason: str = ""
    by: str = ""
    timeline: list[TimelineView] = []
    messages: list[MessageView] = []


class BegunView(msgspec.Struct, omit_defaults=True):
    """A transaction that has just been begun."""

    id: str
    state: str
    producer_group: str
    messages: list[MessageView]
    check_at: str = ""
    server_time: str = ""


class EndedView(msgspec.Struct, omit_defaults=True):
    """A transaction that has an outcome."""

    id: str
    state: str
    decided_at: str = ""
    source: str = ""
    checks: int = 0


class _Page(msgspec.Struct):
    transactions: list[TransactionView]
    next_page_token: str | None = None


class TransactionCalls(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def begin(
        self,
        group: str,
        messages: list[Mapping[str, object]],
        *,
        reference: str | None = None,
        check_after_ms: int | None = None,
        idempotency_key: str | None = None,
    ) -> BegunView:
        """Store messages that nobody sees before the commit."""
        answer = await self._send(
            "POST",
            PATH,
            repeat=Repeat.SAME_ANSWER,
            body=json_body(
                producer_group=group,
                messages=messages,
                reference=reference,
                check_after_ms=check_after_ms,
            ),
            headers={"Idempotency-Key": idempotency_key or uuid4().hex},
        )
        return answer.read(BegunView)

    async def end(self, transaction: str, verb: str) -> EndedView:
        """`commit` or `rollback`; repeating it gives the same answer."""
        return (await self._act(transaction, verb)).read(EndedView)

    async def force(
        self, transaction: str, state: str, reason: str, by: str
    ) -> EndedView:
        """Give a prepared or parked transaction its outcome, as an operator."""
        body = json_body(state=state, reason=reason, by=by)
        return (await self._act(transaction, "force", body)).read(EndedView)

    async def resume(self, transaction: str, reason: str, by: str) -> TransactionView:
        """Have it checked back again; one that still is, is left as it is."""
        body = json_body(reason=reason or None, by=by)
        return (await self._act(transaction, "resume", body)).read(TransactionView)

    async def get(self, transaction: str) -> TransactionView:
        """Everything about it."""
        answer = await self._read(f"{PATH}/{escaped(transaction)}")
        return answer.read(TransactionView)

    async def pages(
        self, state: str, group: str | None, page_size: int
    ) -> AsyncIterator[list[TransactionView]]:
        """Transactions in a state, without their messages; pages may be empty."""
        query = {"state": state, "limit": str(page_size)}
        if group is not None:
            query["producer_group"] = group
        while True:
            page = (await self._read(PATH, query)).read(_Page)
            yield page.transactions
            if not page.next_page_token:
                return
            query["page_token"] = page.next_page_token

    async def _act(self, transaction: str, verb: str, body: bytes = b"{}") -> Answer:
        return await self._send(
            "POST",
            f"{PATH}/{escaped(transaction)}:{verb}",
            repeat=Repeat.SAME_ANSWER,
            body=body,
        )

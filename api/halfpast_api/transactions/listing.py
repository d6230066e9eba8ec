"""Looking at transactions: one, a page of them, and those in doubt first."""

import time
from collections.abc import Callable
from typing import Final

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.event_id import id_text
from halfpast_api.names import check_producer_group
from halfpast_api.page_token import parse_token, render_token
from halfpast_api.problems import Refusal
from halfpast_api.reading import Reader
from halfpast_api.times import NS_PER_MS
from halfpast_api.topic_directory import TopicDirectory
from halfpast_api.transactions.bodies import ResumeBody
from halfpast_api.transactions.transaction_id import parse_transaction_id
from halfpast_api.transactions.transaction_view import (
    TransactionPageView,
    view_messages,
    view_transaction,
)
from halfpast_txn.errors import UnknownTransaction
from halfpast_txn.transactions import (
    GetTransaction,
    ListTransactions,
    Resume,
    Transaction,
    Transactions,
    TransactionState,
)
from halfpast_txn.words import STATES

_LIMIT_MAX: Final = 1000
_DEPTH_MAX: Final = 16
_IN_DOUBT: Final = "in_doubt"
_CHOICES: Final = (_IN_DOUBT, *STATES)


class ListingHandlers:
    """Handlers for whoever looks after transactions."""

    def __init__(
        self,
        transactions: Transactions,
        directory: TopicDirectory,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._transactions = transactions
        self._directory = directory
        self._now_ns = now_ns
        self._reader = Reader(ResumeBody, _DEPTH_MAX)

    async def get(self, call: Call) -> Answer:
        """GET /v1/transactions/{id}"""
        transaction_id = parse_transaction_id(call.parameters[0])
        got = await self._transactions.get(GetTransaction(transaction_id))
        transaction = got.transaction
        if transaction is None:
            raise UnknownTransaction(id_text(transaction_id))
        view = view_transaction(transaction, self._now_ms())
        if not transaction.messages:
            call.check_topic(None)  # its topics are not known any more
        else:
            ids = {it.topic_id for it in transaction.messages}
            names = await self._directory.names_of(ids)
            for topic in {names.get(it) for it in ids}:
                call.check_topic(topic)
            view.messages = view_messages(transaction.messages, names)
        return call.answer(200, view)

    async def list(self, call: Call) -> Answer:
        """GET /v1/transactions

        Those in doubt are the parked ones, then the prepared ones; each by age.
        """
        query = call.query("state", "producer_group", "limit", "page_token")
        word = query.choice("state", _IN_DOUBT, _CHOICES)
        group = query.text("producer_group") or ""
        if group:
            check_producer_group(group)
        limit = query.integer("limit", 100, 1, _LIMIT_MAX)
        states = _states(word)
        first, after = _parse_page(query.text("page_token"), states)
        found: list[Transaction] = []
        position = b""
        for state in states[states.index(first) :]:
            request = ListTransactions(state, group, limit - len(found), after)
            page = await self._transactions.list(request)
            found += page.transactions
            if page.next_token:
                position = bytes((state,)) + page.next_token
                break
            after = b""
            if len(found) >= limit and state != states[-1]:
                position = bytes((states[states.index(state) + 1],))
                break
        now_ms = self._now_ms()
        views = [view_transaction(it, now_ms) for it in found]
        return call.answer(200, TransactionPageView(views, render_token(position)))

    async def resume(self, call: Call) -> Answer:
        """POST /v1/transactions/{id}:resume"""
        transaction_id = parse_transaction_id(call.parameters[0])
        body = call.read(self._reader) if call.body else ResumeBody()
        request = Resume(transaction_id, body.reason.strip(), body.by)
        transaction = await self._transactions.resume(request)
        return call.answer(200, view_transaction(transaction, self._now_ms()))

    def _now_ms(self) -> int:
        return self._now_ns() // NS_PER_MS


def _states(word: str) -> tuple[TransactionState, ...]:
    if word == _IN_DOUBT:
        return TransactionState.PARKED, TransactionState.PREPARED
    return (STATES[word],)


def _parse_page(
    text: str | None, states: tuple[TransactionState, ...]
) -> tuple[TransactionState, bytes]:
    """In which state to go on, and behind what. Raises Refusal."""
    token = parse_token(text)
    if not token:
        return states[0], b""
    for state in states:
        if token[0] == state:
            return state, token[1:]
    raise Refusal(
        "invalid_page_token",
        "this page_token belongs to a list of another state; ask for the same state "
        "as for the page before, or leave page_token out to begin",
    )

"""The transaction service as one namespace sees it."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from halfpast_api.access.namespaced_names import Names
from halfpast_api.event_id import id_text
from halfpast_api.problems import Refusal
from halfpast_core_store.broker import BrokerStatus, Empty
from halfpast_txn.errors import UnknownTransaction, WrongProducerGroup
from halfpast_txn.transactions import (
    Added,
    AddMessages,
    AnswerChecks,
    Check,
    End,
    Ended,
    EndResult,
    EndTransactions,
    GetTransaction,
    GotTransaction,
    ListTransactions,
    PollChecks,
    PolledChecks,
    Resume,
    Transaction,
    TransactionPage,
    Transactions,
)

_UNKNOWN: Final = UnknownTransaction.code
_WRONG_GROUP: Final = WrongProducerGroup.code


class NamespacedTransactions:
    """A `Transactions` in which only those of one namespace's producer groups exist."""

    def __init__(self, transactions: Transactions, names: Names) -> None:
        self._transactions = transactions
        self._names = names

    async def end(self, request: EndTransactions) -> Ended:
        namespace = self._names.namespace
        ends = [replace(it, namespace=namespace) for it in request.ends]
        ended = await self._transactions.end(EndTransactions(ends))
        if namespace:
            return self._told(ended)
        # A group of the default namespace may have a percent sign in its name.
        for index, result in enumerate(ended.results):
            if result.code == _UNKNOWN:
                ended.results[index] = await self._end_one(ends[index], result)
        return ended

    async def add(self, request: AddMessages) -> Added:
        await self._check(request.transaction_id)
        return await self._transactions.add(request)

    async def resume(self, request: Resume) -> Transaction:
        await self._check(request.transaction_id)
        resumed = await self._transactions.resume(request)
        return self._shown(resumed) or resumed

    async def get(self, request: GetTransaction) -> GotTransaction:
        got = await self._transactions.get(request)
        found = got.transaction
        return GotTransaction(None if found is None else self._shown(found))

    async def list(self, request: ListTransactions) -> TransactionPage:
        if request.group:
            asked = replace(request, group=self._group(request.group))
        elif self._names.namespace:
            asked = replace(request, namespace=self._names.namespace)
        else:
            asked = request
        page = await self._transactions.list(asked)
        shown = map(self._shown, page.transactions)
        return TransactionPage([it for it in shown if it is not None], page.next_token)

    async def poll_checks(self, request: PollChecks) -> PolledChecks:
        group = self._group(request.group)
        polled = await self._transactions.poll_checks(replace(request, group=group))
        return PolledChecks([self._shown_check(it) for it in polled.checks])

    async def answer_checks(self, request: AnswerChecks) -> Ended:
        group = self._group(request.group)
        ended = await self._transactions.answer_checks(replace(request, group=group))
        for index, result in enumerate(ended.results):
            if result.code != _WRONG_GROUP:
                continue
            transaction_id = request.answers[index].transaction_id
            found = await self.get(GetTransaction(transaction_id))
            if found.transaction is None:
                error = UnknownTransaction(id_text(transaction_id))
                ended.results[index] = EndResult(_UNKNOWN, str(error))
        return self._told(ended)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._transactions.status(request)

    def _told(self, ended: Ended) -> Ended:
        """With the names that callers know in what is said."""
        prefix = self._names.prefix
        for result in ended.results if prefix else ():
            result.detail = result.detail.replace(prefix, "")
        return ended

    async def _end_one(self, end: End, refused: EndResult) -> EndResult:
        found = await self.get(GetTransaction(end.transaction_id))
        if found.transaction is None:
            return refused
        again = EndTransactions([replace(end, namespace=None)])
        results: Sequence[EndResult] = (await self._transactions.end(again)).results
        return results[0]

    async def _check(self, transaction_id: bytes) -> None:
        found = await self.get(GetTransaction(transaction_id))
        if found.transaction is None:
            raise UnknownTransaction(id_text(transaction_id))

    def _shown(self, transaction: Transaction) -> Transaction | None:
        group = self._names.outside(transaction.group)
        return None if group is None else replace(transaction, group=group)

    def _shown_check(self, check: Check) -> Check:
        messages = [
            replace(it, topic=self._names.outside(it.topic) or it.topic)
            for it in check.messages
        ]
        group = self._names.outside(check.group) or check.group
        return replace(check, group=group, messages=messages)

    def _group(self, name: str) -> str:
        stored = self._names.inside(name)
        if stored is None:
            raise Refusal(
                "unknown_producer_group", f"there is no producer group {name!r}"
            )
        return stored

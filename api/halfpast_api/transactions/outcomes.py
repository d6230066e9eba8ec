"""How transactions end: committed or rolled back, by a producer or an operator."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.event_id import id_text
from halfpast_api.problems import Problem, Refusal, refusal_of, refuse_field
from halfpast_api.reading import Reader
from halfpast_api.refusals import problem_in_list
from halfpast_api.times import render_instant
from halfpast_api.transactions.bodies import EndsBody, ForceBody, NoBody
from halfpast_api.transactions.transaction_id import parse_transaction_id
from halfpast_txn.errors import UnknownTransaction
from halfpast_txn.transactions import (
    End,
    EndResult,
    EndTransactions,
    Source,
    Transactions,
    TransactionState,
)
from halfpast_txn.words import SOURCE_WORDS, STATE_WORDS, STATES, UNKNOWN

_DEPTH_MAX = 16


class OutcomeView(msgspec.Struct):
    """The outcome of a transaction. `checks` counts the check-backs before it."""

    id: str
    state: str
    decided_at: str
    source: str
    checks: int


class EndedItemView(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of one outcome."""

    index: int
    status: int
    id: str = ""
    state: str = ""
    decided_at: str = ""
    problem: Problem | None = None


class EndedView(msgspec.Struct):
    """One result per outcome, in their order."""

    results: list[EndedItemView]


class OutcomeHandlers:
    """Handlers for outcomes. A 200 means that it is durable."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._no_reader = Reader(NoBody, _DEPTH_MAX)
        self._ends_reader = Reader(EndsBody, _DEPTH_MAX)
        self._force_reader = Reader(ForceBody, _DEPTH_MAX)

    async def commit(self, call: Call) -> Answer:
        """POST /v1/transactions/{id}:commit"""
        return await self._end(call, TransactionState.COMMITTED)

    async def roll_back(self, call: Call) -> Answer:
        """POST /v1/transactions/{id}:rollback"""
        return await self._end(call, TransactionState.ROLLED_BACK)

    async def force(self, call: Call) -> Answer:
        """POST /v1/transactions/{id}:force

        Also for one that is parked. Whoever asks must say why.
        """
        transaction_id = parse_transaction_id(call.parameters[0])
        body = call.read(self._force_reader)
        reason = body.reason.strip()
        if not reason:
            raise refuse_field(
                "reason_required",
                "/reason",
                "an outcome by hand needs a reason, which is kept with it; say how you "
                "know that it is right",
            )
        state = STATES[body.state]
        end = End(transaction_id, state, "", Source.OPERATOR, reason=reason, by=body.by)
        return await self._answer(call, end)

    async def end_all(self, call: Call) -> Answer:
        """POST /v1/transactions:end

        Each is decided by itself.
        """
        body = call.read(self._ends_reader)
        ends: list[End] = []
        wrong: dict[int, Exception] = {}
        for index, it in enumerate(body.ends):
            try:
                transaction_id = parse_transaction_id(it.id)
            except (Refusal, UnknownTransaction) as error:
                wrong[index] = error
            else:
                ends.append(End(transaction_id, STATES[it.state]))
        results: Sequence[EndResult] = ()
        if ends:
            results = (await self._transactions.end(EndTransactions(ends))).results
        views = view_results((it.id for it in body.ends), results, wrong)
        return call.answer(200, EndedView(views))

    async def _end(self, call: Call, state: TransactionState) -> Answer:
        transaction_id = parse_transaction_id(call.parameters[0])
        if call.body:
            call.read(self._no_reader)
        return await self._answer(call, End(transaction_id, state))

    async def _answer(self, call: Call, end: End) -> Answer:
        (result,) = (await self._transactions.end(EndTransactions([end]))).results
        if result.code:
            raise _refusal(result)
        view = OutcomeView(
            id=id_text(end.transaction_id),
            state=STATE_WORDS[result.state],
            decided_at=render_instant(result.decided_ms),
            source=SOURCE_WORDS.get(result.source, UNKNOWN),
            checks=result.checks,
        )
        return call.answer(200, view)


def view_results(
    texts: Iterable[str],
    results: Sequence[EndResult],
    wrong: Mapping[int, Exception],
) -> list[EndedItemView]:
    """One view per text, an id as the caller wrote it: `wrong` by index, and the
    results of the others in their order."""
    ended = iter(results)
    return [
        _refused(index, wrong[index])
        if index in wrong
        else _view(index, text.lower(), next(ended))
        for index, text in enumerate(texts)
    ]


def _view(index: int, text: str, result: EndResult) -> EndedItemView:
    if result.code:
        return _refused(index, _refusal(result))
    decided_at = render_instant(result.decided_ms) if result.decided_ms else ""
    state = STATE_WORDS.get(result.state, UNKNOWN)
    return EndedItemView(index, 200, text, state, decided_at)


def _refused(index: int, error: Exception) -> EndedItemView:
    problem = problem_in_list(error)
    return EndedItemView(index, problem.status, problem=problem)


def _refusal(result: EndResult) -> Refusal:
    state = STATE_WORDS.get(result.state, "")
    return refusal_of(result.code, result.detail or result.code, state=state)

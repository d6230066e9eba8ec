"""Check-backs by long poll: a producer takes questions and answers them.

Any live producer of the group may answer, whoever began the transaction.
"""

from collections.abc import Sequence

import msgspec

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.consume import WAIT_MS_MAX
from halfpast_api.long_poll import LongPolls
from halfpast_api.names import check_producer_group
from halfpast_api.problems import FieldProblem, Refusal
from halfpast_api.reading import Reader
from halfpast_api.transactions.bodies import AnswerBody, AnswersBody
from halfpast_api.transactions.outcomes import EndedView, view_results
from halfpast_api.transactions.transaction_id import parse_transaction_id
from halfpast_txn.check_call import CheckView, check_view
from halfpast_txn.errors import UnknownTransaction
from halfpast_txn.transactions import (
    AnswerChecks,
    CheckAnswer,
    EndResult,
    PollChecks,
    PolledChecks,
    Transactions,
)
from halfpast_txn.words import STATES

_COUNT_MAX = 1000
_DEPTH_MAX = 16


class ChecksView(msgspec.Struct):
    """Questions that this producer is to answer; nobody else is asked these now."""

    checks: list[CheckView]


class CheckHandlers:
    """Handlers for producers that are asked how transactions ended."""

    def __init__(self, transactions: Transactions, polls: LongPolls) -> None:
        self._transactions = transactions
        self._polls = polls
        self._reader = Reader(AnswersBody, _DEPTH_MAX)

    async def poll(self, call: Call) -> Answer:
        """GET /v1/producer-groups/{group}/checks"""
        group = call.parameters[0]
        check_producer_group(group)
        query = call.query("wait_ms", "max")
        wait_ms = query.integer("wait_ms", 0, 0, WAIT_MS_MAX)
        request = PollChecks(
            group=group,
            count=query.integer("max", 100, 1, _COUNT_MAX),
            wait_ms=0 if self._polls.stopping else wait_ms,
        )
        work = self._transactions.poll_checks(request)
        if request.wait_ms:
            polled = await self._polls.wait(call.connection, work) or PolledChecks([])
        else:
            polled = await work
        return call.answer(200, ChecksView([*map(check_view, polled.checks)]))

    async def answer(self, call: Call) -> Answer:
        """POST /v1/producer-groups/{group}/checks:answer

        Nothing is done for a request of which one answer cannot be read: an answer
        that is guessed is worse than none.
        """
        group = call.parameters[0]
        check_producer_group(group)
        body = self._read(call)
        answers: list[CheckAnswer] = []
        wrong: dict[int, Exception] = {}
        for index, it in enumerate(body.answers):
            try:
                answers.append(_answer(index, it))
            except UnknownTransaction as error:
                wrong[index] = error
        results: Sequence[EndResult] = ()
        if answers:
            request = AnswerChecks(group, answers)
            results = (await self._transactions.answer_checks(request)).results
        views = view_results((it.id for it in body.answers), results, wrong)
        return call.answer(200, EndedView(views))

    def _read(self, call: Call) -> AnswersBody:
        try:
            return call.read(self._reader)
        except Refusal as refusal:
            if not any(it.pointer.startswith("/answers/") for it in refusal.errors):
                raise
            raise _malformed(refusal) from None


def _answer(index: int, body: AnswerBody) -> CheckAnswer:
    try:
        transaction_id = parse_transaction_id(body.id)
    except Refusal as refusal:
        at = FieldProblem(f"/answers/{index}/id", refusal.detail)
        raise _malformed(Refusal(refusal.code, refusal.detail, [at])) from None
    state = STATES.get(body.state, 0)
    return CheckAnswer(transaction_id, state, body.check)


def _malformed(refusal: Refusal) -> Refusal:
    return Refusal(
        "malformed_answer",
        f"nothing was taken from this request: {refusal.detail}. An answer is the id "
        "of a transaction and its state: committed, rolled_back or unknown",
        refusal.errors,
    )

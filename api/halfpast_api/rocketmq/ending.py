"""EndTransaction: a producer says how its local transaction ended."""

from halfpast_api.access.verbs import Verb
from halfpast_api.problems import refusal_of
from halfpast_api.rocketmq.caller import Caller, Callers
from halfpast_api.rocketmq.orphan_checks import OrphanChecks
from halfpast_api.rocketmq.protocol import (
    Code,
    EndTransactionRequest,
    TransactionResolution,
    TransactionSource,
)
from halfpast_api.rocketmq.resources import topic_name
from halfpast_api.rocketmq.statuses import CallRefused
from halfpast_api.transactions.transaction_id import parse_transaction_id
from halfpast_txn.transactions import (
    AnswerChecks,
    CheckAnswer,
    End,
    EndResult,
    EndTransactions,
    Source,
    TransactionState,
)

_STATES = {
    TransactionResolution.COMMIT: TransactionState.COMMITTED,
    TransactionResolution.ROLLBACK: TransactionState.ROLLED_BACK,
}


class Ending:
    """Takes outcomes, from producers and from those that were asked."""

    def __init__(self, callers: Callers, checks: OrphanChecks) -> None:
        self._callers = callers
        self._checks = checks

    async def end(self, caller: Caller, request: EndTransactionRequest) -> None:
        """A return means that the outcome is durable, or noted if it is unknown. Raises
        CallRefused, Refusal, UnknownTransaction."""
        caller = self._callers.within(caller, request.topic)
        topic = topic_name(request.topic)
        caller.check(Verb.PUBLISH, topic)
        transaction_id = parse_transaction_id(request.transaction_id)
        state = _STATES.get(request.resolution)
        is_answer = request.source == TransactionSource.SOURCE_SERVER_CHECK
        if state is None and not is_answer:
            raise CallRefused(
                Code.BAD_REQUEST,
                "the call names no outcome; a producer commits or rolls back, and only "
                "the answer to a check may leave it open",
            )
        namespace = caller.access.namespace
        asked = self._checks.asked(namespace, transaction_id)
        transactions = caller.room.space.transactions
        if is_answer and (asked is not None or state is None):
            # Of a question that another process has asked we know the topic, which is
            # the group unless the transaction was begun over HTTP.
            group, check = asked or (topic, 0)
            answer = CheckAnswer(transaction_id, state or 0, check)
            answers = AnswerChecks(group, [answer])
            (result,) = (await transactions.answer_checks(answers)).results
        else:
            assert state is not None
            source = Source.CHECK if is_answer else Source.PRODUCER
            end = End(transaction_id, state, source=source)
            (result,) = (await transactions.end(EndTransactions([end]))).results
        _check(result)
        if state is not None:
            self._checks.ended(namespace, transaction_id)


def _check(result: EndResult) -> None:
    if result.code:
        raise refusal_of(result.code, result.detail or result.code)

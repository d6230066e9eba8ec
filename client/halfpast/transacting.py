"""The client's fourth part: transactions, and answering the server's check-backs."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TypedDict

from halfpast.model import Settled
from halfpast.request_body import MSGPACK, milliseconds
from halfpast.server_calls import NOTHING, ServerCalls, escaped
from halfpast.transaction import Transaction
from halfpast.transaction_body import (
    AnsweredBody,
    BeginBody,
    ChecksBody,
    packed_answers,
    span_ms,
)
from halfpast.transaction_calls import TransactionCalls
from halfpast.transaction_model import CheckAnswer, TransactionCheck
from halfpast.transport import Repeat


class TransactionOptions(TypedDict, total=False):
    """The options of `Client.transaction`."""

    check_after: timedelta | None
    check_interval: timedelta | None
    check_max: int | None
    reference: str | None
    check_required: bool


class Transacting(ServerCalls):
    """Begin transactions; take and answer check-backs."""

    _transactions: TransactionCalls

    def transaction(
        self,
        producer_group: str,
        *,
        check_after: timedelta | None = None,
        check_interval: timedelta | None = None,
        check_max: int | None = None,
        reference: str | None = None,
        check_required: bool = False,
    ) -> Transaction:
        """Messages that are delivered if and only if the block is left cleanly.

        Use it in `async with`; the first `send` begins it on the server. If the
        server hears of no outcome it asks the producer group: first `check_after`
        the beginning, then about every `check_interval`, `check_max` times; the
        group's or the server's settings count where you give none. `reference` is
        your own word for the transaction and comes back in those checks. With
        `check_required` InvalidRequest if nobody has set the producer group up.
        """
        begin = BeginBody(
            producer_group=producer_group,
            check_after_ms=span_ms(check_after),
            check_interval_ms=span_ms(check_interval),
            check_max=check_max,
            check_required=check_required,
            reference=reference,
        )
        return Transaction(self._transactions, begin)

    async def checks(
        self, producer_group: str, *, max_checks: int = 100, wait: timedelta = NOTHING
    ) -> list[TransactionCheck]:
        """Take the server's questions to a producer group; wait for the first one.

        What is not answered is asked again later. A TransactionalProducer does this
        for you.
        """
        query = {"max": str(max_checks), "wait_ms": str(milliseconds(wait))}
        path = f"/v1/producer-groups/{escaped(producer_group)}/checks"
        answer = await self._read(path, query, wait)
        return [body.transaction_check() for body in answer.read(ChecksBody).checks]

    async def answer_checks(
        self,
        producer_group: str,
        answers: Iterable[tuple[TransactionCheck, CheckAnswer]],
    ) -> list[Settled]:
        """Tell how these transactions ended. One result per answer, in order."""
        given = list(answers)
        if not given:
            return []
        answer = await self._send(
            "POST",
            f"/v1/producer-groups/{escaped(producer_group)}/checks:answer",
            repeat=Repeat.SAME_ANSWER,
            body=packed_answers(given),
            content_type=MSGPACK,
        )
        return [item.settled() for item in answer.read(AnsweredBody).results]

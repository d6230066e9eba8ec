"""Transactions and check-backs as they travel: MessagePack both ways."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from halfpast.answer_body import ProblemBody
from halfpast.errors import ApiProblem, api_problem
from halfpast.model import Settled
from halfpast.request_body import milliseconds
from halfpast.transaction_model import CheckAnswer, CheckedMessage, TransactionCheck


class BeginBody(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How a transaction begins; `messages` are encoded already."""

    producer_group: str
    messages: list[msgspec.Raw] = msgspec.field(default_factory=list[msgspec.Raw])
    check_after_ms: int | None = None
    check_interval_ms: int | None = None
    check_max: int | None = None
    check_required: bool = False
    reference: str | None = None

    def packed(self, messages: Iterable[bytes]) -> bytes:
        """The request to begin with these messages."""
        self.messages = [msgspec.Raw(message) for message in messages]
        return _encode(self)


class EndBody(msgspec.Struct):
    """One outcome: committed or rolled_back."""

    id: str
    state: str


class CheckAnswerBody(msgspec.Struct, omit_defaults=True):
    id: str
    state: str
    check: int = 0


class MessageIdBody(msgspec.Struct):
    id: str


class BegunBody(msgspec.Struct):
    """A transaction that is prepared. Those of a batch come without messages."""

    id: str
    messages: list[MessageIdBody] = []


class AddedBody(msgspec.Struct):
    messages: list[MessageIdBody]


class BegunItemBody(msgspec.Struct):
    status: int
    id: str = ""
    problem: ProblemBody | None = None

    def outcome(self) -> BegunBody | ApiProblem:
        if self.status < 300:
            return BegunBody(self.id)
        return api_problem((self.problem or ProblemBody()).problem(self.status))


class BegunBatchBody(msgspec.Struct):
    results: list[BegunItemBody]


class EndedItemBody(msgspec.Struct):
    status: int
    problem: ProblemBody | None = None

    def outcome(self) -> ApiProblem | None:
        if self.status < 300:
            return None
        return api_problem((self.problem or ProblemBody()).problem(self.status))


class EndedBody(msgspec.Struct):
    results: list[EndedItemBody]


class AnsweredItemBody(msgspec.Struct):
    status: int
    problem: ProblemBody | None = None

    def settled(self) -> Settled:
        if self.status < 300:
            return Settled(ok=True)
        problem = (self.problem or ProblemBody()).problem(self.status)
        return Settled(ok=False, code=problem.code)


class AnsweredBody(msgspec.Struct):
    results: list[AnsweredItemBody]


class CheckedMessageBody(msgspec.Struct):
    id: str
    topic: str
    key: str | None = None
    tag: str | None = None


class CheckBody(msgspec.Struct):
    id: str
    check: int = 0
    producer_group: str = ""
    begun_at: datetime | None = None
    reference: str | None = None
    message_count: int = 0
    messages: list[CheckedMessageBody] = []

    def transaction_check(self) -> TransactionCheck:
        return TransactionCheck(
            id=self.id,
            check=self.check,
            producer_group=self.producer_group,
            begun_at=self.begun_at,
            reference=self.reference or "",
            message_count=self.message_count,
            messages=tuple(
                CheckedMessage(id=m.id, topic=m.topic, key=m.key, tag=m.tag)
                for m in self.messages
            ),
        )


class ChecksBody(msgspec.Struct):
    checks: list[CheckBody]


def packed_begins(transactions: Sequence[bytes]) -> bytes:
    """Several transactions that `BeginBody.packed` has encoded."""
    return _encode({"transactions": [msgspec.Raw(one) for one in transactions]})


def packed_ends(ends: Sequence[EndBody]) -> bytes:
    return _encode({"ends": ends})


def packed_add(first_index: int, messages: Iterable[bytes]) -> bytes:
    """Further messages, encoded already, behind the first `first_index` ones."""
    raws = [msgspec.Raw(message) for message in messages]
    return _encode({"first_index": first_index, "messages": raws})


def packed_answers(answers: Iterable[tuple[TransactionCheck, CheckAnswer]]) -> bytes:
    bodies = [
        CheckAnswerBody(check.id, answer.value, check.check)
        for check, answer in answers
    ]
    return _encode({"answers": bodies})


def span_ms(span: timedelta | None) -> int | None:
    return None if span is None else milliseconds(span)


_encode = msgspec.msgpack.Encoder().encode

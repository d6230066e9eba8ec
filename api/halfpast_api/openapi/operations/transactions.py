"""Transactions begin, end, and are looked after."""

from halfpast_api.openapi import codes, parameters, samples
from halfpast_api.openapi.operation import Example, Operation, Reply, Tag
from halfpast_api.transactions.batch import BegunBatchView
from halfpast_api.transactions.begin import AddedView, BegunView
from halfpast_api.transactions.bodies import (
    AddBody,
    BeginBatchBody,
    BeginBody,
    EndsBody,
    ForceBody,
    NoBody,
    ResumeBody,
)
from halfpast_api.transactions.outcomes import EndedView, OutcomeView
from halfpast_api.transactions.transaction_view import (
    TransactionPageView,
    TransactionView,
)
from halfpast_txn.words import STATES

TAG = Tag(
    "Transactions",
    "Messages that are delivered if and only if your own database transaction commits: "
    "begin with the messages, change your database, then commit or roll back. If no "
    "outcome comes, the producer group is asked.",
)
_ALL, _ONE = "/v1/transactions", "/v1/transactions/{id}"
_BEGIN = (
    *codes.BODY,
    *codes.WRITES,
    *codes.METADATA,
    *codes.TOPIC,
    *codes.TIME,
    *codes.CONTENT,
    "no_messages",
    "too_many_messages",
    "transaction_too_large",
    "topic_closed",
)
_NEW = (
    *_BEGIN,
    *codes.IDEMPOTENT,
    *codes.PRODUCER_GROUP,
    "producer_group_required",
    "invalid_check_policy",
    "invalid_reference",
)
_ENDED = Reply("The durable outcome.", OutcomeView)
_END_TEXT = (
    "A 200 means that the outcome is durable. The same outcome again gets the same "
    "answer; the other one gets a 409 with the `state` that it has."
)

_BEGINNING = (
    Operation(
        method="POST",
        template=_ALL,
        name="beginTransaction",
        tag=TAG.name,
        summary="Begin a transaction with its messages",
        text="The messages are durable, and seen by nobody before the commit; a delay "
        "begins with the commit.",
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=BeginBody,
        replies={
            201: Reply("It is open.", BegunView, ("Location", "Idempotency-Replayed"))
        },
        problems=_NEW,
        examples=(
            Example(
                text="An order, and its time-out",
                body={
                    "producer_group": "orders",
                    "messages": [
                        {"topic": "order-created", "data": {"order": 17}},
                        {
                            "topic": "order-timeout",
                            "data": {"order": 17},
                            "delay": "PT30M",
                        },
                    ],
                    "reference": "order 17",
                },
                status=201,
            ),
        ),
    ),
    Operation(
        method="POST",
        template=_ALL + ":batch",
        name="beginTransactions",
        tag=TAG.name,
        summary="Begin several transactions in one request",
        text="Each stands for itself: a bad one does not refuse the others.",
        parameters=(parameters.IDEMPOTENCY_KEY,),
        body=BeginBatchBody,
        replies={
            200: Reply(
                "One result per transaction.", BegunBatchView, ("Idempotency-Replayed",)
            )
        },
        problems=(*_NEW, "too_many_transactions"),
        examples=(
            Example(
                text="Two",
                body={
                    "transactions": [
                        {
                            "producer_group": "orders",
                            "messages": [{"topic": "order-created", "data": number}],
                        }
                        for number in (17, 18)
                    ]
                },
            ),
        ),
    ),
    Operation(
        method="POST",
        template=_ONE + ":add",
        name="addMessages",
        tag=TAG.name,
        summary="Add messages to an open transaction",
        text="`first_index` counts the messages before these, so that a repetition "
        "adds nothing twice.",
        parameters=(parameters.TRANSACTION_ID,),
        body=AddBody,
        replies={200: Reply("The messages of this request.", AddedView)},
        problems=(
            *_BEGIN,
            *codes.TRANSACTION,
            "transaction_conflict",
            "transaction_parked",
            "messages_out_of_order",
        ),
        examples=(
            Example(
                text="A second message",
                body={
                    "first_index": 1,
                    "messages": [{"topic": "mail", "data": {"order": 17}}],
                },
            ),
        ),
    ),
)

_ENDING = (
    Operation(
        method="POST",
        template=_ONE + ":commit",
        name="commitTransaction",
        tag=TAG.name,
        summary="Commit: its messages are delivered, their delays begin",
        text=_END_TEXT,
        parameters=(parameters.TRANSACTION_ID,),
        body=NoBody,
        body_optional=True,
        replies={200: _ENDED},
        problems=(*codes.BODY, *codes.OUTCOME),
        examples=(Example(text="Commit"),),
    ),
    Operation(
        method="POST",
        template=_ONE + ":rollback",
        name="rollBackTransaction",
        tag=TAG.name,
        summary="Roll back: its messages are dropped",
        text=_END_TEXT,
        parameters=(parameters.TRANSACTION_ID,),
        body=NoBody,
        body_optional=True,
        replies={200: _ENDED},
        problems=(*codes.BODY, *codes.OUTCOME),
        examples=(Example(text="Roll back"),),
    ),
    Operation(
        method="POST",
        template=_ALL + ":end",
        name="endTransactions",
        tag=TAG.name,
        summary="Give the outcomes of many transactions",
        text="Each is decided by itself, and has a result of its own.",
        body=EndsBody,
        replies={200: Reply("One result per outcome.", EndedView)},
        problems=(*codes.BODY, *codes.WRITES),
        examples=(
            Example(
                text="One",
                body={"ends": [{"id": samples.TRANSACTION, "state": "committed"}]},
            ),
        ),
    ),
)

_LOOKING = (
    Operation(
        method="GET",
        template=_ALL,
        name="listTransactions",
        tag=TAG.name,
        summary="List transactions; without a state those in doubt",
        text="Those in doubt are the parked ones, which wait for an operator, then the "
        "open ones, each by age.",
        parameters=(
            parameters.choice(
                "state", "Their state.", ["in_doubt", *STATES], "in_doubt"
            ),
            parameters.query(
                "producer_group",
                "Only those of this producer group.",
                parameters.FILTER_SCHEMA,
                "orders",
            ),
            parameters.LIMIT,
            parameters.PAGE_TOKEN,
        ),
        replies={200: Reply("A page, without messages.", TransactionPageView)},
        problems=(*codes.SERVICES, *codes.PAGE, *codes.PRODUCER_GROUP),
        examples=(Example(text="In doubt", parameters={"producer_group": "orders"}),),
    ),
    Operation(
        method="GET",
        template=_ONE,
        name="getTransaction",
        tag=TAG.name,
        summary="Look at a transaction, its messages and its time line",
        parameters=(parameters.TRANSACTION_ID,),
        replies={200: Reply("The transaction.", TransactionView)},
        problems=codes.TRANSACTION,
        examples=(Example(text="A transaction"),),
    ),
    Operation(
        method="POST",
        template=_ONE + ":resume",
        name="resumeTransaction",
        tag=TAG.name,
        summary="Have a parked transaction asked about again",
        parameters=(parameters.TRANSACTION_ID,),
        body=ResumeBody,
        body_optional=True,
        replies={200: Reply("The transaction.", TransactionView)},
        problems=(*codes.BODY, *codes.OUTCOME),
        examples=(
            Example(
                text="The producers are back",
                body={"reason": "the producers are back", "by": "ada"},
            ),
        ),
    ),
    Operation(
        method="POST",
        template=_ONE + ":force",
        name="forceTransaction",
        tag=TAG.name,
        summary="Give the outcome by hand, with a reason",
        text="It is for ever. Look into the producer's own database first.",
        parameters=(parameters.TRANSACTION_ID,),
        body=ForceBody,
        replies={200: _ENDED},
        problems=(*codes.BODY, *codes.OUTCOME, "reason_required"),
        examples=(
            Example(
                text="It is in the books",
                body={
                    "state": "committed",
                    "reason": "order 17 is in the books",
                    "by": "ada",
                },
            ),
        ),
    ),
)
OPERATIONS = (*_BEGINNING, *_ENDING, *_LOOKING)

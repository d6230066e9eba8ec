"""Transactions and producer groups."""

from typing import Final

from halfpast_api.metadata.settings import (
    CHECK_AFTER_MS_MAX,
    CHECK_CONCURRENCY_MAX,
    CHECK_INTERVAL_MS_MAX,
    CHECK_INTERVAL_MS_MIN,
    CHECK_TIMEOUT_MS_MAX,
    CHECK_TIMEOUT_MS_MIN,
    CHECKS_MAX,
)
from halfpast_api.openapi import samples
from halfpast_api.openapi.parameters import TOPIC_SCHEMA
from halfpast_api.openapi.words.word import Word, Words, id_word, instant, number

TRANSACTIONS: Final[Words] = {
    "producer_group": Word(
        "Who is asked for the outcome.", "orders", given=TOPIC_SCHEMA
    ),
    "reference": Word(
        "Your own word for it, at most 512 bytes; it comes with each question.",
        "order 17",
    ),
    "check_after_ms": number(
        "When the first check-back comes.", 6000, 0, CHECK_AFTER_MS_MAX
    ),
    "check_interval_ms": number(
        "How long to the second one; then twice as long each time.",
        30_000,
        CHECK_INTERVAL_MS_MIN,
        CHECK_INTERVAL_MS_MAX,
    ),
    "check_max": number("How many come before it is parked.", 15, 1, CHECKS_MAX),
    "check_required": Word("Refuse a producer group without settings.", False),
    "check_at": instant("When the first check-back comes."),
    "check": Word("The number of the check-back, from 1.", 1),
    "checks": Word("How many check-backs there were.", 0),
    "ChecksView.checks": Word("The questions."),
    "first_index": number("How many messages it has before these.", 1),
    "ends": Word("Outcomes."),
    "answers": Word("Answers."),
    "by": Word("Who says so.", "ada"),
    "ResumeBody.reason": Word("Why.", "the producers are back"),
    "ForceBody.reason": Word("How you know; needed.", "order 17 is in the books"),
    "begun_at": instant("When it began.", "2026-11-20T10:00:00.123Z"),
    "age_ms": Word("How long it has been open.", 61_000),
    "message_count": Word("How many messages it has.", 2),
    "next_check_at": instant("When it is asked about next."),
    "last_answer": Word("What the last check-back brought.", "unknown"),
    "decided_at": instant("When the outcome became durable."),
    "source": Word("Who gave it: `producer`, `check` or `operator`.", "producer"),
    "size": Word("Bytes of its record.", 120),
    "transactions": Word("The transactions."),
    "TransactionView.id": id_word("Its id.", samples.TRANSACTION),
    "BegunView.id": id_word("The transaction's id.", samples.TRANSACTION),
    "BegunItemView.id": id_word("The transaction's id.", samples.TRANSACTION),
    "AddedView.id": id_word("The transaction's id.", samples.TRANSACTION),
    "OutcomeView.id": id_word("The transaction's id.", samples.TRANSACTION),
    "EndBody.id": id_word("The transaction's id.", samples.TRANSACTION),
    "EndedItemView.id": Word(
        "The transaction's id, as you wrote it.", samples.TRANSACTION
    ),
    "AnswerBody.id": id_word("The transaction's id.", samples.TRANSACTION),
    "CheckView.id": id_word("The transaction's id.", samples.TRANSACTION),
    "BegunMessageView.id": id_word("The id that it will have.", samples.MESSAGE),
    "CheckMessageView.id": id_word("The message's id.", samples.MESSAGE),
    "TransactionMessageView.id": id_word("The message's id.", samples.MESSAGE),
    "BegunView.state": Word("Always `prepared`.", "prepared"),
    "BegunItemView.state": Word("`prepared`.", "prepared"),
    "AddedView.state": Word("Always `prepared`.", "prepared"),
    "OutcomeView.state": Word("The outcome.", "committed"),
    "EndedItemView.state": Word("The outcome.", "committed"),
    "EndBody.state": Word("The outcome.", "committed"),
    "ForceBody.state": Word("The outcome.", "committed"),
    "AnswerBody.state": Word("How it ended.", "committed"),
    "CheckReply.state": Word("How it ended.", "committed"),
    "TransactionView.state": Word(
        "`prepared`, `parked`, `committed` or `rolled_back`.", "prepared"
    ),
    "timestamp": instant("When the call was made."),
    "CallView.data": Word("The question."),
    "producer_groups": Word("The producer groups."),
    "check_url": Word(
        "Where it is asked; without one its producers poll.",
        "https://orders.example.com/halfpast/check",
    ),
    "check_secrets": Word(
        "What calls are signed with, the newest first; an answer only counts them.", 1
    ),
    "ProducerGroupBody.check_secrets": Word(
        "What calls are signed with, the newest first; at most two.",
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        given={
            "maxItems": 2,
            "items": {"type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{32,86}=*$"},
        },
    ),
    "check_timeout_ms": number(
        "How long a call may take.", 5000, CHECK_TIMEOUT_MS_MIN, CHECK_TIMEOUT_MS_MAX
    ),
    "check_concurrency_max": number(
        "How many calls at once.", 8, 1, CHECK_CONCURRENCY_MAX
    ),
}

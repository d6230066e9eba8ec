"""Transactions as the API shows them. What does not apply is left out."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from halfpast_api.event_id import id_text
from halfpast_api.event_view import TimelineEntry
from halfpast_api.times import render_instant
from halfpast_txn.transactions import MessageHead, Transaction, TransactionState
from halfpast_txn.words import (
    HAPPENING_WORDS,
    SOURCE_WORDS,
    STATE_WORDS,
    UNKNOWN,
)

_OPEN = (TransactionState.PREPARED, TransactionState.PARKED)


class TransactionMessageView(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One message, without its data. `size` is in bytes, of its record. `delay_ms`
    begins with the commit; without a time it is delivered by the commit."""

    id: str
    topic: str
    key: str = ""
    tag: str = ""
    size: int
    deliver_at: str = ""
    delay_ms: int = 0


class TransactionView(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One transaction. `age_ms` while it is open; `check` is the number of the
    check-back that brought the outcome. `messages` as long as it is open."""

    id: str
    state: str
    producer_group: str
    reference: str = ""
    begun_at: str
    age_ms: int | UnsetType = UNSET
    message_count: int
    checks: int
    check_max: int
    check_interval_ms: int
    next_check_at: str = ""
    last_answer: str = ""
    decided_at: str = ""
    source: str = ""
    check: int = 0
    reason: str = ""
    by: str = ""
    timeline: list[TimelineEntry]
    messages: list[TransactionMessageView] | UnsetType = UNSET


class TransactionPageView(msgspec.Struct):
    """A page of transactions, without their messages."""

    transactions: list[TransactionView]
    next_page_token: str | None


def view_transaction(transaction: Transaction, now_ms: int) -> TransactionView:
    """One transaction without its messages."""
    is_open = transaction.state in _OPEN
    view = TransactionView(
        id=id_text(transaction.transaction_id),
        state=STATE_WORDS.get(transaction.state, UNKNOWN),
        producer_group=transaction.group,
        reference=transaction.reference,
        begun_at=render_instant(transaction.begun_ms),
        message_count=transaction.message_count,
        checks=transaction.checks,
        check_max=transaction.check_max,
        check_interval_ms=transaction.check_interval_ms,
        last_answer=transaction.last_answer,
        source=SOURCE_WORDS.get(transaction.source, ""),
        check=transaction.check,
        reason=transaction.reason,
        by=transaction.by,
        timeline=[
            TimelineEntry(render_instant(at), HAPPENING_WORDS.get(what, UNKNOWN))
            for at, what in transaction.timeline
        ],
    )
    if is_open:
        view.age_ms = max(0, now_ms - transaction.begun_ms)
    if transaction.next_ms:
        view.next_check_at = render_instant(transaction.next_ms)
    if transaction.decided_ms:
        view.decided_at = render_instant(transaction.decided_ms)
    return view


def view_messages(
    messages: list[MessageHead], topics: Mapping[int, str]
) -> list[TransactionMessageView]:
    """The messages of one transaction; `topics` has the names."""
    return [
        TransactionMessageView(
            id=id_text(it.event_id),
            topic=topics.get(it.topic_id, ""),
            key=it.key.decode(errors="replace"),
            tag=it.tag.decode(errors="replace"),
            size=it.size,
            deliver_at=render_instant(it.due_ms) if it.due_ms else "",
            delay_ms=it.delay_ms,
        )
        for it in messages
    ]

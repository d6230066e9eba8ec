"""What the services know of an event now, beside what the audits found in the log."""

import asyncio
import time
from typing import Final

import msgspec

from halfpast_api.event_view import (
    EventView,
    TimelineEntry,
    view_event,
    view_in_transaction,
    view_stored,
)
from halfpast_api.reading import Format
from halfpast_api.topic_directory import TopicDirectory
from halfpast_api.transactions.owner import OwnerLookup
from halfpast_api.transactions.transaction_view import view_transaction
from halfpast_chronos.delay_server import DelayServer, GetEvent
from halfpast_core_store.broker import Broker, FindEvent
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_txn.transactions import GetTransaction, Transactions

PATIENCE_S: Final = 2.0
_TRANSACTION_END: Final = b"\0\0"


class LiveEvent(msgspec.Struct):
    """An event, or a transaction; `facts` are names and values."""

    state: str
    facts: list[tuple[str, str]]
    timeline: list[TimelineEntry]


class LiveEvents:
    """A look into the services, which may be away: the page does without them then."""

    def __init__(
        self,
        broker: Broker,
        delay: DelayServer,
        transactions: Transactions,
        directory: TopicDirectory,
    ) -> None:
        self._broker = broker
        self._delay = delay
        self._transactions = transactions
        self._owners = OwnerLookup(transactions)
        self._directory = directory

    async def find(self, event_id: bytes) -> LiveEvent | None:
        """None if nobody knows it, or nobody answers in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                view = await self._event(event_id)
                if view is None and event_id[14:] == _TRANSACTION_END:
                    return await self._transaction(event_id)
        except Exception:  # whatever it is, the audits' own findings are shown
            return None
        return None if view is None else _of_event(view)

    async def _transaction(self, event_id: bytes) -> LiveEvent | None:
        got = await self._transactions.get(GetTransaction(event_id))
        if got.transaction is None:
            return None
        view = view_transaction(got.transaction, time.time_ns() // 1_000_000)
        facts = [
            ("producer group", view.producer_group),
            ("reference", view.reference),
            ("messages", str(view.message_count)),
            ("checks", f"{view.checks} of {view.check_max}"),
            ("decided by", view.source),
            ("reason", view.reason),
        ]
        return LiveEvent(view.state, _given(facts), view.timeline)

    async def _event(self, event_id: bytes) -> EventView | None:
        event = (await self._delay.get_event(GetEvent(event_id))).event
        if event is not None:
            topic = await self._directory.name_of(event.topic_id)
            return view_event(event, topic, event.record, None)
        found = await self._broker.find_event(FindEvent(event_id))
        if found.record is not None:
            record = decode_record(found.record)
            if record.kind == RecordKind.NORMAL:
                topic = await self._directory.name_of(record.topic_id)
                return view_stored(record, topic, found.stored_ms, Format.JSON)
        owner = await self._owners.find(event_id)
        if owner is None:
            return None
        ids = {it.topic_id for it in owner.messages}
        return view_in_transaction(event_id, owner, await self._directory.names_of(ids))


def _of_event(view: EventView) -> LiveEvent:
    facts = [
        ("topic", view.topic),
        ("key", view.key or ""),
        ("tag", view.tag or ""),
        ("due", view.deliver_at or ""),
        ("delivered", view.delivered_at or ""),
        ("cancelled", view.cancelled_at or ""),
        ("late by, ms", "" if view.lateness_ms is None else str(view.lateness_ms)),
    ]
    return LiveEvent(view.state, _given(facts), view.timeline)


def _given(facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [it for it in facts if it[1]]

"""Transactions come in: `POST /v1/transactions`, and more messages for one.

Beginning one takes the broker alone: its records are durable before the answer, and
the transaction service finds them in the log.
"""

from collections.abc import Mapping
from itertools import islice

import msgspec

from halfpast_api.access.namespaced_names import ALL_NAMES, Names
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.config import BodyLimits, TransactionLimits
from halfpast_api.encoding import Seed
from halfpast_api.event_body import BatchEventBody
from halfpast_api.event_id import id_text
from halfpast_api.idempotency import REPLAYED, dedup_of, seed_of
from halfpast_api.problems import refuse_field
from halfpast_api.publish import Source
from halfpast_api.reading import Reader
from halfpast_api.times import NS_PER_MS, render_instant
from halfpast_api.topic_directory import Topic, TopicDirectory
from halfpast_api.transactions.bodies import AddBody, BeginBody
from halfpast_api.transactions.draft import (
    ProducerGroupSource,
    check_begin,
    check_count,
    encode_begin,
    encode_more,
    stored_group,
)
from halfpast_api.transactions.message_count import MessageCounter
from halfpast_api.transactions.transaction_id import parse_transaction_id
from halfpast_core_store.broker import Append, Broker
from halfpast_txn.transactions import AddMessages, Transactions
from halfpast_txn.words import PREPARED


class BegunMessageView(msgspec.Struct, gc=False):
    """The id that a message will have."""

    id: str
    topic: str


class BegunView(msgspec.Struct, kw_only=True):
    """The answer to a begin. `check_at`: when its producer group is asked how it
    ended, unless it has by then."""

    id: str
    state: str = PREPARED
    producer_group: str
    messages: list[BegunMessageView]
    check_at: str
    server_time: str


class AddedView(msgspec.Struct):
    """The answer to adding messages; `messages` are those of this request."""

    id: str
    state: str
    messages: list[BegunMessageView]


class BeginHandlers:
    """Handlers for one transaction that begins."""

    def __init__(
        self,
        broker: Broker,
        transactions: Transactions,
        directory: TopicDirectory,
        groups: ProducerGroupSource,
        source: Source,
        limits: TransactionLimits,
        bodies: BodyLimits,
        names: Names = ALL_NAMES,
    ) -> None:
        self._names = names
        self._broker = broker
        self._transactions = transactions
        self._directory = directory
        self._groups = groups
        self._source = source
        self._limits = limits
        self._reader = Reader(BeginBody, bodies.depth_max)
        self._add_reader = Reader(AddBody, bodies.depth_max)
        self._counter = MessageCounter(limits.message_count_max)

    async def begin(self, call: Call) -> Answer:
        """POST /v1/transactions"""
        check_count(self._counter.suspicion(call), self._limits)
        body = call.read(self._reader)
        policy = check_begin(body, self._groups, self._limits)
        seed = self._source.seed()
        dedup = dedup_of(call, "transaction", seed)
        topics, wrong = await self._topics(call, body.messages)
        group = stored_group(body.producer_group, self._names)
        run = encode_begin(
            body, policy, topics, wrong, seed, call.form, self._limits, group
        )
        appended = await self._broker.append(Append([run], dedup=dedup))
        extra: list[tuple[str, str]] = []
        if appended.replayed is not None:
            seed = seed_of(appended, seed)
            extra.append(REPLAYED)
        accepted_ms = seed.accepted_ns // NS_PER_MS
        view = BegunView(
            id=id_text(seed.base_id),
            producer_group=body.producer_group,
            messages=_message_views(body.messages, seed, 0),
            check_at=render_instant(accepted_ms + policy.check_after_ms),
            server_time=render_instant(accepted_ms),
        )
        extra.append(("Location", f"/v1/transactions/{view.id}"))
        return call.answer(201, view, extra)

    async def add(self, call: Call) -> Answer:
        """POST /v1/transactions/{id}:add

        A repetition adds nothing twice, and is answered in the same way.
        """
        transaction_id = parse_transaction_id(call.parameters[0])
        check_count(self._counter.suspicion(call), self._limits)
        body = call.read(self._add_reader)
        first_index = body.first_index
        if first_index < 0:
            raise refuse_field(
                "invalid_request",
                "/first_index",
                f"{first_index} is negative; give how many messages were sent before",
            )
        check_count(len(body.messages), self._limits, first_index)
        topics, wrong = await self._topics(call, body.messages)
        seed = Seed(transaction_id, self._source.now_ns())
        halves = encode_more(
            body.messages, first_index, topics, wrong, seed, call.form, self._limits
        )
        await self._transactions.add(AddMessages(transaction_id, first_index, halves))
        messages = _message_views(body.messages, seed, first_index)
        view = AddedView(id_text(transaction_id), PREPARED, messages)
        return call.answer(200, view)

    async def _topics(
        self, call: Call, messages: list[BatchEventBody]
    ) -> tuple[Mapping[str, Topic], Mapping[str, Exception]]:
        names = {it.topic for it in messages}
        refused = call.refused_topics(names)
        topics, wrong = await self._directory.all_to_write(names - refused.keys())
        topics = {name: call.bounded(topic) for name, topic in topics.items()}
        return topics, {**wrong, **refused}


def _message_views(
    messages: list[BatchEventBody], seed: Seed, first_index: int
) -> list[BegunMessageView]:
    texts = islice(seed.id_texts(), first_index + 1, None)
    return [
        BegunMessageView(text, message.topic)
        for message, text in zip(messages, texts, strict=False)
    ]

"""SendMessage: what a producer sends becomes durable, all of it or nothing.

A client sends a message again, under the same id, when an answer is late; so the id is
an idempotency key, and the repetition gets the first answer.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from halfpast_api.access.verbs import Verb
from halfpast_api.config import TransactionLimits
from halfpast_api.encoding import Seed
from halfpast_api.event_id import id_text
from halfpast_api.idempotency import seed_of
from halfpast_api.publish import Source
from halfpast_api.rocketmq.caller import Caller, Callers
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.config import GrpcConfig
from halfpast_api.rocketmq.half_out import half_runs
from halfpast_api.rocketmq.message_in import Incoming, read_message
from halfpast_api.rocketmq.orphan_checks import OrphanChecks
from halfpast_api.rocketmq.protocol import (
    Code,
    Message,
    MessageType,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
)
from halfpast_api.rocketmq.recall_handle import render_handle
from halfpast_api.rocketmq.resources import topic_name
from halfpast_api.rocketmq.statuses import OK, CallRefused
from halfpast_api.times import NS_PER_MS, due_ms_of
from halfpast_api.topic_directory import Topic
from halfpast_api.transactions.transaction_id import transaction_ids
from halfpast_core_store.broker import Append, Dedup, Run
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.topics import SYS_SCHEDULE

_HASH_SIZE: Final = 16
_TRANSACTION: Final = MessageType.TRANSACTION


@dataclass(frozen=True, slots=True)
class Sent:
    """The ids that messages have got: of events, or of transactions."""

    ids: Sequence[bytes]
    are_transactions: bool


class Sending:
    """Takes messages."""

    def __init__(
        self,
        callers: Callers,
        clients: Clients,
        checks: OrphanChecks,
        source: Source,
        config: GrpcConfig,
        limits: TransactionLimits,
    ) -> None:
        self._callers = callers
        self._clients = clients
        self._checks = checks
        self._source = source
        self._config = config
        self._limits = limits

    async def send(
        self, caller: Caller, request: SendMessageRequest
    ) -> SendMessageResponse:
        """Raises what refuses the call; then nothing is stored."""
        messages: Sequence[Message] = request.messages
        _check_count(len(messages), self._config.batch_max)
        caller = self._callers.within(caller, *(it.topic for it in messages))
        topics = await self._topics(caller, messages)
        seed = self._source.seed()
        now_ms = due_ms_of(seed.accepted_ns)
        drafts = [
            read_message(message, topic, now_ms)
            for message, topic in zip(messages, topics, strict=True)
        ]
        are_transactions = _are_transactions(drafts)
        for draft in drafts:
            if draft.due_ms and not are_transactions:
                await caller.room.quotas.admit(draft.topic, caller.max_pending)
        runs = self._runs(caller, drafts, seed, are_transactions=are_transactions)
        append = Append(
            runs,
            dedup=_dedup(caller, drafts, seed),
            durable=are_transactions or all(topic.is_durable for topic in topics),
        )
        appended = await caller.room.space.broker.append(append)
        sent = Sent(
            _ids(seed_of(appended, seed), len(drafts), are_transactions),
            are_transactions,
        )
        self._remember(caller, drafts, sent)
        return _answer(drafts, sent, appended.position)

    async def _topics(
        self, caller: Caller, messages: Sequence[Message]
    ) -> Sequence[Topic]:
        directory = caller.room.space.directory
        found: dict[str, Topic] = {}
        for message in messages:
            name = topic_name(message.topic)
            if name not in found:
                caller.check(Verb.PUBLISH, name)
                found[name] = caller.bounded(await directory.to_write(name))
        return [found[message.topic.name] for message in messages]

    def _runs(
        self,
        caller: Caller,
        drafts: Sequence[Incoming],
        seed: Seed,
        *,
        are_transactions: bool,
    ) -> list[Run]:
        ids = _ids(seed, len(drafts), are_transactions)
        if not are_transactions:
            return _message_runs(drafts, ids, seed.accepted_ns // NS_PER_MS)
        return [
            half_runs(draft, one, seed.accepted_ns, caller.room.space, self._limits)
            for draft, one in zip(drafts, ids, strict=True)
        ]

    def _remember(self, caller: Caller, drafts: Sequence[Incoming], sent: Sent) -> None:
        """Who has sent what, for questions about it."""
        client = self._clients.seen(caller)
        if client is None or client.namespace != caller.access.namespace:
            return
        for draft, one in zip(drafts, sent.ids, strict=True):
            self._clients.publishes(
                client, draft.topic.name, is_transactional=sent.are_transactions
            )
            if sent.are_transactions:
                self._checks.began(client.namespace, one, client.client_id)


def _check_count(count: int, count_max: int) -> None:
    if count == 0:
        raise CallRefused(Code.BAD_REQUEST, "there is no message to send; give one")
    if count > count_max:
        raise CallRefused(
            Code.PAYLOAD_TOO_LARGE,
            f"these are {count} messages, the limit is {count_max}; send them in "
            "several calls",
        )


def _are_transactions(drafts: Sequence[Incoming]) -> bool:
    """Whether each begins a transaction. Raises CallRefused if only some do."""
    count = sum(draft.kind == _TRANSACTION for draft in drafts)
    if count not in (0, len(drafts)):
        raise CallRefused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            "some of these messages are transactional and some are not; send them in "
            "two calls",
        )
    return count > 0


def _ids(seed: Seed, count: int, are_transactions: bool) -> list[bytes]:
    """They follow from the seed alone, so that a repetition gets them again."""
    if are_transactions:
        ids = transaction_ids(seed.base_id)
        return [next(ids) for _ in range(count)]
    return [seed.base_id[:14] + number.to_bytes(2, "big") for number in range(count)]


def _message_runs(
    drafts: Sequence[Incoming], ids: Sequence[bytes], born_ms: int
) -> list[Run]:
    """The records, by queue. Messages without a key share one for the request."""
    runs: dict[tuple[int, int], list[bytes]] = {}
    free: dict[int, int] = {}
    for draft, event_id in zip(drafts, ids, strict=True):
        topic = draft.topic
        if topic.id not in free:
            free[topic.id] = topic.next_queue()
        queue = draft.queue(free[topic.id])
        record = encode_record(
            RecordKind.SCHEDULE if draft.due_ms else RecordKind.NORMAL,
            topic_id=topic.id,
            queue_id=queue,
            event_id=event_id,
            born_ms=born_ms,
            due_ms=draft.due_ms,
            key=draft.key,
            tag=draft.tag,
            properties=draft.packed_properties(),
            body=draft.body,
            flags=draft.flags,
        )
        place = (SYS_SCHEDULE, 0) if draft.due_ms else (topic.id, queue)
        runs.setdefault(place, []).append(record)
    return [Run(topic, queue, records) for (topic, queue), records in runs.items()]


def _dedup(caller: Caller, drafts: Sequence[Incoming], seed: Seed) -> Dedup:
    """The ids of the messages are the key, and the bodies tell whether they are the
    same. Ids are made to be unique, but nothing keeps two callers from choosing one, so
    they count for whoever has sent them."""
    key = hashlib.blake2b(digest_size=_HASH_SIZE)
    request = hashlib.blake2b(digest_size=_HASH_SIZE)
    key.update(f"rocketmq\0{caller.access.namespace}\0{caller.access.actor}".encode())
    for draft in drafts:
        key.update(f"\0{draft.topic.name}\0{draft.message_id}".encode())
        request.update(len(draft.body).to_bytes(4, "big"))
        request.update(draft.body)
    return Dedup(key.digest(), request.digest(), seed.base_id, seed.accepted_ns)


def _answer(
    drafts: Sequence[Incoming], sent: Sent, position: int
) -> SendMessageResponse:
    answer = SendMessageResponse(status=OK)
    for draft, one in zip(drafts, sent.ids, strict=True):
        entry = SendResultEntry(
            status=OK,
            message_id=draft.message_id,
            # Of an ordinary message RocketMQ repeats the message id here.
            transaction_id=id_text(one) if sent.are_transactions else draft.message_id,
            # The place in the log: queue offsets are given when frames are written, and
            # are not told to whoever appends.
            offset=position,
        )
        if draft.due_ms and not sent.are_transactions:
            entry.recall_handle = render_handle(one)
        answer.entries.append(entry)
    return answer

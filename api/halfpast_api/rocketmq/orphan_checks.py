"""Asking producers how their transactions ended.

A producer of RocketMQ 5 has no group: any that publishes to a topic may be asked about
transactions of that topic, so the topic's name is the producer group. For each topic
that a connected producer publishes to, questions are taken from the transaction service
by long poll, as an SDK does, and go to one producer: first to the one that began the
transaction, then to each in turn. If none answers, the next check-back asks again; the
transaction service goes on with that for hours, long after every client of Python has
opened its stream again.
"""

import asyncio
from collections import OrderedDict
from typing import Final, NamedTuple, TypeVar

import structlog

from halfpast_api.event_id import id_text
from halfpast_api.problems import as_refusal
from halfpast_api.rocketmq.clients import Client, Clients, Topic
from halfpast_api.rocketmq.message_out import sent_message
from halfpast_api.rocketmq.protocol import (
    Message,
    MessageType,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
)
from halfpast_api.rocketmq.rooms import Rooms
from halfpast_core_store.record import decode_record
from halfpast_txn.transactions import Check, PollChecks

V = TypeVar("V")
Known = tuple[str, bytes]
"""A namespace, and the id of a transaction."""

_WAIT_MS: Final = 30_000
_COUNT: Final = 4  # each may bring 4 MiB
_PAUSE_S: Final = 1.0
_SIZE_MAX: Final = 100_000


class Asked(NamedTuple):
    """A question that a producer was given: of which group, and its number."""

    group: str
    check: int


class OrphanChecks:
    """The questions of one process."""

    def __init__(self, clients: Clients, rooms: Rooms, topics_max: int) -> None:
        self._clients = clients
        self._rooms = rooms
        self._topics_max = topics_max
        self._polls: dict[Topic, asyncio.Task[None]] = {}
        self._asked: OrderedDict[Known, Asked] = OrderedDict()
        self._begun: OrderedDict[Known, str] = OrderedDict()
        self._turn = 0
        self._log = structlog.get_logger("halfpast.grpc")
        self.sent_count = 0
        self.unsent_count = 0
        clients.changed = self.look

    @property
    def polling(self) -> int:
        """Of how many topics questions are asked for."""
        return len(self._polls)

    def began(self, namespace: str, transaction_id: bytes, client_id: str) -> None:
        """This client has begun the transaction: it is asked first."""
        _keep(self._begun, (namespace, transaction_id), client_id)

    def asked(self, namespace: str, transaction_id: bytes) -> Asked | None:
        """The question that an answer is about, if it is known here."""
        return self._asked.get((namespace, transaction_id))

    def ended(self, namespace: str, transaction_id: bytes) -> None:
        """It wants no answer any more."""
        self._asked.pop((namespace, transaction_id), None)
        self._begun.pop((namespace, transaction_id), None)

    def look(self, topic: Topic) -> None:
        """A topic has got a producer, or lost its last one."""
        if not self._is_wanted(topic):
            task = self._polls.pop(topic, None)
            if task is not None:
                task.cancel()
                self._fill_up()
        elif topic not in self._polls and len(self._polls) < self._topics_max:
            self._begin(topic)

    async def close(self) -> None:
        """Ask nobody any more."""
        self._clients.changed = lambda _: None
        tasks = [*self._polls.values()]
        self._polls.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, topic: Topic) -> None:
        task = asyncio.get_running_loop().create_task(self._poll(topic))
        self._polls[topic] = task

    def _fill_up(self) -> None:
        """There is room for one more, which there was not before."""
        if len(self._polls) != self._topics_max - 1:
            return
        for topic in self._clients.reachable_topics():
            if topic not in self._polls and self._is_wanted(topic):
                self._begin(topic)
                return

    def _is_wanted(self, topic: Topic) -> bool:
        """Whether somebody here can be asked. A group with an endpoint for check-backs
        is asked there, unless a producer here begins transactions: most that publish
        to a topic know nothing of transactions, and would leave questions unanswered.
        """
        reachable = self._clients.reachable(topic)
        if not reachable:
            return False
        namespace, name = topic
        settings = self._rooms.of(namespace).space.settings
        if not settings.producer_group_settings(name).check_url:
            return True
        return any(name in client.transactional for client in reachable)

    async def _poll(self, topic: Topic) -> None:
        namespace, name = topic
        request = PollChecks(
            group=name, count=_COUNT, wait_ms=_WAIT_MS, with_first=True
        )
        while True:
            try:
                # The room anew each time: one that is not used may have gone.
                transactions = self._rooms.of(namespace).space.transactions
                polled = await transactions.poll_checks(request)
                for check in polled.checks:
                    self._ask(topic, check)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # the service is away: it comes back
                if as_refusal(error) is None:
                    self._log.error("checks_not_polled", topic=name, exc_info=error)
                await asyncio.sleep(_PAUSE_S)

    def _ask(self, topic: Topic, check: Check) -> None:
        namespace, _ = topic
        key = (namespace, check.transaction_id)
        _keep(self._asked, key, Asked(check.group, check.check))
        command = TelemetryCommand(
            recover_orphaned_transaction_command=RecoverOrphanedTransactionCommand(
                message=_message(namespace, check),
                transaction_id=id_text(check.transaction_id),
            )
        )
        for client in self._in_turn(topic, self._begun.get(key, "")):
            if client.stream is not None and client.stream.offer(command):
                self.sent_count += 1
                return
        self.unsent_count += 1

    def _in_turn(self, topic: Topic, first: str) -> list[Client]:
        clients = self._clients.reachable(topic)
        # Whoever has begun transactions of the topic knows how to answer.
        clients.sort(
            key=lambda it: (it.client_id == first, topic[1] in it.transactional),
            reverse=True,
        )
        if not clients or clients[0].client_id == first:
            return clients
        able = sum(topic[1] in it.transactional for it in clients) or len(clients)
        self._turn += 1
        at = self._turn % able
        return [*clients[at:able], *clients[:at], *clients[able:]]


def _message(namespace: str, check: Check) -> Message:
    """The first message of the transaction, by which producers tell what it is."""
    topic = check.messages[0].topic if check.messages else check.group
    message = sent_message(decode_record(check.first), namespace, topic)
    message.system_properties.message_type = MessageType.TRANSACTION
    return message


def _keep(kept: "OrderedDict[Known, V]", key: Known, value: V) -> None:
    kept[key] = value
    if len(kept) > _SIZE_MAX:
        kept.popitem(last=False)

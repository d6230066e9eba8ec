"""QueryRoute and QueryAssignment: where a topic's messages come and go.

Every topic has one queue here, number 0, whatever it has in the store. Clients in Node
use no other one, and those of Python choose one at random for each receive; a receive
takes from all of the topic's queues, and a message group finds its own by its name.
"""

from typing import Final

from halfpast_api.access.verbs import Verb
from halfpast_api.rocketmq.advertised import Advertised
from halfpast_api.rocketmq.caller import Caller, Callers
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.protocol import (
    Assignment,
    Broker,
    ClientType,
    Endpoints,
    MessageQueue,
    MessageType,
    Permission,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    Resource,
)
from halfpast_api.rocketmq.resources import group_name, topic_name
from halfpast_api.rocketmq.statuses import OK

_BROKER_NAME: Final = "halfpast"
_TYPES: Final = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
)


class RoutesReply:
    """Tells clients where to go."""

    def __init__(
        self, callers: Callers, clients: Clients, advertised: Advertised
    ) -> None:
        self._callers = callers
        self._clients = clients
        self._advertised = advertised

    async def route(
        self, caller: Caller, request: QueryRouteRequest
    ) -> QueryRouteResponse:
        """Raises Refusal, UnknownTopic."""
        caller = self._callers.within(caller, request.topic)
        name = topic_name(request.topic)
        await self._check(caller, name)
        client, allows = self._clients.seen(caller), caller.access.allows
        # A producer asks for its routes all the time, and tells its topics once.
        is_producer = client is not None and client.kind == ClientType.PRODUCER
        if client is not None and is_producer and allows(Verb.PUBLISH, name):
            self._clients.publishes(client, name)
        queue = self._queue(request.topic, request.endpoints)
        return QueryRouteResponse(status=OK, message_queues=[queue])

    async def assignment(
        self, caller: Caller, request: QueryAssignmentRequest
    ) -> QueryAssignmentResponse:
        """Every consumer receives from the one queue: what one gets, no other does.

        Raises Refusal, UnknownTopic.
        """
        caller = self._callers.within(caller, request.topic, request.group)
        group_name(request.group)
        name = topic_name(request.topic)
        caller.check(Verb.CONSUME, name)
        await caller.room.space.directory.to_read(name)
        self._clients.seen(caller)
        queue = self._queue(request.topic, request.endpoints)
        return QueryAssignmentResponse(
            status=OK, assignments=[Assignment(message_queue=queue)]
        )

    async def _check(self, caller: Caller, name: str) -> None:
        allows, directory = caller.access.allows, caller.room.space.directory
        if allows(Verb.PUBLISH, name) or allows(Verb.CONSUME, name):
            await directory.to_read(name)  # which creates it where that is allowed
            return
        caller.check(Verb.READ, name)
        await directory.id_of(name)

    def _queue(self, topic: Resource, asked: Endpoints) -> MessageQueue:
        return MessageQueue(
            topic=topic,
            id=0,
            permission=Permission.READ_WRITE,
            broker=Broker(
                name=_BROKER_NAME, id=0, endpoints=self._advertised.to(asked)
            ),
            accept_message_types=_TYPES,
        )

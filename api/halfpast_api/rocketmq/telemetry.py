"""Clients that tell they live, and the streams by which they are told things.

Nothing depends on a stream: who has none is served all the same.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from typing import Final

from halfpast_api.access.verbs import Verb
from halfpast_api.names import check_group
from halfpast_api.problems import Refusal
from halfpast_api.rocketmq.caller import Caller, Callers
from halfpast_api.rocketmq.client_settings import (
    KNOWN_KINDS,
    consumer_settings,
    producer_settings,
)
from halfpast_api.rocketmq.clients import Client, Clients
from halfpast_api.rocketmq.config import GrpcConfig
from halfpast_api.rocketmq.protocol import (
    ClientType,
    Code,
    HeartbeatRequest,
    Settings,
    TelemetryCommand,
)
from halfpast_api.rocketmq.statuses import CallRefused, status_of
from halfpast_api.rocketmq.stream import Stream

_AGAIN_S: Final = 1.0

Write = Callable[[TelemetryCommand], Awaitable[None]]


class Telemetry:
    """The streams of one process."""

    def __init__(self, clients: Clients, callers: Callers, config: GrpcConfig) -> None:
        self._clients = clients
        self._callers = callers
        self._config = config
        self._stopping = False

    def heartbeat(self, caller: Caller, request: HeartbeatRequest) -> None:
        """The client lives. Raises CallRefused."""
        client = self._clients.seen(caller)
        if client is None:
            raise _id_required()
        _check_kind(request.client_type)
        client.kind = request.client_type

    async def serve(
        self,
        caller: Caller,
        sent: AsyncIterable[TelemetryCommand | None],
        write: Write,
    ) -> None:
        """Answer one stream until either side ends it. Raises CallRefused.

        It returns, whoever ended it: a stream that ends with an error ends the process
        of a Node client that is just shutting down.
        """
        client = self._clients.seen(caller)
        if client is None:
            raise _id_required()
        if self._clients.stream_count >= self._config.streams_max:
            raise CallRefused(
                Code.TOO_MANY_REQUESTS,
                f"there are {self._config.streams_max} streams already; come again "
                "later, or raise HALFPAST_API_GRPC_STREAMS_MAX",
            )
        if self._stopping:
            return
        stream = Stream()
        self._clients.connect(client, stream)
        reader = asyncio.create_task(self._read(caller, client, stream, sent))
        try:
            while (command := await stream.next()) is not None:
                await write(command)
        finally:
            stream.end()
            self._clients.disconnect(client, stream)
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader  # tells of a mistake of ours

    def stop(self) -> None:
        """End all streams, in good order."""
        self._stopping = True
        self._clients.end_streams()

    async def _read(
        self,
        caller: Caller,
        client: Client,
        stream: Stream,
        sent: AsyncIterable[TelemetryCommand | None],
    ) -> None:
        loop = asyncio.get_running_loop()
        is_first = True
        try:
            async for command in sent:
                self._clients.seen(caller)
                if command is None or command.WhichOneof("command") != "settings":
                    continue
                told = self._told(caller, client, command.settings)
                stream.offer(told)
                if is_first:
                    # The client of Node loses what comes while it asks for routes, and
                    # would wait five minutes for the next one.
                    loop.call_later(_AGAIN_S, stream.offer, told)
                    is_first = False
        finally:
            stream.end()

    def _told(
        self, caller: Caller, client: Client, asked: Settings
    ) -> TelemetryCommand:
        """The answer to a client's settings, which are heeded."""
        try:
            _check_kind(asked.client_type)
            client.kind = asked.client_type
            client.language = asked.user_agent.language
            if asked.client_type == ClientType.PRODUCER:
                self._learn_topics(caller, client, asked)
                return producer_settings(asked, self._config)
            group = asked.subscription.group
            check_group(group.name)
            settings = self._callers.within(caller, group).room.space.settings
            return consumer_settings(
                asked, settings.group_settings(group.name), self._config
            )
        except (CallRefused, Refusal) as error:
            return TelemetryCommand(status=status_of(error))

    def _learn_topics(self, caller: Caller, client: Client, asked: Settings) -> None:
        for resource in asked.publishing.topics:
            within = self._callers.within(caller, resource)
            if within.access.namespace == caller.access.namespace and (
                within.access.allows(Verb.PUBLISH, resource.name)
            ):
                self._clients.publishes(client, resource.name)


def _check_kind(kind: "ClientType") -> None:
    if kind not in KNOWN_KINDS:
        raise CallRefused(
            Code.UNRECOGNIZED_CLIENT_TYPE,
            f"clients of the type {kind} are not known here; producers, push consumers "
            "and simple consumers are",
        )


def _id_required() -> CallRefused:
    return CallRefused(
        Code.CLIENT_ID_REQUIRED,
        "the call has no x-mq-client-id; every client sends one",
    )

"""Clients that live: what they have told of themselves, and how to reach them.

All of it is in memory and may be lost, as it is when the server starts again; nothing
that a client asks for needs it. A client is known by its id, from any call: after a
restart of the server that of Python sends and receives at once, beats within ten
seconds, asks for its routes within thirty, and opens its stream minutes later, without
telling its settings. So each of these calls adds to what is known here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from halfpast_api.rocketmq.caller import Caller, ClientKey
from halfpast_api.rocketmq.protocol import ClientType, Language
from halfpast_api.rocketmq.stream import Stream

_SIZE_MAX: Final = 100_000
_TOPICS_MAX: Final = 1_000
_ALL_TOPICS_MAX: Final = 500_000
_SWEEP_COUNT: Final = 1_000

Topic = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class Client:
    """One of them. `topics`: those of which it may be asked how a transaction ended."""

    key: ClientKey
    seen_s: float
    kind: "ClientType" = ClientType.CLIENT_TYPE_UNSPECIFIED
    language: "Language" = Language.LANGUAGE_UNSPECIFIED
    topics: dict[str, None] = field(default_factory=dict[str, None])
    transactional: set[str] = field(default_factory=set[str])
    stream: Stream | None = None

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def client_id(self) -> str:
        return self.key[2]


class Clients:
    """All of one process. `changed` is called with a topic when it gets its first
    client that can be asked, and when it loses its last one."""

    def __init__(
        self, liveness_s: float, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._liveness_s = liveness_s
        self._monotonic_s = monotonic_s
        self._clients: dict[ClientKey, Client] = {}
        self._reachable: dict[Topic, dict[ClientKey, Client]] = {}
        self._topic_count = 0
        self.stream_count = 0
        self.changed: Callable[[Topic], None] = ignore

    def __len__(self) -> int:
        return len(self._clients)

    def seen(self, caller: Caller) -> Client | None:
        """The client that calls: it lives. None for a caller without an id."""
        if not caller.client_id:
            return None
        client = self._clients.pop(caller.key, None)
        if client is None:
            self._sweep()
            client = Client(caller.key, 0.0)
        client.seen_s = self._monotonic_s()
        self._clients[caller.key] = client  # in the order in which they were seen
        return client

    def find(self, key: ClientKey) -> Client | None:
        return self._clients.get(key)

    def lives(self, key: ClientKey) -> bool:
        """Whether the client has called lately. An open stream tells nothing: that of
        a client without network stays open for long."""
        client = self._clients.get(key)
        if client is None:
            return False
        return self._monotonic_s() - client.seen_s < self._liveness_s

    def publishes(
        self, client: Client, topic: str, *, is_transactional: bool = False
    ) -> None:
        """The client has named a topic as one that it publishes to, or has done so."""
        is_news = False
        if is_transactional and topic not in client.transactional:
            if len(client.transactional) < _TOPICS_MAX:
                client.transactional.add(topic)
            is_news = True
        if topic in client.topics:
            if is_news and client.stream is not None:
                self.changed((client.namespace, topic))
            return
        if len(client.topics) >= _TOPICS_MAX or self._topic_count >= _ALL_TOPICS_MAX:
            if not (is_transactional and client.topics):
                return
            self._unlink(client, client.topics.popitem()[0])
            self._topic_count -= 1
        client.topics[topic] = None
        self._topic_count += 1
        if client.stream is not None:
            self._link(client, topic)

    def connect(self, client: Client, stream: Stream) -> None:
        """The client's stream; a former one is over."""
        if client.stream is None:
            self.stream_count += 1
        else:
            client.stream.end()
        client.stream = stream
        for topic in client.topics:
            self._link(client, topic)

    def disconnect(self, client: Client, stream: Stream) -> None:
        """The stream is over, unless another one has taken its place."""
        if client.stream is not stream:
            return
        client.stream = None
        self.stream_count -= 1
        for topic in client.topics:
            self._unlink(client, topic)

    def leave(self, key: ClientKey) -> None:
        """The client says that it ends."""
        client = self._clients.pop(key, None)
        if client is not None:
            self._forget(client)

    def reachable(self, topic: Topic) -> list[Client]:
        """Clients that can be asked about a transaction with messages for the topic."""
        return [*self._reachable.get(topic, {}).values()]

    def reachable_topics(self) -> list[Topic]:
        return [*self._reachable]

    def end_streams(self) -> None:
        """The server stops."""
        for client in self._clients.values():
            if client.stream is not None:
                client.stream.end()

    def _link(self, client: Client, topic: str) -> None:
        asked = (client.namespace, topic)
        clients = self._reachable.setdefault(asked, {})
        clients[client.key] = client
        if len(clients) == 1:
            self.changed(asked)

    def _unlink(self, client: Client, topic: str) -> None:
        asked = (client.namespace, topic)
        clients = self._reachable.get(asked)
        if clients is None or clients.pop(client.key, None) is None:
            return
        if not clients:
            del self._reachable[asked]
            self.changed(asked)

    def _sweep(self) -> None:
        """Forget some that were not seen for long and cannot be reached; if there are
        too many, whoever was not seen for longest."""
        now_s = self._monotonic_s()
        silent: list[Client] = []
        for client in self._clients.values():
            if (
                len(silent) >= _SWEEP_COUNT
                or now_s - client.seen_s < 2 * self._liveness_s
            ):
                break
            if client.stream is None:
                silent.append(client)
        if not silent and len(self._clients) >= _SIZE_MAX:
            silent.append(next(iter(self._clients.values())))
        for client in silent:
            del self._clients[client.key]
            self._forget(client)

    def _forget(self, client: Client) -> None:
        self._topic_count -= len(client.topics)
        stream = client.stream
        if stream is not None:
            self.disconnect(client, stream)
            stream.end()


def ignore(_: Topic) -> None:
    """For whoever does not want to know."""

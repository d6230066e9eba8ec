"""Who calls: told from the metadata of a call, before its message is looked at."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from halfpast_api.access.access import Access
from halfpast_api.access.door import unknown_namespace
from halfpast_api.access.verbs import Verb
from halfpast_api.limits.limiter import Limiter
from halfpast_api.limits.quota import Quota
from halfpast_api.load.shedder import Shedder
from halfpast_api.load.urgency import Urgency
from halfpast_api.rocketmq.protocol import Code, Resource
from halfpast_api.rocketmq.rooms import Room, Rooms
from halfpast_api.rocketmq.statuses import CallRefused
from halfpast_api.topic_directory import Topic

CLIENT_ID: Final = "x-mq-client-id"
REQUEST_ID: Final = "x-mq-request-id"
_CHARS_MAX: Final = 255
_ALL: Final = "*"

Metadata = Iterable[tuple[str, str | bytes]]
ClientKey = tuple[str, str, str]
"""Namespace, actor, client id: nobody can speak for the client of another."""


class Verifier(Protocol):
    """What is asked of a `Credentials`."""

    def verify(self, metadata: Mapping[str, str]) -> Access: ...

    def within(self, access: Access, namespace: str) -> Access: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who has made a call, and with which services it is answered. `client_id` is
    empty for whoever sends none."""

    access: Access
    room: Room
    client_id: str
    request_id: str
    quota: Quota | None = None

    @property
    def key(self) -> ClientKey:
        return self.access.namespace, self.access.actor, self.client_id

    def check(self, verb: Verb, topic: str) -> None:
        """Raise Refusal unless the caller may do this with the topic."""
        self.access.check(verb, topic)

    def bounded(self, topic: Topic) -> Topic:
        """The topic as this caller may use it."""
        own_ms = 0 if self.quota is None else self.quota.max_delay_ms
        return topic.bounded(own_ms) if 0 < own_ms < topic.max_delay_ms else topic

    @property
    def max_pending(self) -> int:
        """How many events may be pending in the caller's namespace; 0: any number."""
        return 0 if self.quota is None else self.quota.max_pending


class Callers:
    """Tells who calls."""

    def __init__(
        self, verifier: Verifier, rooms: Rooms, limiter: Limiter, shedder: Shedder
    ) -> None:
        self._verifier = verifier
        self._rooms = rooms
        self._limiter = limiter
        self._shedder = shedder

    def of(self, metadata: Mapping[str, str], urgency: Urgency, size: int) -> Caller:
        """Raises Refusal for somebody who may not come in, or asks for too much."""
        if urgency <= Urgency.ORDINARY:
            self._shedder.check(urgency)
        access = self._verifier.verify(metadata)
        quota = self._limiter.admit(access, urgency)
        if quota is not None:
            quota.charge(size, self._limiter.now_s())
        client_id = metadata.get(CLIENT_ID, "")
        if len(client_id) > _CHARS_MAX:
            raise CallRefused(
                Code.BAD_REQUEST,
                f"the client id has {len(client_id)} characters, the limit is "
                f"{_CHARS_MAX}",
            )
        request_id = metadata.get(REQUEST_ID, "")[:_CHARS_MAX]
        return Caller(access, self._room(access), client_id, request_id, quota)

    def within(self, caller: Caller, *resources: Resource) -> Caller:
        """The caller in the namespace that topics and groups of a call bear; some
        clients say it there, some in the metadata, some in both. Raises Refusal."""
        for resource in resources:
            wanted = resource.resource_namespace
            if wanted and wanted != caller.access.namespace:
                access = self._verifier.within(caller.access, wanted)
                caller = replace(caller, access=access, room=self._room(access))
        return caller

    def _room(self, access: Access) -> Room:
        if access.namespace == _ALL:  # a topic is always of one
            raise unknown_namespace(_ALL)
        return self._rooms.of(access.namespace)


def first_values(metadata: Metadata | None) -> dict[str, str]:
    """The metadata of a call, as text; of a key given twice the first value."""
    found: dict[str, str] = {}
    for key, value in metadata or ():
        if isinstance(value, str):
            found.setdefault(key, value)
    return found

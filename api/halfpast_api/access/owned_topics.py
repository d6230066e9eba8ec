"""Which topics are a namespace's own, by id and by name.

A topic's name never changes, so who owns it is asked once. What all topics of a
namespace are is asked anew after a second.
"""

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from halfpast_api.access.namespaced_names import Names
from halfpast_core_store.broker import Broker, ListTopics, TopicInfo, TopicNames

_KNOWN_S: Final = 1.0
_PAGE: Final = 1000
_SIZE_MAX: Final = 100_000
_BEHIND: Final = "~"  # sorts behind every character of a name


class OwnedTopics:
    """The topics of one namespace. While there are no other namespaces everything is
    the default one's, and nobody is asked."""

    def __init__(
        self,
        broker: Broker,
        names: Names,
        is_divided: Callable[[], bool],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._names = names
        self._is_divided = is_divided
        self._monotonic_s = monotonic_s
        self._stored: dict[int, str] = {}
        self._ids: list[int] = []
        self._ids_at_s = -_KNOWN_S

    @property
    def owns_all(self) -> bool:
        """Whether nothing can belong to anybody else."""
        return not self._names.namespace and not self._is_divided()

    @property
    def is_default(self) -> bool:
        """Whether they are those of the default namespace."""
        return not self._names.namespace

    async def owns(self, topic_id: int) -> bool:
        """Whether this is the id of a topic of ours."""
        if self.owns_all:
            return True
        stored = self._stored.get(topic_id)
        if stored is None:
            answer = await self._broker.topics_by_id(TopicNames(ids=[topic_id]))
            info = answer.topics[0]
            if info is None:
                return False
            if len(self._stored) >= _SIZE_MAX:
                self._stored.clear()
            stored = self._stored[topic_id] = info.name
        return self._names.outside(stored) is not None

    def learn(self, topic_id: int) -> None:
        """One more topic of ours, perhaps."""
        at = bisect_left(self._ids, topic_id)
        if at == len(self._ids) or self._ids[at] != topic_id:
            self._ids = [*self._ids[:at], topic_id, *self._ids[at:]]

    async def ids(self) -> list[int]:
        """All of them, ascending."""
        now_s = self._monotonic_s()
        if now_s - self._ids_at_s >= _KNOWN_S:
            ids: list[int] = []
            after = ""
            while infos := await self.page(after, _PAGE):
                ids += [info.id for info in infos]
                after = infos[-1].name
            self._ids, self._ids_at_s = sorted(ids), now_s
        return self._ids

    async def page(self, after: str, limit: int) -> list[TopicInfo]:
        """Some of them behind the name `after`, with the names that callers know."""
        found: list[TopicInfo] = []
        behind = (self._names.prefix + after) if self._names.prefix else after
        while len(found) < limit:
            wanted = limit - len(found)
            infos = (await self._broker.list_topics(ListTopics(behind, wanted))).topics
            for info in infos:
                name = self._names.outside(info.name)
                if name is not None:
                    found.append(TopicInfo(info.id, name, info.queue_count))
            if len(infos) < wanted:
                break
            behind = self._behind(infos[-1].name)
            if not behind:
                break
        return found

    def _behind(self, stored: str) -> str:
        """Where to go on; empty where nothing of ours can follow."""
        prefix = self._names.prefix
        if prefix:
            return stored if stored.startswith(prefix) else ""
        if self._names.outside(stored) is None:  # skip the whole namespace
            return stored.partition("%")[0] + "%" + _BEHIND
        return stored

"""The broker as one namespace sees it."""

from typing import Final

from msgspec.structs import replace

from halfpast_api.access.namespaced_names import Names
from halfpast_api.access.owned_topics import OwnedTopics
from halfpast_api.problems import Refusal
from halfpast_core_store.broker import (
    Acquire,
    Acquired,
    Append,
    Appended,
    Broker,
    BrokerStatus,
    CommitOffsets,
    DescribeTopic,
    Empty,
    EnsureTopic,
    FindEvent,
    Follow,
    Followed,
    FoundEvent,
    GroupNames,
    Hold,
    ListGroups,
    ListTopics,
    Pop,
    Popped,
    Pull,
    Pulled,
    ResolvedTopics,
    ResolveTopics,
    Settle,
    Settled,
    TopicDescription,
    TopicInfo,
    TopicList,
    TopicNames,
)
from halfpast_core_store.errors import UnknownTopic
from halfpast_core_store.group_standing import DescribeGroup, GroupDescription
from halfpast_core_store.record import decode_record
from halfpast_core_store.revival import Revive, Revived

_BEHIND: Final = "~"  # sorts behind every character of a name


class NamespacedBroker:
    """A `Broker` in which only one namespace's topics and groups exist.

    Records that are appended name their topics by id, which only this tells, so they
    are taken as they are. What only the suite's own services may do is not here.
    """

    def __init__(self, broker: Broker, names: Names, owned: OwnedTopics) -> None:
        self._broker = broker
        self._names = names
        self._owned = owned

    async def append(self, request: Append) -> Appended:
        assert not request.fence_role
        return await self._broker.append(request)

    async def resolve_topics(self, request: ResolveTopics) -> ResolvedTopics:
        stored = [self._names.inside(name) for name in request.names]
        wanted = [name for name in stored if name is not None]
        found: list[TopicInfo | None] = []
        if wanted:
            answer = await self._broker.resolve_topics(replace(request, names=wanted))
            found = answer.topics
        answers = iter(found)
        topics: list[TopicInfo | None] = []
        for name, inside in zip(request.names, stored, strict=True):
            info = None if inside is None else next(answers)
            if info is not None:
                self._owned.learn(info.id)
                info = TopicInfo(info.id, name, info.queue_count)
            topics.append(info)
        return ResolvedTopics(topics)

    async def topics_by_id(self, request: TopicNames) -> ResolvedTopics:
        answer = await self._broker.topics_by_id(request)
        return ResolvedTopics([self._outside(info) for info in answer.topics])

    async def ensure_topic(self, request: EnsureTopic) -> TopicInfo:
        stored = self._topic(request.name)
        info = await self._broker.ensure_topic(replace(request, name=stored))
        self._owned.learn(info.id)
        return TopicInfo(info.id, request.name, info.queue_count)

    async def list_topics(self, request: ListTopics) -> TopicList:
        return TopicList(await self._owned.page(request.after, request.limit))

    async def describe_topic(self, request: DescribeTopic) -> TopicDescription:
        stored = self._topic(request.name)
        described = await self._broker.describe_topic(DescribeTopic(stored))
        info = described.topic
        named = TopicInfo(info.id, request.name, info.queue_count)
        return TopicDescription(named, described.queues)

    async def pop(self, request: Pop) -> Popped:
        group, topic = self._group(request.group), self._topic(request.topic)
        return await self._broker.pop(replace(request, group=group, topic=topic))

    async def settle(self, request: Settle) -> Settled:
        group = self._group(request.group)
        return await self._broker.settle(replace(request, group=group))

    async def revive(self, request: Revive) -> Revived:
        group = self._group(request.group)
        return await self._broker.revive(replace(request, group=group))

    async def pull(self, request: Pull) -> Pulled:
        topic = self._topic(request.topic)
        return await self._broker.pull(replace(request, topic=topic))

    async def find_event(self, request: FindEvent) -> FoundEvent:
        found = await self._broker.find_event(request)
        if found.record is None or self._owned.owns_all:
            return found
        if await self._owned.owns(decode_record(found.record).topic_id):
            return found
        return FoundEvent(None)

    async def commit_offsets(self, request: CommitOffsets) -> Empty:
        group, topic = self._group(request.group), self._topic(request.topic)
        request = replace(request, group=group, topic=topic)
        return await self._broker.commit_offsets(request)

    async def describe_group(self, request: DescribeGroup) -> GroupDescription:
        group, topic = self._group(request.group), self._topic(request.topic)
        request = replace(request, group=group, topic=topic)
        return await self._broker.describe_group(request)

    async def list_groups(self, request: ListGroups) -> GroupNames:
        prefix = self._names.prefix
        found: list[str] = []
        behind = prefix + request.after
        while len(found) < request.limit:
            wanted = request.limit - len(found)
            stored = (await self._broker.list_groups(ListGroups(behind, wanted))).names
            names = map(self._names.outside, stored)
            found += [name for name in names if name is not None]
            if len(stored) < wanted or not stored[-1].startswith(prefix):
                break
            behind = stored[-1]
            if self._names.outside(behind) is None:  # skip the whole namespace
                behind = behind.partition("%")[0] + "%" + _BEHIND
        return GroupNames(found)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._broker.status(request)

    async def follow(self, request: Follow) -> Followed:
        raise AssertionError("for the suite's own services")

    async def acquire(self, request: Acquire) -> Acquired:
        raise AssertionError("for the suite's own services")

    async def hold(self, request: Hold) -> Empty:
        raise AssertionError("for the suite's own services")

    def _topic(self, name: str) -> str:
        stored = self._names.inside(name)
        if stored is None:
            raise UnknownTopic(name)
        return stored

    def _group(self, name: str) -> str:
        stored = self._names.inside(name)
        if stored is None:
            raise Refusal("unknown_group", f"there is no group {name!r}")
        return stored

    def _outside(self, info: TopicInfo | None) -> TopicInfo | None:
        name = None if info is None else self._names.outside(info.name)
        if info is None or name is None:
            return None
        return TopicInfo(info.id, name, info.queue_count)

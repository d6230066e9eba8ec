"""The broker over a socket: its table, a client that is a `Broker`, a server."""

from .broker import (
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
from .errors import CoreError
from .group_standing import DescribeGroup, GroupDescription
from .revival import Revive, Revived
from .rpc import Method
from .rpc_client import RpcClient
from .rpc_errors import ErrorRegistry
from .rpc_server import Server, serve

SERVICE = "broker"

BROKER_TABLE = (
    Method("append", 1, Append, Appended),
    Method("resolve_topics", 2, ResolveTopics, ResolvedTopics),
    Method("topics_by_id", 3, TopicNames, ResolvedTopics),
    Method("ensure_topic", 4, EnsureTopic, TopicInfo),
    Method("list_topics", 5, ListTopics, TopicList),
    Method("describe_topic", 6, DescribeTopic, TopicDescription),
    Method("pop", 7, Pop, Popped),
    Method("settle", 8, Settle, Settled),
    Method("pull", 9, Pull, Pulled),
    Method("follow", 10, Follow, Followed),
    Method("find_event", 11, FindEvent, FoundEvent),
    Method("acquire", 12, Acquire, Acquired),
    Method("hold", 13, Hold, Empty),
    Method("commit_offsets", 14, CommitOffsets, Empty),
    Method("describe_group", 15, DescribeGroup, GroupDescription),
    Method("list_groups", 16, ListGroups, GroupNames),
    Method("status", 17, Empty, BrokerStatus),
    Method("revive", 18, Revive, Revived),
)


async def serve_broker(broker: Broker, address: str) -> Server:
    """Offer a broker at an address until the server is stopped."""
    return await serve(
        BROKER_TABLE, broker, address, service=SERVICE, errors=ErrorRegistry(CoreError)
    )


class BrokerClient:
    """A broker in another process. Raises what the broker raises, Unavailable if
    nothing was sent, and ConnectionLost if the outcome is unknown."""

    def __init__(self, address: str) -> None:
        self._rpc = RpcClient(
            address, BROKER_TABLE, service=SERVICE, errors=ErrorRegistry(CoreError)
        )

    async def close(self) -> None:
        await self._rpc.close()

    async def append(self, request: Append) -> Appended:
        return await self._rpc.call("append", request)

    async def resolve_topics(self, request: ResolveTopics) -> ResolvedTopics:
        return await self._rpc.call("resolve_topics", request)

    async def topics_by_id(self, request: TopicNames) -> ResolvedTopics:
        return await self._rpc.call("topics_by_id", request)

    async def ensure_topic(self, request: EnsureTopic) -> TopicInfo:
        return await self._rpc.call("ensure_topic", request)

    async def list_topics(self, request: ListTopics) -> TopicList:
        return await self._rpc.call("list_topics", request)

    async def describe_topic(self, request: DescribeTopic) -> TopicDescription:
        return await self._rpc.call("describe_topic", request)

    async def pop(self, request: Pop) -> Popped:
        return await self._rpc.call("pop", request)

    async def settle(self, request: Settle) -> Settled:
        return await self._rpc.call("settle", request)

    async def pull(self, request: Pull) -> Pulled:
        return await self._rpc.call("pull", request)

    async def follow(self, request: Follow) -> Followed:
        return await self._rpc.call("follow", request)

    async def find_event(self, request: FindEvent) -> FoundEvent:
        return await self._rpc.call("find_event", request)

    async def acquire(self, request: Acquire) -> Acquired:
        return await self._rpc.call("acquire", request)

    async def hold(self, request: Hold) -> Empty:
        return await self._rpc.call("hold", request)

    async def commit_offsets(self, request: CommitOffsets) -> Empty:
        return await self._rpc.call("commit_offsets", request)

    async def describe_group(self, request: DescribeGroup) -> GroupDescription:
        return await self._rpc.call("describe_group", request)

    async def revive(self, request: Revive) -> Revived:
        return await self._rpc.call("revive", request)

    async def list_groups(self, request: ListGroups) -> GroupNames:
        return await self._rpc.call("list_groups", request)

    async def status(self, request: Empty) -> BrokerStatus:
        return await self._rpc.call("status", request)

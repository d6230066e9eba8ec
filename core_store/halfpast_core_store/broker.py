"""What a broker does, as one protocol with an in-process and a socket form.

`service.BrokerService` is the real one, `broker_rpc.BrokerClient` speaks to it over a
socket; one test suite runs against both. Every call takes and returns one struct.

Times are epoch milliseconds, positions are physical offsets in the log.
"""

from enum import IntEnum
from typing import Protocol

import msgspec

from .group_standing import DescribeGroup, GroupDescription
from .revival import Revive, Revived


class Lane(IntEnum):
    """The door by which a request is admitted; each has its own bound and share."""

    SEND = 0
    END_TRANSACTION = 1
    CONSUME = 2
    SYSTEM = 3


class SettleAction(IntEnum):
    """What a consumer says of a message that it popped. RELEASE: it was not tried."""

    ACK = 0
    NACK = 1
    EXTEND = 2
    RELEASE = 3


class Run(msgspec.Struct, array_like=True):
    """Encoded records for one queue, in order. Queue ids are the topic's own."""

    topic_id: int
    queue_id: int
    records: list[bytes]


class Dedup(msgspec.Struct, array_like=True):
    """An idempotency key: hash of key, hash of the request, and the answer's seed.

    The answer to a request is a function of the request, the first event id and
    the time of acceptance, so these two are all that has to be remembered.
    """

    key: bytes
    fingerprint: bytes
    base_id: bytes
    accepted_ns: int


class Append(msgspec.Struct, array_like=True):
    """Records that become durable together, in one atomic frame, or not at all.

    `fence_role` with `fence_token` refuses the append unless the token is the
    latest one acquired for the role. `due_max_ms` refuses it as TooEarly while
    the broker's clock is before that time. `durable=False` is answered before
    the fsync: an opt-in that can lose what was acknowledged in a power cut.
    """

    runs: list[Run]
    lane: int = Lane.SEND
    dedup: Dedup | None = None
    fence_role: str = ""
    fence_token: int = 0
    due_max_ms: int = 0
    durable: bool = True


class Appended(msgspec.Struct, array_like=True):
    """Where the frame lies and when it was stored.

    `replayed` is set when the idempotency key had been used before for the same
    request: nothing was appended now, and it tells the first answer's seed.
    """

    position: int
    stored_ms: int
    replayed: Dedup | None = None


class TopicInfo(msgspec.Struct, array_like=True, frozen=True):
    """A topic as the log knows it; what is administered is in the metadata."""

    id: int
    name: str
    queue_count: int


class ResolveTopics(msgspec.Struct, array_like=True):
    """Names to look up. `create` makes missing ones with `queue_count` queues."""

    names: list[str]
    create: bool = False
    queue_count: int = 4


class ResolvedTopics(msgspec.Struct, array_like=True):
    """One answer per name, in the same order; None where there is no such topic."""

    topics: list[TopicInfo | None]


class EnsureTopic(msgspec.Struct, array_like=True):
    """Create a topic or add queues to it. Raises QueuesShrink for fewer."""

    name: str
    queue_count: int


class ListTopics(msgspec.Struct, array_like=True):
    """Topics of users by name, beginning behind `after`."""

    after: str = ""
    limit: int = 100


class TopicList(msgspec.Struct, array_like=True):
    topics: list[TopicInfo]


class TopicNames(msgspec.Struct, array_like=True):
    """Topics by id, for whoever met an id in a record."""

    ids: list[int]


class DescribeTopic(msgspec.Struct, array_like=True):
    name: str


class QueueRange(msgspec.Struct, array_like=True):
    """What a queue holds: offset_min (inclusive) to offset_max (exclusive)."""

    queue: int
    offset_min: int
    offset_max: int


class TopicDescription(msgspec.Struct, array_like=True):
    topic: TopicInfo
    queues: list[QueueRange]


class Delivered(msgspec.Struct, array_like=True):
    """One message on its way to a consumer. `receipt` is empty for a pull."""

    record: bytes
    queue: int
    offset: int
    stored_ms: int
    attempt: int = 1
    receipt: bytes = b""


class GroupPolicy(msgspec.Struct, array_like=True, frozen=True):
    """How a consumer group's failures are handled, and whether messages of one key
    and queue are given one at a time, in order. Times in ms."""

    attempts_max: int = 16
    backoff_initial_ms: int = 1000
    backoff_max_ms: int = 300_000
    in_flight_max: int = 100_000
    ordered: bool = False


class Pop(msgspec.Struct, array_like=True):
    """Take up to `count` messages and hide them from the group for `invisible_ms`.

    Waits up to `wait_ms` for the first one. `tags` filters; none means all. So does
    `filter`, an SQL92 expression; a message must pass both. Raises InvalidFilter.
    """

    group: str
    topic: str
    count: int = 32
    wait_ms: int = 0
    invisible_ms: int = 60_000
    tags: list[str] = []
    policy: GroupPolicy = GroupPolicy()
    size_max: int = 8 * 1024 * 1024
    filter: str = ""


class Popped(msgspec.Struct, array_like=True):
    messages: list[Delivered]


class Settle(msgspec.Struct, array_like=True):
    """Say of popped messages that they are done, failed, or need more time.

    `delay_ms`: for NACK and RELEASE when to offer again (None: by the group's back-off;
    at once), for EXTEND how long from now they stay hidden. `reason`: why a NACK, for
    the dead letter that it may become.
    """

    group: str
    action: int
    receipts: list[bytes]
    delay_ms: int | None = None
    policy: GroupPolicy = GroupPolicy()
    reason: str = ""


class SettleResult(msgspec.Struct, array_like=True):
    """`code` is empty for success, else a word of the API; `receipt` for EXTEND."""

    code: str = ""
    receipt: bytes = b""


class Settled(msgspec.Struct, array_like=True):
    """One result per receipt, in the same order."""

    results: list[SettleResult]


class Pull(msgspec.Struct, array_like=True):
    """Read a queue from `offset` on. Waits up to `wait_ms` for something to tell.

    With `tags` or a `filter` (see Pop) the rest is left out; the answer goes as far as
    it has looked. Raises OffsetOutOfRange outside of what the queue holds.
    """

    topic: str
    queue: int
    offset: int
    count: int = 32
    wait_ms: int = 0
    size_max: int = 8 * 1024 * 1024
    tags: list[str] = []
    filter: str = ""


class Pulled(msgspec.Struct, array_like=True):
    messages: list[Delivered]
    next_offset: int
    offset_min: int
    offset_max: int


class Follow(msgspec.Struct, array_like=True):
    """Read durable records of some families in log order, from `position` on.

    Who waits is told at once of what is new; but where all of it is in `own_topic`,
    to which only the asker writes, within `own_wait_ms`, together with what follows.
    """

    position: int
    families: int
    wait_ms: int = 0
    size_max: int = 4 * 1024 * 1024
    own_topic: int = 0
    own_wait_ms: int = 0


class FollowedFrame(msgspec.Struct, array_like=True):
    """The wanted records of one frame; `end` is the position behind it."""

    position: int
    end: int
    stored_ms: int
    records: list[bytes]


class Followed(msgspec.Struct, array_like=True):
    """`next_position` is where to go on; `log_end` is how far the log is durable."""

    frames: list[FollowedFrame]
    next_position: int
    log_end: int


class FindEvent(msgspec.Struct, array_like=True):
    event_id: bytes


class FoundEvent(msgspec.Struct, array_like=True):
    """The record under which an event was first stored, or None."""

    record: bytes | None
    stored_ms: int = 0


class Acquire(msgspec.Struct, array_like=True):
    """Become the one holder of a role; the former holder's appends are refused."""

    role: str


class Acquired(msgspec.Struct, array_like=True):
    """Everything that former holders appended lies before `log_end`. What lies
    before `log_start` is not kept any more."""

    token: int
    log_end: int
    log_start: int = 0


class Hold(msgspec.Struct, array_like=True):
    """Keep the log from `position` on, whatever retention says, for this role."""

    role: str
    token: int
    position: int


class CommitOffsets(msgspec.Struct, array_like=True):
    """Set where a group continues, per queue. Also moves its POP cursor there, and with
    `drops` ends all that it has in flight on the topic."""

    group: str
    topic: str
    offsets: dict[int, int]
    drops: bool = False


class ListGroups(msgspec.Struct, array_like=True):
    after: str = ""
    limit: int = 100


class GroupNames(msgspec.Struct, array_like=True):
    names: list[str]


class Empty(msgspec.Struct, array_like=True):
    """Nothing to say."""


class BrokerStatus(msgspec.Struct, array_like=True):
    """Counters since the start (names as the metrics show them) and gauges."""

    counters: dict[str, float]
    gauges: dict[str, float]


class Broker(Protocol):
    """The store as its users see it. Any call may raise a CoreError."""

    async def append(self, request: Append) -> Appended: ...

    async def resolve_topics(self, request: ResolveTopics) -> ResolvedTopics: ...

    async def topics_by_id(self, request: TopicNames) -> ResolvedTopics: ...

    async def ensure_topic(self, request: EnsureTopic) -> TopicInfo: ...

    async def list_topics(self, request: ListTopics) -> TopicList: ...

    async def describe_topic(self, request: DescribeTopic) -> TopicDescription: ...

    async def pop(self, request: Pop) -> Popped: ...

    async def settle(self, request: Settle) -> Settled: ...

    async def pull(self, request: Pull) -> Pulled: ...

    async def follow(self, request: Follow) -> Followed: ...

    async def find_event(self, request: FindEvent) -> FoundEvent: ...

    async def acquire(self, request: Acquire) -> Acquired: ...

    async def hold(self, request: Hold) -> Empty: ...

    async def commit_offsets(self, request: CommitOffsets) -> Empty: ...

    async def describe_group(self, request: DescribeGroup) -> GroupDescription: ...

    async def revive(self, request: Revive) -> Revived: ...

    async def list_groups(self, request: ListGroups) -> GroupNames: ...

    async def status(self, request: Empty) -> BrokerStatus: ...

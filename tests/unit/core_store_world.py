"""A store on a disk and an index in memory, driven by hand."""

from collections.abc import Callable, Sequence

from halfpast_core_store.broker import (
    Append,
    Appended,
    Dedup,
    GroupPolicy,
    Lane,
    Pop,
    Run,
    Settle,
    SettleAction,
    SettleResult,
    TopicInfo,
)
from halfpast_core_store.config import LanesConfig, LogConfig, StoreConfig
from halfpast_core_store.consumers import Consumers
from halfpast_core_store.group_plan import Plan
from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.store import Store
from halfpast_core_store.topics import SYS_TOPICS

START_NS = 1_800_000_000_000_000_000
START_MS = START_NS // 1_000_000
SALT = 0x5EED
SMALL = StoreConfig(
    log=LogConfig(
        segment_size=16 * 1024,
        frame_size=2048,
        frame_size_max=16 * 1024,
        reserve_size=1024,
        retention_ms=60_000,
    ),
    lanes=LanesConfig(send_message_thread_pool_nums=2),
)


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.wall_ns = START_NS

    def now_ns(self) -> int:
        return self.wall_ns

    def monotonic_ns(self) -> int:
        return self.wall_ns - START_NS

    @property
    def now_ms(self) -> int:
        return self.wall_ns // 1_000_000

    def advance(self, ms: int) -> None:
        self.wall_ns += ms * 1_000_000


class FakeRng:
    """Counts."""

    def __init__(self) -> None:
        self.last = 0

    def bits(self, count: int) -> int:
        self.last += 2
        return self.last % (1 << count)


class Answers:
    """Collects what a `done` is called with."""

    def __init__(self) -> None:
        self.got: list[Appended | Exception] = []

    def __call__(self, answer: Appended | Exception) -> None:
        self.got.append(answer)

    @property
    def one(self) -> Appended:
        (answer,) = self.got
        assert isinstance(answer, Appended), answer
        return answer


class World:
    """See the head of this file. `reopen` is a clean restart, `crash` is none."""

    def __init__(self, config: StoreConfig = SMALL) -> None:
        self.config = config
        self.clock = FakeClock()
        self.rng = FakeRng()
        self.disk = MemoryDisk()
        self.index = MemoryIndex()
        self.events = 0
        self.open()

    def open(self) -> None:
        self.store = Store(
            self.disk, self.index, self.clock, self.rng, self.config, SALT
        )
        self.store.open()
        self.consumers = Consumers(self.store)

    def crash(
        self, keep: Callable[[int], bool] = lambda _: False, batches: int = 0
    ) -> None:
        """Power cut: lose what was not synced, but for what is wanted; start."""
        self.disk = self.disk.crash(keep)
        self.index = self.index.crash(batches)
        self.open()

    def rebuild(self) -> None:
        """Start with the index deleted."""
        self.disk = self.disk.crash(lambda _: True)
        self.index = MemoryIndex()
        self.open()

    def pump(self) -> None:
        """Write all that waits."""
        while (sealed := self.store.seal()) is not None:
            self.store.write(sealed)
            self.store.complete(sealed)

    # --- sending --------------------------------------------------------------

    def topic(self, name: str = "orders", queue_count: int = 1) -> TopicInfo:
        """The topic, with at least so many queues."""
        registry = self.store.registry
        known = registry.topic(name)
        if known is None or known.queue_count < queue_count:
            record = registry.draft_topic(name, queue_count, self.clock.now_ms)
            assert record is not None
            self.append([Run(SYS_TOPICS, 0, [record])], lane=Lane.SYSTEM)
        info = registry.topic(name)
        assert info is not None
        return info

    def record(
        self,
        body: bytes = b"body",
        *,
        kind: int = RecordKind.NORMAL,
        key: bytes = b"",
        tag: bytes = b"",
        properties: bytes = b"",
        block: int | None = None,
        place: int = 0,
    ) -> bytes:
        """A message with an id of its own, the first of a block of its own."""
        if block is None:
            block = self.events = self.events + 1
        number = block << 14 | place
        event_id = (self.clock.now_ms << 80 | number).to_bytes(16, "big")
        return encode_record(
            kind,
            event_id=event_id,
            key=key,
            tag=tag,
            properties=properties,
            body=body,
            born_ms=self.clock.now_ms,
        )

    def append(
        self,
        runs: list[Run],
        *,
        lane: int = Lane.SEND,
        dedup: Dedup | None = None,
    ) -> Appended:
        """Append, durably; gives the answer."""
        answers = Answers()
        self.store.submit(Append(runs, lane, dedup), answers)
        self.pump()
        return answers.one

    def publish(
        self,
        bodies: Sequence[bytes],
        *,
        topic: str = "orders",
        queue: int = 0,
        key: bytes = b"",
        tag: bytes = b"",
        properties: bytes = b"",
    ) -> Appended:
        """One request with a message per body."""
        info = self.topic(topic)
        self.events += 1
        records = [
            self.record(
                body,
                key=key,
                tag=tag,
                properties=properties,
                block=self.events,
                place=place,
            )
            for place, body in enumerate(bodies)
        ]
        return self.append([Run(info.id, queue, records)])

    # --- consuming ------------------------------------------------------------

    def pop(
        self,
        *,
        group: str = "readers",
        topic: str = "orders",
        count: int = 32,
        invisible_ms: int = 10_000,
        tags: list[str] | None = None,
        policy: GroupPolicy | None = None,
        size_max: int = 8 * 1024 * 1024,
        filter: str = "",
    ) -> Plan:
        """What a pop that does not wait gets; an empty plan for nothing."""
        plans: list[Plan | Exception] = []
        request = Pop(
            group,
            topic,
            count,
            0,
            invisible_ms,
            tags or [],
            policy or GroupPolicy(),
            size_max,
            filter,
        )
        again_ms = self.consumers.pop(request, self.clock.now_ms, plans.append)
        self.pump()
        if again_ms is not None:
            assert not plans
            return Plan(self.store.groups.state(0, 0))
        (plan,) = plans
        assert isinstance(plan, Plan), plan
        return plan

    def settle(
        self,
        action: SettleAction,
        receipts: list[bytes],
        *,
        group: str = "readers",
        delay_ms: int | None = None,
        policy: GroupPolicy | None = None,
    ) -> list[SettleResult]:
        """The results, one per receipt."""
        plans: list[Plan | Exception] = []
        request = Settle(group, action, receipts, delay_ms, policy or GroupPolicy())
        self.consumers.settle(request, self.clock.now_ms, plans.append)
        self.pump()
        (plan,) = plans
        assert isinstance(plan, Plan), plan
        return plan.results

    def contents(self) -> dict[bytes, bytes]:
        """The index, without what is not in the log (how far roles hold it)."""
        return {k: v for k, v in self.index.contents().items() if k[:1] != b"H"}

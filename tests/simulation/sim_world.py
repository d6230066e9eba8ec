"""The whole system on a virtual clock and a disk that tears, driven by one seed.

The real log, projections, consumer groups and Delay Server run here; only the
event loop is replaced, by steps in random order. Between any two steps, and within
any disk operation, the broker or the Delay Server may die; each then starts again
from what its disk kept.
"""

import contextlib
from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.sim_disk import Fuse, SimDisk, SimulatedCrash
from tests.simulation.sim_model import Model, Sent, Stored, demand

from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.core import DelayCore, Firing
from halfpast_chronos.decisions import (
    Busy,
    Command,
    decide_cancel,
    decide_replace,
    decide_reschedule,
)
from halfpast_chronos.delay_server import Cancel, Cancelled, Replace, Reschedule
from halfpast_chronos.errors import DelayError
from halfpast_core_store.broker import (
    Append,
    Appended,
    Dedup,
    Delivered,
    Follow,
    Pop,
    Run,
    Settle,
    SettleAction,
)
from halfpast_core_store.config import LanesConfig, LogConfig, StoreConfig
from halfpast_core_store.consumers import Consumers
from halfpast_core_store.errors import CoreError, FenceLost, TooEarly
from halfpast_core_store.follow import follow
from halfpast_core_store.frame import read_runs, records_of
from halfpast_core_store.group_plan import Plan
from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.pending import Sealed
from halfpast_core_store.record import (
    Family,
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_core_store.store import Store
from halfpast_core_store.topics import SYS_SCHEDULE, SYS_TOPICS, USER_TOPIC_ID_MIN

START_NS = 1_800_000_000_000_000_000
SALT = 0x5EED
TOPICS = (USER_TOPIC_ID_MIN, USER_TOPIC_ID_MIN + 1)
QUEUES = 2
GROUP = "readers"
STEPS = 400

STORE = StoreConfig(
    log=LogConfig(
        segment_size=16 * 1024, frame_size=2048, frame_size_max=8192, reserve_size=512
    ),
    lanes=LanesConfig(send_message_thread_pool_nums=2),
)
CHRONOS = ChronosConfig(
    lookahead_ms=400, near_count_max=6, load_count=3, fire_count=4, fire_in_flight=2
)


class SimClock:
    """Wall time that may jump, monotonic time that does not."""

    def __init__(self) -> None:
        self.wall_ns = START_NS
        self.steady_ns = 0

    def now_ns(self) -> int:
        return self.wall_ns

    def monotonic_ns(self) -> int:
        return self.steady_ns

    def pass_ns(self, ns: int) -> None:
        self.wall_ns += ns
        self.steady_ns += ns


class SimRng:
    """Chance from the seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)


class World:
    """One run. `make_store` and `make_core` let a test plant a bug."""

    def __init__(
        self,
        seed: int,
        make_store: Callable[..., Store] = Store,
        make_core: Callable[..., DelayCore] = DelayCore,
        *,
        durable: bool = True,
        answer_early: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.clock = SimClock()
        self.rng = SimRng(self.random)
        self.model = Model()
        self.fuse = Fuse()
        self._make_store = make_store
        self._make_core = make_core
        self._durable = durable
        self._answer_early = answer_early
        self.disk = SimDisk(MemoryDisk(), self.fuse)
        self.index = MemoryIndex()
        self.delay_index = MemoryIndex()
        self.ids = 0
        self.sequence = 0
        self.retries: list[tuple[bytes, bytes, Sent]] = []
        self.held: list[tuple[tuple[int, int, int], Delivered]] = []
        self.crashes = 0
        self.armed = False
        self._open_store()
        self._create_topics()
        self._open_core()
        self.armed = True

    # --- processes --------------------------------------------------------------

    def _open_store(self) -> None:
        self.store = self._make_store(
            self.disk, self.index, self.clock, self.rng, STORE, SALT
        )
        self.store.open()
        self.consumers = Consumers(self.store)
        self.sealed: Sealed | None = None
        self.written = False
        self.held = []

    def _create_topics(self) -> None:
        for i in range(len(TOPICS)):
            record = self.store.registry.draft_topic(f"topic-{i}", QUEUES, self.now_ms)
            assert record is not None
            self.store.submit(Append([Run(SYS_TOPICS, 0, [record])], 3), lambda _: None)
        self._drain_store()

    def _open_core(self) -> None:
        self.core = self._make_core(self.delay_index, self.clock, CHRONOS)
        self._take_role()

    def _take_role(self) -> None:
        self.live = False
        self.firings = 0
        self.token, self.role_end = self.store.acquire("chronos")

    def crash_broker(self) -> None:
        """Power is lost: unsynced sectors survive as they like."""
        self.crashes += 1
        self.fuse.left = None
        while True:
            memory = self.disk.memory.crash(lambda _: self.random.random() < 0.5)
            kept = self.random.randint(0, self.index.batches_at_risk)
            self.index = self.index.crash(kept)
            self.disk = SimDisk(memory, self.fuse)
            if self.random.random() < 0.2:
                self.fuse.left = self.random.randint(0, 6)
            try:
                self._open_store()
            except SimulatedCrash:  # again, while it recovered
                continue
            break
        self.fuse.left = None
        self._take_role()

    def crash_core(self) -> None:
        self.crashes += 1
        kept = self.random.randint(0, self.delay_index.batches_at_risk)
        self.delay_index = self.delay_index.crash(kept)
        self._open_core()

    # --- steps ------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ns // 1_000_000

    def step(self) -> None:
        """Something happens."""
        act = self.random.choices(ACTIONS, WEIGHTS)[0]
        act(self)

    def store_step(self) -> None:
        """The broker's next move: seal, write or complete a frame."""
        if self.sealed is None:
            self.sealed = self.store.seal()
            self.written = False
        elif not self.written:
            if self.armed and self.random.random() < 0.03:
                self.fuse.left = self.random.randint(0, 3)
            try:
                self.store.write(self.sealed)
            except SimulatedCrash:
                self.crash_broker()
                return
            finally:
                self.fuse.left = None
            self.written = True
        else:
            sealed, self.sealed = self.sealed, None
            self.store.complete(sealed)

    def core_step(self) -> None:
        """The Delay Server's next move: follow, load, fire."""
        followed = follow(
            self.store.log,
            Follow(self.core.position, Family.TIMERS, size_max=2000),
        )
        self.core.apply(followed.frames, followed.next_position)
        if not self.live:
            if self.core.position < self.role_end:
                return
            claims = list(self.core.claims)
            self.core.release(claims)
            for claim in claims:
                if len(claim) == 16:
                    self.core.return_to_wheel(claim)
            self.live = True
        self.core.horizon.load(self.now_ms)
        if self.firings < CHRONOS.fire_in_flight:
            firing = self.core.fire()
            if firing is not None:
                self._send(firing)

    def _send(self, firing: Firing) -> None:
        request = firing.request
        request.fence_role, request.fence_token = "chronos", self.token
        token = self.token

        def done(answer: Appended | Exception) -> None:
            if token == self.token:
                self.firings -= 1

        self.firings += 1
        try:
            self.store.submit(request, done)
        except TooEarly:
            self.firings -= 1
            self.core.refused(firing)
        except CoreError:
            self.firings -= 1
            self.core.refused(firing)

    def time_step(self) -> None:
        self.clock.pass_ns(self.random.randint(1, 30_000_000))
        if self.random.random() < 0.02:  # somebody sets the clock
            self.clock.wall_ns += self.random.randint(-200, 200) * 1_000_000
        self.clock.wall_ns = max(self.clock.wall_ns, START_NS)

    def flush_step(self) -> None:
        if self.random.random() < 0.5:
            self.store.flush(self.store.log.durable_end)
        else:
            self.delay_index.flush()
        self.store.housekeep()

    # --- clients ----------------------------------------------------------------

    def next_id(self) -> bytes:
        self.ids += 1
        return (self.ids << 14).to_bytes(16, "big")

    def publish_step(self) -> None:
        """Send a few events over topics and queues, at once or later, atomically."""
        base = self.next_id()
        runs: list[Run] = []
        sents: list[Sent] = []
        for i in range(self.random.choice((1, 1, 2, 5))):
            self.sequence += 1
            event_id = (int.from_bytes(base, "big") + i).to_bytes(16, "big")
            topic = self.random.choice(TOPICS)
            queue = self.random.randrange(QUEUES)
            later = self.random.random() < 0.5
            due_ms = self.now_ms + self.random.choice((0, 1, 20, 100, 900))
            sent = self.model.send(event_id, due_ms if later else 0, self.sequence)
            sents.append(sent)
            record = self._record(event_id, topic, queue, due_ms if later else 0)
            target = (SYS_SCHEDULE, 0) if later else (topic, queue)
            runs.append(Run(*target, [record]))

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                for sent in sents:
                    sent.acknowledged = True

        self._submit(Append(runs, durable=self._durable), done)

    def _record(self, event_id: bytes, topic: int, queue: int, due_ms: int) -> bytes:
        return encode_record(
            RecordKind.SCHEDULE if due_ms else RecordKind.NORMAL,
            topic_id=topic,
            queue_id=queue,
            event_id=event_id,
            born_ms=self.now_ms,
            due_ms=due_ms,
            body=self.sequence.to_bytes(4, "big") + bytes(self.random.randint(0, 90)),
        )

    def _submit(
        self, request: Append, done: Callable[[Appended | Exception], None]
    ) -> None:
        with contextlib.suppress(CoreError):
            self.store.submit(request, done)

    def keyed_step(self) -> None:
        """Send with an idempotency key, or try one again that got no answer."""
        unanswered = [r for r in self.retries if not self.model.answered[r[0]]]
        if unanswered and self.random.random() < 0.6:
            key = self.random.choice(unanswered)[0]
        else:
            key = self.rng.bits(128).to_bytes(16, "big")
        base = self.next_id()
        sent = self.model.send(base, 0, 0)
        self.model.keyed[key].append(base)
        self.retries.append((key, base, sent))
        record = self._record(base, TOPICS[0], QUEUES - 1, 0)
        dedup = Dedup(key, bytes(16), base, self.clock.wall_ns)

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                first = answer.replayed.base_id if answer.replayed else base
                self.model.answered[key].add(first)

        self._submit(Append([Run(TOPICS[0], QUEUES - 1, [record])], dedup=dedup), done)

    def decide_step(self) -> None:
        """Cancel, reschedule, promote or replace some scheduled event."""
        later = [s for s in self.model.sent.values() if s.due_ms and not s.cancel]
        if not later or not self.live:
            return
        sent = self.random.choice(later[-20:])
        self._catch_up()
        try:
            if self.random.random() < 0.5:
                self._cancel(sent)
            else:
                self._move(sent)
        except DelayError:
            pass

    def _catch_up(self) -> None:
        while self.core.position < self.store.log.durable_end:
            followed = follow(self.store.log, Follow(self.core.position, Family.TIMERS))
            self.core.apply(followed.frames, followed.next_position)

    def _cancel(self, sent: Sent) -> None:
        decision = decide_cancel(self.core, Cancel(sent.event_id))
        if isinstance(decision, Busy):
            return
        if isinstance(decision, Cancelled):
            if decision.outcome != "not_found" or sent.acknowledged:
                sent.cancel = decision.outcome
            if decision.outcome == "not_found":
                demand(not sent.acknowledged, 4, "an acknowledged event was not found")
            return
        sent.maybe_cancelled = True

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                sent.cancel = "cancelled"

        self._command(decision, done)

    def _move(self, sent: Sent) -> None:
        due_ms = self.now_ms + self.random.choice((-5, 1, 40, 300))
        now = self.random.random() < 0.3
        request = Reschedule(sent.event_id, due_ms, None, now)
        decision = decide_reschedule(self.core, request)
        if isinstance(decision, Busy):
            return
        due_ms = self.now_ms if now else due_ms
        before = set(sent.dues)
        sent.dues.add(due_ms)

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                sent.dues -= before - {due_ms}

        self._command(decision, done)

    def put_step(self) -> None:
        """Create or replace by an own key; the last one answered is what counts."""
        if not self.live:
            return
        self._catch_up()
        key = self.random.choice((b"a", b"b"))
        self.sequence += 1
        due_ms = self.now_ms + self.random.choice((1, 50, 300))
        fresh = self.next_id()
        record = encode_record(
            RecordKind.SCHEDULE,
            topic_id=TOPICS[1],
            event_id=fresh,
            born_ms=self.now_ms,
            due_ms=due_ms,
            key=key,
            flags=RecordFlag.UPSERT,
            body=bytes(4),
        )
        try:
            decision = decide_replace(self.core, Replace(record))
        except DelayError:
            return
        if isinstance(decision, Busy):
            return
        sent = self.model.sent.get(decision.event_id)
        if sent is None:
            sent = self.model.send(decision.event_id, due_ms, 0)
        before = set(sent.dues)
        sent.dues.add(due_ms)

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                sent.acknowledged = True
                sent.dues -= before - {due_ms}

        self._command(decision, done)

    def _command(
        self, command: Command, done: Callable[[Appended | Exception], None]
    ) -> None:
        request = command.request
        request.fence_role, request.fence_token = "chronos", self.token
        core = self.core

        def answered(answer: Appended | Exception) -> None:
            if isinstance(answer, FenceLost):
                return
            done(answer)

        try:
            self.store.submit(request, answered)
        except CoreError:
            core.release(command.claims)
            core.return_to_wheel(command.event_id)
            return
        if self._answer_early:
            done(Appended(0, 0))

    # --- consumers --------------------------------------------------------------

    def pop_step(self) -> None:
        topic = self.random.randrange(len(TOPICS))
        now_ms = self.now_ms
        request = Pop(GROUP, f"topic-{topic}", 3, invisible_ms=60)

        def done(answer: Plan | Exception) -> None:
            if isinstance(answer, Plan):
                for message in answer.delivered:
                    place = (topic, message.queue, message.offset)
                    self.model.popped(place, now_ms, now_ms + 60)
                    self.held.append((place, message))

        with contextlib.suppress(CoreError):
            self.consumers.pop(request, now_ms, done)

    def settle_step(self) -> None:
        if not self.held:
            return
        chosen = self.random.sample(self.held, min(len(self.held), 3))
        self.held = [held for held in self.held if held not in chosen]
        action = self.random.choice((SettleAction.ACK, SettleAction.NACK))
        now_ms = self.now_ms

        def done(answer: Plan | Exception) -> None:
            if isinstance(answer, Exception):
                return
            for (place, _), result in zip(chosen, answer.results, strict=True):
                if not result.code and action == SettleAction.ACK:
                    self.model.settled.add(place)
                elif not result.code:
                    self.model.hidden_until[place] = now_ms + 20

        receipts = [message.receipt for _, message in chosen]
        for place, _ in chosen:  # until it is answered, either may have happened
            self.model.hidden_until[place] = 0
            if action == SettleAction.ACK:
                self.model.maybe_settled.add(place)
        with contextlib.suppress(CoreError):
            self.consumers.settle(Settle(GROUP, action, receipts, 20), now_ms, done)

    # --- checks -----------------------------------------------------------------

    def check(self, *, final: bool = False) -> None:
        """Compare the log with what clients were told."""
        self.model.check(self._stored(), final=final)

    def _stored(self) -> list[Stored]:
        """Every durable message, read from the log itself."""
        found: list[Stored] = []
        for header in self.store.log.frames_from(self.store.log.start):
            _, frame = self.store.log.read_frame(header.position)
            for run in read_runs(frame, header):
                if run.topic_id not in TOPICS:
                    continue
                for i, data in enumerate(records_of(frame, run)):
                    record = decode_record(data)
                    found.append(
                        Stored(
                            record.event_id,
                            (run.topic_id, run.queue_id),
                            run.base_offset + i,
                            header.stored_ms,
                            record.due_ms,
                            int.from_bytes(record.body[:4], "big"),
                        )
                    )
        return found

    def _drain_store(self) -> None:
        while self.sealed is not None or self.store.lanes:
            self.store_step()

    def finish(self) -> None:
        """Let everything that is due come, then check it all."""
        self.armed = False
        for _ in range(400):
            self.clock.pass_ns(10_000_000)
            self._drain_store()
            self.core_step()
        self._drain_store()
        self._catch_up()
        self.check(final=True)
        self._consume_all()
        self._check_rebuilt()

    def _consume_all(self) -> None:
        """A consumer gets everything in the end."""
        for _ in range(2000):
            self.held = []
            self.clock.pass_ns(70_000_000)
            for topic in range(len(TOPICS)):
                self._pop_now(f"topic-{topic}", topic)
            if not self.held:
                break
            receipts = [message.receipt for _, message in self.held]
            self.consumers.settle(
                Settle(GROUP, SettleAction.ACK, receipts), self.now_ms, lambda _: None
            )
            self._drain_store()
            self.model.settled.update(place for place, _ in self.held)
        messages = {(m.queue, m.offset) for m in self._stored()}
        settled = self._places(self.model.settled)
        demand(messages >= settled, 6, f"from nowhere: {settled - messages}")
        missing = messages - settled - self._places(self.model.maybe_settled)
        demand(not missing, 6, f"never consumed: {missing}")

    @staticmethod
    def _places(
        places: set[tuple[int, int, int]],
    ) -> set[tuple[tuple[int, int], int]]:
        return {((TOPICS[topic], queue), offset) for topic, queue, offset in places}

    def _pop_now(self, topic: str, number: int) -> None:
        def done(answer: Plan | Exception) -> None:
            assert isinstance(answer, Plan)
            for message in answer.delivered:
                place = (number, message.queue, message.offset)
                demand(
                    place not in self.model.settled, 6, f"{place} came after its ack"
                )
                self.held.append((place, message))

        self.consumers.pop(Pop(GROUP, topic, 50), self.now_ms, done)
        self._drain_store()

    def _check_rebuilt(self) -> None:
        """Without its index the store gives the same answers (promise 7)."""
        fresh = MemoryIndex()
        rebuilt = self._make_store(
            SimDisk(self.disk.memory, Fuse()), fresh, self.clock, self.rng, STORE, SALT
        )
        rebuilt.open()
        demand(
            answers_of(fresh) == answers_of(self.index), 7, "the rebuilt index differs"
        )
        core = self._make_core(MemoryIndex(), self.clock, CHRONOS)
        while core.position < rebuilt.log.durable_end:
            followed = follow(rebuilt.log, Follow(core.position, Family.TIMERS))
            core.apply(followed.frames, followed.next_position)
        assert isinstance(core.index, MemoryIndex)
        same = core.index.contents() == self.delay_index.contents()
        demand(same, 7, "the rebuilt timers differ")


def answers_of(index: MemoryIndex) -> dict[bytes, bytes]:
    """What an index answers, without what the log does not tell (family H)."""
    return {k: v for k, v in index.contents().items() if not k.startswith(b"H")}


ACTIONS: list[Callable[[World], None]] = [
    World.store_step,
    World.core_step,
    World.time_step,
    World.publish_step,
    World.keyed_step,
    World.decide_step,
    World.put_step,
    World.pop_step,
    World.settle_step,
    World.flush_step,
    World.crash_broker,
    World.crash_core,
    World.check,
]
WEIGHTS = [40, 25, 12, 8, 3, 5, 2, 4, 4, 2, 0.6, 0.6, 1]


def run(seed: int, **planted: Any) -> World:
    """One whole run; raises Broken when a promise was."""
    world = World(seed, **planted)
    for _ in range(STEPS):
        world.step()
    world.finish()
    return world

"""The whole system on a virtual clock and a disk that tears, driven by one seed.

The real log, projections, consumer groups and Delay Server run here; only the
event loop is replaced, by steps in random order. Between any two steps, and within
any disk operation, the broker or the Delay Server may die; each then starts again
from what its disk kept.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.sim_checks import Observer, check_rebuilt
from tests.simulation.sim_clients import Clients
from tests.simulation.sim_disk import Fuse, SimDisk, SimulatedCrash
from tests.simulation.sim_model import Model
from tests.simulation.sim_readers import Readers
from tests.simulation.sim_settings import (
    CHRONOS,
    FORGETFUL_STORE,
    QUEUES,
    SALT,
    START_NS,
    STEPS,
    STORE,
    TOPICS,
)

from halfpast_chronos.core import DelayCore, Firing
from halfpast_core_store.broker import Append, Appended, Follow, Run
from halfpast_core_store.consumers import Consumers
from halfpast_core_store.errors import CoreError
from halfpast_core_store.follow import follow
from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.pending import Sealed
from halfpast_core_store.record import Family
from halfpast_core_store.store import Store
from halfpast_core_store.topics import SYS_TOPICS


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
        self.forgets = seed % 3 == 0
        self.config = FORGETFUL_STORE if self.forgets else STORE
        self.observer = Observer()
        self.clock = SimClock()
        self.rng = SimRng(self.random)
        self.model = Model()
        self.fuse = Fuse()
        self.make_store = make_store
        self.make_core = make_core
        self.durable = durable
        self.answer_early = answer_early
        self.disk = SimDisk(MemoryDisk(), self.fuse)
        self.index = MemoryIndex()
        self.delay_index = MemoryIndex()
        self.clients = Clients(self)
        self.readers = Readers(self)
        self.crashes = 0
        self.armed = False
        self._open_store()
        self._create_topics()
        self._open_core()
        self.armed = True

    # --- processes --------------------------------------------------------------

    def _open_store(self) -> None:
        self.store = self.make_store(
            self.disk, self.index, self.clock, self.rng, self.config, SALT
        )
        self.store.open()
        self.observer.reopened(self.store)
        self.consumers = Consumers(self.store)
        self.sealed: Sealed | None = None
        self.written = False
        self.readers.held = []

    def _create_topics(self) -> None:
        for i in range(len(TOPICS)):
            record = self.store.registry.draft_topic(f"topic-{i}", QUEUES, self.now_ms)
            assert record is not None
            self.store.submit(Append([Run(SYS_TOPICS, 0, [record])], 3), lambda _: None)
        self.drain_store()

    def _open_core(self) -> None:
        self.core = self.make_core(self.delay_index, self.clock, CHRONOS)
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
            self.observer.completed(self.store, sealed.write.draft.position)

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
            position = self.core.save_position()
            self.delay_index.flush()
            if self.live:
                self.store.hold("chronos", self.token, position)
        self.store.housekeep()
        self.store.log.delete_forgotten()

    def catch_up(self) -> None:
        """The Delay Server applies all that is durable."""
        while self.core.position < self.store.log.durable_end:
            followed = follow(self.store.log, Follow(self.core.position, Family.TIMERS))
            self.core.apply(followed.frames, followed.next_position)

    # --- checks -----------------------------------------------------------------

    def check(self, *, final: bool = False) -> None:
        """Compare the log with what clients were told."""
        self.model.check(self.observer.messages(), final=final)

    def drain_store(self) -> None:
        while self.sealed is not None or self.store.lanes:
            self.store_step()

    def finish(self) -> None:
        """Let everything that is due come, then check it all."""
        self.armed = False
        for _ in range(400):
            self.clock.pass_ns(10_000_000)
            self.drain_store()
            self.core_step()
        self.drain_store()
        self.catch_up()
        self.check(final=True)
        self.readers.consume_all()
        if self.store.log.start == 0:
            check_rebuilt(self)


ACTIONS: list[Callable[[World], None]] = [
    World.store_step,
    World.core_step,
    World.time_step,
    lambda world: world.clients.publish(),
    lambda world: world.clients.publish_keyed(),
    lambda world: world.clients.decide(),
    lambda world: world.clients.put(),
    lambda world: world.readers.pop(),
    lambda world: world.readers.settle(),
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

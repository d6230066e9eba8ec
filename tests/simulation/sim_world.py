"""The whole system on a virtual clock and a disk that tears, driven by one seed.

The real log, projections, consumer groups and Delay Server run here; only the
event loop is replaced, by steps in random order. Between any two steps, and within
any disk operation, the broker or the Delay Server may die; each then starts again
from what its disk kept.
"""

from collections.abc import Callable
from random import Random

from tests.simulation.sim_calls import Calls
from tests.simulation.sim_checks import Observer
from tests.simulation.sim_clients import Clients
from tests.simulation.sim_clock import SimClock, SimRng
from tests.simulation.sim_disk import Fuse, SimDisk, SimulatedCrash
from tests.simulation.sim_endpoints import Endpoints
from tests.simulation.sim_history import History
from tests.simulation.sim_model import Model
from tests.simulation.sim_processes import Processes
from tests.simulation.sim_producers import Producers
from tests.simulation.sim_readers import Readers
from tests.simulation.sim_settings import (
    CHRONOS,
    FORGETFUL_STORE,
    QUEUES,
    SALT,
    STORE,
    TOPICS,
)
from tests.simulation.sim_transaction_model import TransactionModel
from tests.simulation.sim_transactions import TransactionProcess

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


class World:
    """One run. `make_store` and `make_core` let a test plant a bug."""

    def __init__(
        self,
        seed: int,
        make_store: Callable[..., Store] = Store,
        make_core: Callable[..., DelayCore] = DelayCore,
        make_transactions: type[TransactionProcess] = TransactionProcess,
        make_producers: type[Producers] = Producers,
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
        self.transaction_model = TransactionModel(is_forgetful=self.forgets)
        self.fuse = Fuse()
        self.make_store = make_store
        self.make_core = make_core
        self.make_transactions = make_transactions
        self.durable = durable
        self.answer_early = answer_early
        self.disk = SimDisk(MemoryDisk(), self.fuse)
        self.index = MemoryIndex()
        self.delay_index = MemoryIndex()
        self.clients = Clients(self)
        self.readers = Readers(self)
        self.calls = Calls(self)
        self.producers = make_producers(self)
        self.endpoints = Endpoints(self)
        self.crashes = 0
        self.armed = False
        self.histories: dict[bytes, History] = {}
        self._open_store()
        self._create_topics()
        self._open_core()
        self.transaction_token = 0
        self.processes = Processes(self, make_transactions)
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
        self.processes.cut()

    def crash_core(self) -> None:
        self.crashes += 1
        kept = self.random.randint(0, self.delay_index.batches_at_risk)
        self.delay_index = self.delay_index.crash(kept)
        self._open_core()

    @property
    def transactions(self) -> TransactionProcess:
        return self.processes.current

    # --- steps ------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.clock.wall_ns // 1_000_000

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
            claims = sorted(self.core.claims)
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
        if self.random.random() < 0.02:
            self.clock.jump_ms(self.random.randint(-200, 200))

    def flush_step(self) -> None:
        """Some of the indexes are flushed, and the log deleted that nobody needs."""
        if self.random.random() < 0.6:
            self.store.flush(self.store.log.durable_end)
        if self.random.random() < 0.6:
            position = self.core.save_position()
            self.delay_index.flush()
            if self.live:
                self.store.hold("chronos", self.token, position)
        if self.random.random() < 0.6:
            self.transactions.flush()
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
        self.histories = self.transaction_model.check(
            self.observer.logged(), self.clock.set_back_ms, final=final
        )

    def drain_store(self) -> None:
        while self.sealed is not None or self.store.lanes:
            self.store_step()

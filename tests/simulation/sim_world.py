"""The whole system on a virtual clock and a disk that tears, driven by one seed.

The real log, projections, consumer groups and Delay Server run here; only the
event loop is replaced, by steps in random order. Between any two steps, and within
any disk operation, the broker or the Delay Server may die; each then starts again
from what its disk kept.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.simulation.sim_calls import Calls
from tests.simulation.sim_checks import Observer
from tests.simulation.sim_clients import Clients
from tests.simulation.sim_clock import SimClock, SimRng
from tests.simulation.sim_delay import DelayProcess
from tests.simulation.sim_disk import Fuse, SimDisk, SimulatedCrash
from tests.simulation.sim_endpoints import Endpoints
from tests.simulation.sim_followers import Followers
from tests.simulation.sim_history import History
from tests.simulation.sim_model import Model
from tests.simulation.sim_processes import Processes
from tests.simulation.sim_producers import Producers
from tests.simulation.sim_readers import Readers
from tests.simulation.sim_releases import Settings
from tests.simulation.sim_schedulers import Schedulers
from tests.simulation.sim_settings import (
    ALL_TOPICS,
    CHRONOS,
    CHRONOS_CONFIGS,
    FOCUS_OF_SEED,
    FORGETFUL_HISTORY,
    FORGETFUL_STORE,
    QUEUES,
    SALT,
    STORE,
    Focus,
)
from tests.simulation.sim_timer_model import TimerModel
from tests.simulation.sim_transaction_model import TransactionModel
from tests.simulation.sim_transactions import TransactionProcess

from halfpast_chronos.bulk_records import BulkRecords
from halfpast_chronos.core import DelayCore
from halfpast_chronos.recurring import Recurring
from halfpast_core_store.broker import Append, Run
from halfpast_core_store.consumers import Consumers
from halfpast_core_store.memory_disk import MemoryDisk
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.pending import Sealed
from halfpast_core_store.store import Store
from halfpast_core_store.topics import SYS_TOPICS


class World:
    """One run. The makers let a test plant a bug; the seed tells the focus, if nobody
    does."""

    def __init__(
        self,
        seed: int,
        make_store: Callable[..., Store] = Store,
        make_core: Callable[..., DelayCore] = DelayCore,
        make_transactions: type[TransactionProcess] = TransactionProcess,
        make_producers: type[Producers] = Producers,
        make_recurring: Callable[[DelayCore], Recurring] = Recurring,
        make_bulk_records: Callable[[DelayCore], BulkRecords] = BulkRecords,
        make_delay: type[DelayProcess] = DelayProcess,
        *,
        focus: Focus | None = None,
        durable: bool = True,
        answer_early: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.focus = focus or FOCUS_OF_SEED[seed % len(FOCUS_OF_SEED)]
        self.forgets = seed % 3 == 0
        self.forgets_events = self.focus != Focus.BROKER and seed % 7 == 0
        self.chronos = CHRONOS
        if self.focus != Focus.BROKER:
            self.chronos = self.random.choice(CHRONOS_CONFIGS)
        if self.forgets_events:
            self.chronos = replace(self.chronos, **FORGETFUL_HISTORY)
        self.config = FORGETFUL_STORE if self.forgets else STORE
        self.clock = SimClock()
        self.timers = TimerModel(self)
        self.observer = Observer(self.timers)
        self.rng = SimRng(self.random)
        self.model = Model()
        self.transaction_model = TransactionModel(is_forgetful=self.forgets)
        self.fuse = Fuse()
        self.make_store = make_store
        self.make_core = make_core
        self.make_transactions = make_transactions
        self.make_recurring = make_recurring
        self.make_bulk_records = make_bulk_records
        self._make_delay = make_delay
        self.durable = durable
        self.answer_early = answer_early
        self.disk = SimDisk(MemoryDisk(), self.fuse)
        self.index = MemoryIndex()
        self.clients = Clients(self)
        self.readers = Readers(self)
        self.followers = Followers(self)
        self.schedulers = Schedulers(self)
        self.settings = Settings(self)
        self.calls = Calls(self)
        self.producers = make_producers(self)
        self.endpoints = Endpoints(self)
        self.crashes = 0
        self.armed = False
        self.histories: dict[bytes, History] = {}
        self._open_store()
        self._create_topics()
        self.delay = self._make_delay(self, MemoryIndex())
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
        self.followers.held = []

    def _create_topics(self) -> None:
        for i in range(len(ALL_TOPICS) - 1):
            self._create_topic(i)

    def create_late_topic(self) -> None:
        self._create_topic(len(ALL_TOPICS) - 1)

    def _create_topic(self, number: int) -> None:
        name = f"topic-{number}"
        record = self.store.registry.draft_topic(name, QUEUES, self.now_ms)
        assert record is not None
        self.store.submit(Append([Run(SYS_TOPICS, 0, [record])], 3), lambda _: None)
        self.drain_store()

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
        self.delay.connection.cut()
        self.processes.cut()

    def crash_delay(self) -> None:
        """The Delay Server dies, and starts from what its disk kept."""
        self.crashes += 1
        index = self.delay.index
        kept = self.random.randint(0, index.batches_at_risk)
        self.delay = self._make_delay(self, index.crash(kept))

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

    def delay_step(self) -> None:
        self.delay.step()

    def time_step(self) -> None:
        self.clock.pass_ns(self.random.randint(1, 30_000_000))
        if self.random.random() < 0.02:
            self.clock.jump_ms(self.random.randint(-200, 200))

    def clock_step(self) -> None:
        """Somebody sets the clock by much."""
        self.clock.jump_ms(self.random.choice((-1200, -400, 700, 1500, 3000)))

    def stand_still(self) -> None:
        """Nothing runs for a while."""
        self.clock.pass_ns(self.random.randint(100, 2_500) * 1_000_000)

    def flush_step(self) -> None:
        """Some of the indexes are flushed, and the log deleted that nobody needs."""
        if self.random.random() < 0.6:
            self.store.flush(self.store.log.durable_end)
        if self.random.random() < 0.6:
            self.delay.keep_house()
        if self.random.random() < 0.6:
            self.transactions.flush()
        self.store.housekeep()
        self.store.log.delete_forgotten()

    # --- checks -----------------------------------------------------------------

    def check(self, *, final: bool = False) -> None:
        """Compare the log with what clients were told."""
        timers = self.timers.timers
        self.model.check(self.observer.messages(), timers, final=final)
        self.timers.check(self.delay)
        self.histories = self.transaction_model.check(
            self.observer.logged(), self.clock.set_back_ms, final=final
        )

    def drain_store(self) -> None:
        while self.sealed is not None or self.store.lanes:
            self.store_step()

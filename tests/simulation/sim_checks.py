"""Comparing what the disks hold with what they should."""

from typing import TYPE_CHECKING

from tests.simulation.sim_disk import Fuse, SimDisk
from tests.simulation.sim_history import PROMISE, Logged
from tests.simulation.sim_model import Stored, demand, is_transactional
from tests.simulation.sim_settings import ALL_TOPICS, SALT, TOPICS, TXN
from tests.simulation.sim_timer_model import Frame, TimerModel, is_of_schedule

from halfpast_chronos.operations import Operations
from halfpast_core_store.broker import Follow
from halfpast_core_store.follow import follow
from halfpast_core_store.frame import PlacedRun, read_runs, records_of
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import Family, decode_record
from halfpast_core_store.store import Store
from halfpast_core_store.topics import (
    SYS_FIRED,
    SYS_SCHEDULE,
    SYS_TRANS_HALF,
    SYS_TRANS_OP,
    TRANS_CHECK_MAX_TIME,
)
from halfpast_txn.status import decode_status
from halfpast_txn.transactions import TransactionState

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

TRANSACTION_TOPICS = frozenset(
    (*TOPICS, SYS_SCHEDULE, SYS_TRANS_HALF, SYS_TRANS_OP, TRANS_CHECK_MAX_TIME)
)
TIMER_TOPICS = frozenset((*ALL_TOPICS, SYS_SCHEDULE, SYS_FIRED))


class Observer:
    """Sees every message that ever became durable, also when retention has deleted
    it from the log."""

    def __init__(self, timers: TimerModel) -> None:
        self._timers = timers
        self._frames: dict[int, list[Stored]] = {}
        self._logged: dict[int, list[Logged]] = {}

    def reopened(self, store: Store) -> None:
        """Look again at what is left of the log."""
        for position in [at for at in self._frames if at >= store.log.start]:
            del self._frames[position]
            self._logged.pop(position, None)
        for header in store.log.frames_from(store.log.start):
            self.completed(store, header.position)

    def completed(self, store: Store, position: int) -> None:
        """The frame at `position` has become durable."""
        header, frame = store.log.read_frame(position)
        runs = read_runs(frame, header)
        self._frames[position] = [
            stored_message(record, run, i, header.stored_ms)
            for run in runs
            if run.topic_id in ALL_TOPICS
            for i, record in enumerate(records_of(frame, run))
        ]
        if position > self._timers.position:
            seen = Frame(position, header.stored_ms)
            for run in runs:
                if run.topic_id in TIMER_TOPICS:
                    for record in records_of(frame, run):
                        seen.add(run.topic_id, decode_record(record), record)
            self._timers.follow(seen)
        logged = [
            Logged(position, header.stored_ms, run.topic_id, decode_record(record))
            for run in runs
            if run.topic_id in TRANSACTION_TOPICS
            for record in records_of(frame, run)
            if is_transactional(record[16:32])
        ]
        if logged:
            self._logged[position] = logged

    def messages(self, start: int = 0) -> list[Stored]:
        """In log order, those from position `start` on."""
        return [
            message
            for position, messages in sorted(self._frames.items())
            if position >= start
            for message in messages
        ]

    def logged(self) -> list[Logged]:
        """All about transactions, and all their messages, in log order."""
        return [one for _, some in sorted(self._logged.items()) for one in some]


def stored_message(data: bytes, run: PlacedRun, i: int, stored_ms: int) -> Stored:
    record = decode_record(data)
    return Stored(
        record.event_id,
        (run.topic_id, run.queue_id),
        run.base_offset + i,
        stored_ms,
        record.due_ms,
        int.from_bytes(record.body[:4], "big"),
        is_of_schedule(record),
        record.key,
    )


def check_rebuilt(world: "World") -> None:
    """Without its index the store gives the same answers (promise 7)."""
    fresh = MemoryIndex()
    rebuilt = world.make_store(
        SimDisk(world.disk.memory, Fuse()),
        fresh,
        world.clock,
        world.rng,
        world.config,
        SALT,
    )
    rebuilt.open()
    demand(answers_of(fresh) == answers_of(world.index), 7, "the rebuilt index differs")
    if world.forgets_events:
        return  # the log still has what was forgotten
    core = world.make_core(MemoryIndex(), world.clock, world.chronos)
    world.make_recurring(core)
    world.make_bulk_records(core)
    Operations(core)
    while core.position < rebuilt.log.durable_end:
        followed = follow(rebuilt.log, Follow(core.position, Family.TIMERS))
        core.apply(followed.frames, followed.next_position)
    assert isinstance(core.index, MemoryIndex)
    # What is due when is counted in memory, and written with each flush.
    same = answers_of(core.index, b"C") == answers_of(world.delay.index, b"C")
    demand(same, 7, "the rebuilt timers differ")
    if not world.forgets:  # the log still has what was forgotten
        check_rebuilt_transactions(world, rebuilt)


def check_rebuilt_transactions(world: "World", rebuilt: Store) -> None:
    """Without its index the transaction service is in the same state (promise 7)."""
    core = world.make_transactions.make_core(MemoryIndex(), world.clock, TXN)
    while core.position < rebuilt.log.durable_end:
        followed = follow(rebuilt.log, Follow(core.position, Family.TRANSACTIONS))
        core.apply(followed.frames, followed.next_position)
    assert isinstance(core.index, MemoryIndex)
    same = answers_of(core.index) == answers_of(world.transactions.index)
    demand(same, 7, "the rebuilt transactions differ")


def check_transactions(world: "World") -> None:
    """The books balance: begun = committed + rolled back + parked (promise 5)."""
    core = world.transactions.core
    left = dict(core.index.scan(b"S", b"T", 10_000))
    parked = {
        transaction_id
        for transaction_id, history in world.histories.items()
        if history.state == TransactionState.PARKED
    }
    listed = {key[1:] for key, _ in core.index.scan(b"P", b"Q", 10_000)}
    demand(listed == parked, PROMISE, f"{listed ^ parked} are parked, or are not")
    open_ones = {key[1:] for key in left}
    demand(open_ones == parked, PROMISE, f"{open_ones - parked} are open for ever")
    counted = (core.open_count, core.parked_count)
    true = (len(open_ones), len(parked))
    demand(counted == true, PROMISE, f"open and parked are {true}, counted {counted}")
    unfinished = core.index.scan(b"X", b"Y", 10_000)
    orphans = [key for key, _ in unfinished if key[1:17] not in parked]
    demand(not orphans, PROMISE, "messages of ended transactions are kept")
    demand(not core.claims and not core.asking, PROMISE, "a claim is held for ever")
    for key, value in left.items():
        status, history = decode_status(value), world.histories[key[1:]]
        same = (status.checks, status.message_count) == (history.checks, history.count)
        demand(same, PROMISE, f"{key[1:].hex()} stands at {status}")


def answers_of(index: MemoryIndex, counted: bytes = b"") -> dict[bytes, bytes]:
    """What an index answers, without how far it is, what the log does not tell, and
    the family `counted`."""
    left_out = (b"H", b"M", counted)
    return {k: v for k, v in index.contents().items() if k[:1] not in left_out}

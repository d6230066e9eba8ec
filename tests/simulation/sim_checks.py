"""Comparing what the disks hold with what they should."""

from typing import TYPE_CHECKING

from tests.simulation.sim_disk import Fuse, SimDisk
from tests.simulation.sim_model import Stored, demand
from tests.simulation.sim_settings import CHRONOS, SALT, TOPICS

from halfpast_core_store.broker import Follow
from halfpast_core_store.follow import follow
from halfpast_core_store.frame import PlacedRun, read_runs, records_of
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import Family, decode_record
from halfpast_core_store.store import Store

if TYPE_CHECKING:
    from tests.simulation.sim_world import World


class Observer:
    """Sees every message that ever became durable, also when retention has deleted
    it from the log."""

    def __init__(self) -> None:
        self._frames: dict[int, list[Stored]] = {}

    def reopened(self, store: Store) -> None:
        """Look again at what is left of the log."""
        for position in [at for at in self._frames if at >= store.log.start]:
            del self._frames[position]
        for header in store.log.frames_from(store.log.start):
            self.completed(store, header.position)

    def completed(self, store: Store, position: int) -> None:
        """The frame at `position` has become durable."""
        header, frame = store.log.read_frame(position)
        self._frames[position] = [
            stored_message(record, run, i, header.stored_ms)
            for run in read_runs(frame, header)
            if run.topic_id in TOPICS
            for i, record in enumerate(records_of(frame, run))
        ]

    def messages(self, start: int = 0) -> list[Stored]:
        """In log order, those from position `start` on."""
        return [
            message
            for position, messages in sorted(self._frames.items())
            if position >= start
            for message in messages
        ]


def stored_message(data: bytes, run: PlacedRun, i: int, stored_ms: int) -> Stored:
    record = decode_record(data)
    return Stored(
        record.event_id,
        (run.topic_id, run.queue_id),
        run.base_offset + i,
        stored_ms,
        record.due_ms,
        int.from_bytes(record.body[:4], "big"),
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
    core = world.make_core(MemoryIndex(), world.clock, CHRONOS)
    while core.position < rebuilt.log.durable_end:
        followed = follow(rebuilt.log, Follow(core.position, Family.TIMERS))
        core.apply(followed.frames, followed.next_position)
    assert isinstance(core.index, MemoryIndex)
    same = answers_of(core.index) == answers_of(world.delay_index)
    demand(same, 7, "the rebuilt timers differ")


def answers_of(index: MemoryIndex) -> dict[bytes, bytes]:
    """What an index answers, without how far it is and what the log does not tell."""
    return {k: v for k, v in index.contents().items() if k[:1] not in (b"H", b"M")}

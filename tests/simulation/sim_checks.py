"""Comparing what the disks hold with what they should."""

from typing import TYPE_CHECKING

from tests.simulation.sim_disk import Fuse, SimDisk
from tests.simulation.sim_model import Stored, demand
from tests.simulation.sim_settings import CHRONOS, SALT, STORE, TOPICS

from halfpast_core_store.broker import Follow
from halfpast_core_store.follow import follow
from halfpast_core_store.frame import read_runs, records_of
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import Family, decode_record
from halfpast_core_store.store import Store

if TYPE_CHECKING:
    from tests.simulation.sim_world import World


def stored_messages(store: Store) -> list[Stored]:
    """Every durable message, read from the log itself."""
    found: list[Stored] = []
    for header in store.log.frames_from(store.log.start):
        _, frame = store.log.read_frame(header.position)
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


def check_rebuilt(world: "World") -> None:
    """Without its index the store gives the same answers (promise 7)."""
    fresh = MemoryIndex()
    rebuilt = world.make_store(
        SimDisk(world.disk.memory, Fuse()), fresh, world.clock, world.rng, STORE, SALT
    )
    rebuilt.open()
    demand(answers_of(fresh) == answers_of(world.index), 7, "the rebuilt index differs")
    core = world.make_core(MemoryIndex(), world.clock, CHRONOS)
    while core.position < rebuilt.log.durable_end:
        followed = follow(rebuilt.log, Follow(core.position, Family.TIMERS))
        core.apply(followed.frames, followed.next_position)
    assert isinstance(core.index, MemoryIndex)
    same = core.index.contents() == world.delay_index.contents()
    demand(same, 7, "the rebuilt timers differ")


def answers_of(index: MemoryIndex) -> dict[bytes, bytes]:
    """What an index answers, without what the log does not tell (family H)."""
    return {k: v for k, v in index.contents().items() if not k.startswith(b"H")}

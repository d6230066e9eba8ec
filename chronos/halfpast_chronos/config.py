"""What may be tuned in the Delay Server."""

from dataclasses import dataclass
from typing import Protocol

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ChronosConfig:
    """Everything about one Delay Server. Read once at its start."""

    lookahead_ms: int = 300_000
    """How far ahead of now timers are held in the wheel, at most."""

    near_count_max: int = 100_000
    """How many timers the wheel holds; the rest waits in RocksDB."""

    near_topic_count_max: int = 20_000
    """How many of them may be of one topic, so that none crowds out the others."""

    near_size_max: int = 48 * MIB
    """How many bytes of their records are kept in memory; others are read again."""

    load_count: int = 500
    """How many timers are loaded in one go when they are due: a millisecond of work."""

    fire_count: int = 200
    """How many timers fire in one atomic frame."""

    fire_size: int = 4 * MIB
    """A frame with so many bytes takes no further timer."""

    fire_in_flight: int = 8
    """How many such frames may be on their way to the broker at once."""

    attempts_max: int = 10
    """How often an event is tried that its topic does not take; then it is dead."""

    retry_initial_ms: int = 1_000
    """How long it waits before the second attempt, then twice as long each time."""

    retry_max_ms: int = 300_000
    """And at most so long."""

    clock_jump_ms: int = 60_000
    """A clock that is set forward by so much may be wrong: what is due by it is
    drained, instead of fired as fast as can be."""

    drain_rate_per_s: int = 5_000
    """How many timers then fire in a second, until all that is due has fired."""

    index_flush_ms: int = 5_000
    """The timers are flushed this often, which bounds the replay at a start."""

    history_ms: int = 7 * 24 * 3600 * 1000
    """How long finished events can be looked up."""

    history_count_max: int = 10_000_000
    """How many of them, at most; each takes some 150 bytes on the disk."""

    index_write_buffer: int = 16 * MIB
    """Bytes of one RocksDB memtable."""

    index_cache: int = 32 * MIB
    """Bytes of the RocksDB block cache."""


class HorizonConfig(Protocol):
    """How much is held in memory (see `horizon.py`)."""

    @property
    def lookahead_ms(self) -> int: ...
    @property
    def near_count_max(self) -> int: ...
    @property
    def near_topic_count_max(self) -> int: ...
    @property
    def near_size_max(self) -> int: ...
    @property
    def load_count(self) -> int: ...

"""What may be tuned in the Delay Server."""

from dataclasses import dataclass

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
    """How many timers are loaded in one go: a millisecond of work."""

    fire_count: int = 200
    """How many timers fire in one atomic frame."""

    fire_size: int = 4 * MIB
    """A frame with so many bytes takes no further timer."""

    fire_in_flight: int = 8
    """How many such frames may be on their way to the broker at once."""

    index_flush_ms: int = 5_000
    """The timers are flushed this often, which bounds the replay at a start."""

    history_ms: int = 7 * 24 * 3600 * 1000
    """How long finished events can be looked up."""

    index_write_buffer: int = 32 * MIB
    """Bytes of one RocksDB memtable."""

    index_cache: int = 32 * MIB
    """Bytes of the RocksDB block cache."""

"""What may be tuned in the transaction service."""

from dataclasses import dataclass

MIB = 1024 * 1024
MESSAGE_COUNT_MAX = 1_000
MESSAGE_SIZE_MAX = 16 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnConfig:
    """Everything about one transaction service. Read once at its start."""

    message_count_max: int = MESSAGE_COUNT_MAX
    """Messages in one transaction."""

    message_size_max: int = MESSAGE_SIZE_MAX
    """Bytes of all their records together."""

    lookahead_ms: int = 300_000
    """How far ahead of now check-backs are held in the wheel, at most."""

    near_count_max: int = 100_000
    """How many of them the wheel holds; the rest waits in RocksDB."""

    near_topic_count_max: int = 100_000
    """The same: to the wheel, all of them are of one topic."""

    near_size_max: int = 0
    """Kept for the wheel: a check-back has no record of its own."""

    load_count: int = 500
    """How many of them are loaded in one go: a millisecond of work."""

    young_size_max: int = 16 * MIB
    """Bytes of open transactions kept in memory; others are read for their commit."""

    check_count: int = 100
    """How many check-backs are written in one atomic frame."""

    check_in_flight: int = 4
    """How many such frames may be on their way to the broker at once."""

    end_size: int = MIB
    """Outcomes that are decided together travel in one frame up to this size."""

    waiting_checks_max: int = 10_000
    """Questions to one producer group that wait for somebody to take them."""

    index_flush_ms: int = 5_000
    """The index is flushed this often, which bounds the replay at a start."""

    history_ms: int = 7 * 24 * 3600 * 1000
    """How long ended transactions can be looked up, and their outcome repeated."""

    index_write_buffer: int = 32 * MIB
    """Bytes of one RocksDB memtable."""

    index_cache: int = 32 * MIB
    """Bytes of the RocksDB block cache."""

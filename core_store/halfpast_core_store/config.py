"""What may be tuned in the store. What the file format fixes is in the manifest."""

import os
from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How the commit log is cut into files and how long it is kept."""

    segment_size: int = 1024 * MIB
    """Bytes of one preallocated file."""

    frame_size: int = MIB
    """Requests are gathered into one frame, and one sync, up to this size."""

    frame_requests: int = 512
    """A frame takes about this many requests at most, however small they are."""

    frame_size_max: int = 96 * MIB
    """A single larger request gets a frame of its own up to this size."""

    reserve_size: int = 16 * MIB
    """The last bytes that only acknowledgements and firings may use."""

    retention_ms: int = 72 * 3600 * 1000
    """Segments whose last frame is older are deleted."""

    retention_size: int = 0
    """Oldest segments beyond this many bytes are deleted; 0 means no limit."""

    disk_used_max: float = 0.95
    """Sends are refused when the file system is fuller than this share."""


def send_lane_share() -> int:
    """RocketMQ's sendMessageThreadPoolNums: min(cores, 4)."""
    return min(os.cpu_count() or 1, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesConfig:
    """Shares and bounds of the admission lanes (see `lanes.py`)."""

    send_message_thread_pool_nums: int = field(default_factory=send_lane_share)
    end_transaction_thread_pool_nums: int = 0
    """0 means four times the send lane, as in RocketMQ."""

    request_count_max: int = 10_000
    """Requests that may wait in one lane."""

    size_max: int = 64 * MIB
    """Bytes that may wait in one lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Everything about one store. Read once at its start."""

    log: LogConfig = field(default_factory=LogConfig)
    lanes: LanesConfig = field(default_factory=LanesConfig)

    index_flush_ms: int = 5_000
    """The index is flushed this often, which bounds the replay at a start."""

    dedup_window_ms: int = 24 * 3600 * 1000
    """How long an idempotency key is remembered."""

    index_write_buffer: int = 16 * MIB
    """Bytes of one RocksDB memtable."""

    index_cache: int = 32 * MIB
    """Bytes of the RocksDB block cache."""

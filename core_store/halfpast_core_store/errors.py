"""Everything that can go wrong in the store, as one tree.

    CoreError
    ├── StoreError              the log or its folder
    │   ├── StoreFull           no room: free space, then retry
    │   ├── StoreFailed         an fsync failed: the process must end
    │   ├── FolderInUse         another process holds the data folder
    │   ├── NewerFormat         the folder was written by a newer release
    │   ├── ForeignFolder       the folder holds something else
    │   ├── CorruptLog          a frame fails its checksum and valid ones follow
    │   ├── LogBehindIndex      the log lost frames that the index has seen
    │   └── BrokenIndex         RocksDB cannot open an index
    ├── Overloaded              a lane is full: retry after a moment
    ├── RequestTooLarge         one request does not fit into a frame
    ├── UnknownTopic            topics are not created on use, and this one is new
    ├── OffsetOutOfRange        a pull begins where the queue has nothing
    ├── FenceLost               another instance took over this role
    ├── TooEarly                a timer was fired before its time by our clock
    ├── InvalidFilter           a filter expression cannot be read
    └── IdempotencyConflict     one key, two different requests

    IndexFailed                 RocksDB failed at work: the process must end

`code` is the stable word that the HTTP API shows. Arguments are plain values,
so that an error pickles and travels over the socket protocol unchanged.
"""

from pathlib import PurePath
from typing import ClassVar, Final

ONLY_THERE: Final = {
    "index": "names of topics and groups, and the places of groups,",
    "chronos": "pending events",
    "txn": "open transactions",
}
"""What an index alone holds once the log has been cut, by its folder."""


class CoreError(Exception):
    """Base of all errors that Halfpast's own services raise on purpose."""

    code: ClassVar[str] = "internal"


class StoreError(CoreError):
    """The log, its index or its folder cannot do what was asked."""

    code = "store_error"


class StoreFull(StoreError):
    """No room for `needed` more bytes; nothing was stored. Free space and retry."""

    code = "store_full"

    def __init__(self, needed: int, reason: str = "the disk is full") -> None:
        super().__init__(needed, reason)
        self.needed = needed
        self.reason = reason

    def __str__(self) -> str:
        return f"no room for {self.needed} bytes: {self.reason}"


class StoreFailed(StoreError):
    """The disk refused a write or a sync. What was in flight is unknown.

    Never retry: after a failed fsync the kernel may call the next one a
    success without having written anything. The process ends and recovers
    from what is really on the disk.
    """

    code = "store_failed"

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the store has failed and must restart: {self.what}"


class FolderInUse(StoreError):
    """Another process holds the lock on this data folder."""

    code = "folder_in_use"

    def __init__(self, folder: str, holder: str) -> None:
        super().__init__(folder, holder)
        self.folder = folder
        self.holder = holder

    def __str__(self) -> str:
        return (
            f"the data folder {self.folder} is in use by {self.holder}; "
            "stop that process or choose another folder with --data"
        )


class NewerFormat(StoreError):
    """The folder was written by a release that this one cannot read."""

    code = "newer_format"

    def __init__(self, folder: str, found: int, known: int) -> None:
        super().__init__(folder, found, known)
        self.folder = folder
        self.found = found
        self.known = known

    def __str__(self) -> str:
        return (
            f"{self.folder} has format version {self.found}, this release reads "
            f"up to {self.known}; start it with a newer release of Halfpast"
        )


class ForeignFolder(StoreError):
    """The folder is not a data folder of Halfpast, or its manifest is broken."""

    code = "foreign_folder"

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.folder} cannot be used as a data folder: {self.reason}"


class CorruptLog(StoreError):
    """The frame at `offset` is damaged although it was durable once.

    `next_valid` is the offset of an intact frame behind it, or -1 where the
    damage was met on reading. Nothing is truncated: acknowledged data follows.
    """

    code = "corrupt_log"

    def __init__(self, segment: str, offset: int, next_valid: int) -> None:
        super().__init__(segment, offset, next_valid)
        self.segment = segment
        self.offset = offset
        self.next_valid = next_valid

    def __str__(self) -> str:
        behind = (
            f"an intact frame follows at {self.next_valid}, so this is damage and "
            "not an unfinished write"
            if self.next_valid >= 0
            else "it was intact when it was written"
        )
        return (
            f"the log is corrupt at offset {self.offset} in segment {self.segment}: "
            f"{behind}; restore this segment from a backup or run 'halfpast doctor'"
        )


class LogBehindIndex(StoreError):
    """The index reflects frames that the log no longer has."""

    code = "log_behind_index"

    def __init__(self, log_end: int, applied: int) -> None:
        super().__init__(log_end, applied)
        self.log_end = log_end
        self.applied = applied

    def __str__(self) -> str:
        return (
            f"the log ends at {self.log_end}, but the index has applied it up to "
            f"{self.applied}: acknowledged data is missing (a disk that lies about "
            "fsync, or a restored log); restore the segments, or delete the index "
            "folder to accept the loss"
        )


class BrokenIndex(StoreError):
    """RocksDB cannot open the index in `folder`; the log is not concerned.

    The advice depends on the folder's name: see `ONLY_THERE`.
    """

    code = "broken_index"

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        lost = ONLY_THERE.get(PurePath(self.folder).name, "entries")
        return (
            f"the index {self.folder} cannot be opened: {self.reason}; restore it from "
            "a backup. If there is none, move it away: the next start builds it from "
            f"what the log still holds, and {lost} older than that are lost"
        )


class IndexFailed(Exception):
    """RocksDB could not read or write the index in `folder` while it was in use.

    Whoever holds the index must end, and recover from what is on the disk: RocksDB
    takes no more writes once one of its own has failed. This is no CoreError on
    purpose, so that nobody takes it for the answer of a broker (`StoreFailed`: take
    the role anew) or for a refusal (`StoreFull`: nothing was stored, try again).
    """

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return f"the index {self.folder} has failed and must reopen: {self.reason}"


class Overloaded(CoreError):
    """A lane is full. Nothing was stored; retry after `retry_after_ms`."""

    code = "overloaded"

    def __init__(self, lane: str, retry_after_ms: int = 1000) -> None:
        super().__init__(lane, retry_after_ms)
        self.lane = lane
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        return f"the {self.lane} lane is full; retry after {self.retry_after_ms} ms"


class RequestTooLarge(CoreError):
    """One request is larger than the largest frame. Nothing was stored."""

    code = "request_too_large"

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(size, size_max)
        self.size = size
        self.size_max = size_max

    def __str__(self) -> str:
        return f"the request takes {self.size} bytes, the limit is {self.size_max}"


class UnknownTopic(CoreError):
    """There is no such topic, and it may not be created on first use."""

    code = "unknown_topic"

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return f"there is no topic {self.topic!r}; create it with POST /v1/topics"


class UnknownQueue(CoreError):
    """The topic has no queue of this number."""

    code = "unknown_queue"

    def __init__(self, topic: str, queue: int, queue_count: int) -> None:
        super().__init__(topic, queue, queue_count)
        self.topic = topic
        self.queue = queue
        self.queue_count = queue_count

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} has queues 0 to {self.queue_count - 1}, "
            f"not {self.queue}"
        )


class QueuesShrink(CoreError):
    """A topic's queues can be added to, never taken away: they hold messages."""

    code = "queues_shrink"

    def __init__(self, topic: str, queue_count: int, asked: int) -> None:
        super().__init__(topic, queue_count, asked)
        self.topic = topic
        self.queue_count = queue_count
        self.asked = asked

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} has {self.queue_count} queues and cannot "
            f"shrink to {self.asked}"
        )


class OffsetOutOfRange(CoreError):
    """The queue holds `offset_min` (inclusive) to `offset_max` (exclusive)."""

    code = "offset_out_of_range"

    def __init__(self, offset: int, offset_min: int, offset_max: int) -> None:
        super().__init__(offset, offset_min, offset_max)
        self.offset = offset
        self.offset_min = offset_min
        self.offset_max = offset_max

    def __str__(self) -> str:
        return (
            f"offset {self.offset} is outside this queue, which holds "
            f"{self.offset_min} to {self.offset_max} (the next one to be written)"
        )


class FenceLost(CoreError):
    """This token is not the role's. `held` tells whether somebody else's is; if
    not, the broker has been restarted, and the role may be acquired anew."""

    code = "fence_lost"

    def __init__(self, role: str, held: bool) -> None:
        super().__init__(role, held)
        self.role = role
        self.held = held

    def __str__(self) -> str:
        if self.held:
            return f"another instance has taken over as {self.role}"
        return f"the broker was restarted; acquire the role {self.role} anew"


class TooEarly(CoreError):
    """By the broker's clock the latest of these timers is due in `early_ms`."""

    code = "too_early"

    def __init__(self, early_ms: int) -> None:
        super().__init__(early_ms)
        self.early_ms = early_ms

    def __str__(self) -> str:
        return f"fired {self.early_ms} ms before its time by the broker's clock"


class IdempotencyConflict(CoreError):
    """This idempotency key was used for another request within its window."""

    code = "idempotency_key_reused"

    def __init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return (
            "this idempotency key belongs to an earlier request with another body; "
            "use a new key for a new request"
        )


class InvalidFilter(CoreError):
    """A filter expression means nothing. `position` counts its characters from 0."""

    code = "invalid_filter"
    field: ClassVar[str] = "filter"

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"the filter is wrong at character {self.position + 1}: {self.reason}"

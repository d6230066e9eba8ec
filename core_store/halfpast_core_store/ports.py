"""The doors through which the world comes in: clock, disk, index, chance.

The cores know only these. Real ones are in `real_disk.py`, `real_clock.py` and
`rocks_index.py`; the simulator brings its own, which lose, tear and crash.
"""

from collections.abc import Sequence
from typing import Protocol


class Clock(Protocol):
    """Wall time for due times and time stamps, monotonic time for waiting."""

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch. May jump, also backwards."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some start. Never goes back."""
        ...


class Alarm(Protocol):
    """Calls somebody at a wall-clock time, never before it."""

    def set(self, at_ms: int | None) -> None:
        """Ring at this time (epoch ms) and no other, or never."""
        ...

    def close(self) -> None: ...


class Rng(Protocol):
    """Chance: ids, tokens, jitter."""

    def bits(self, count: int) -> int:
        """A uniform number of `count` random bits."""
        ...


class File(Protocol):
    """One preallocated file: written and read by position."""

    @property
    def size(self) -> int: ...

    def write(self, offset: int, parts: Sequence[bytes]) -> None:
        """Write `parts` one behind the other, beginning at `offset`.

        Releases the GIL. Raises OSError; may then have written a part of it.
        """
        ...

    def sync(self) -> None:
        """Make everything written so far survive a power cut, or raise OSError."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """A copy of the bytes from `start` to `end`, always the latest ones."""
        ...

    def next_data(self, offset: int) -> int | None:
        """The first offset at or after `offset` that held anything but zeroes when
        the file was opened; None if there was none. May err on the safe side."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One folder of the store."""

    def names(self) -> list[str]:
        """Names of the files in the folder, sorted."""
        ...

    def create(self, name: str, size: int) -> File:
        """A new file of `size` zeroes, allocated and durable with its name.

        Raises OSError (ENOSPC) and leaves nothing behind if there is no room.
        """
        ...

    def open(self, name: str) -> File: ...

    def delete(self, name: str) -> None:
        """Remove a file, durably."""
        ...

    def free_bytes(self) -> int:
        """How much room the file system still has."""
        ...

    def total_bytes(self) -> int: ...


class IndexBatch(Protocol):
    """Changes to an index that happen together or not at all."""

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...


class Index(Protocol):
    """A sorted key-value store with no log of its own.

    What was written survives a crash only up to some batch: everything up to
    the last `flush`, and perhaps more, but always a prefix of the batches. The
    commit log is what the rest is rebuilt from. The first byte of a key names
    the family that it belongs to. Every call may raise IndexFailed; whoever holds
    the index then ends.
    """

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> Sequence[bytes | None]: ...

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """At most `limit` pairs with start <= key < end, in key order."""
        ...

    def scan_keys(self, start: bytes, end: bytes, limit: int) -> list[bytes]:
        """The keys that `scan` would give, without their values."""
        ...

    def scan_back(
        self, start: bytes, floor: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        """At most `limit` pairs with floor <= key <= start, last key first."""
        ...

    def batch(self) -> IndexBatch: ...

    def write(self, batch: IndexBatch) -> None:
        """Apply a batch, which must not be used again."""
        ...

    def flush(self) -> None:
        """Make all that was written durable. Releases the GIL; may take a while.

        Raises StoreFull, with nothing changed, where the disk may have no room for
        it: the log has it all, so flush again when there is.
        """
        ...

    def close(self) -> None: ...

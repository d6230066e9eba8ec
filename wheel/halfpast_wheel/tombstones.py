"""The timers that were cancelled and whose entries still lie in the wheel."""

from collections.abc import Iterable

from halfpast_wheel.config import HANDLE_BITS


class Tombstones:
    """Which entries are dead, by tick and handle.

    That tells them apart for good, because no slot ever holds the same handle twice:
    a timer that comes back to its own tombstone does not get a second entry, the old
    one is revived.
    """

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: set[int] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, tick: int, handle: int) -> None:
        """The entry of `handle` at `tick` is dead."""
        self._keys.add((tick << HANDLE_BITS) + handle)

    def revive(self, tick: int, handle: int) -> bool:
        """Make a dead entry live again; False if there is none."""
        key = (tick << HANDLE_BITS) + handle
        if key not in self._keys:
            return False
        self._keys.remove(key)
        return True

    def bury(self, entries: Iterable[int], start_tick: int) -> list[int]:
        """Return the entries that are alive, and forget the dead ones.

        `entries` come from a slot that starts at `start_tick`, and the caller removes
        from it those that are not returned.
        """
        base = start_tick << HANDLE_BITS
        keys = self._keys
        alive: list[int] = []
        for entry in entries:
            if base + entry in keys:
                keys.remove(base + entry)
            else:
                alive.append(entry)
        return alive

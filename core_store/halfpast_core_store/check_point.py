"""Messages of a consumer group that are in flight together."""

from collections.abc import Sequence

import msgspec


class CheckPoint(msgspec.Struct, array_like=True):
    """Messages of one queue that were popped together. `done` is a bit per offset.

    `hidden` means that nobody holds receipts: the messages wait for a retry. `lines`
    has a hash of the ordering key of each, if the group was ordered then.
    """

    pop_id: int
    queue: int
    attempt: int
    visible_ms: int
    offsets: list[int]
    done: bytes = b""
    hidden: bool = False
    lines: list[int] = msgspec.field(default_factory=list[int])

    def open_indexes(self) -> list[int]:
        """Which of the offsets are not done."""
        done = int.from_bytes(self.done, "little")
        return [i for i in range(len(self.offsets)) if not done >> i & 1]

    def is_open(self, i: int) -> bool:
        done = int.from_bytes(self.done, "little")
        return i < len(self.offsets) and not done >> i & 1

    def finish(self, indexes: Sequence[int]) -> int:
        """Mark these as done; tells how many were not done before."""
        done = before = int.from_bytes(self.done, "little")
        for i in indexes:
            done |= 1 << i
        self.done = done.to_bytes((len(self.offsets) + 7) // 8, "little")
        return (done ^ before).bit_count()

    @property
    def is_done(self) -> bool:
        return int.from_bytes(self.done, "little").bit_count() == len(self.offsets)

"""Whether a timer's record is wanted, told from its bytes without decoding it all."""

from dataclasses import dataclass

from halfpast_core_store.record import HEADER, HEADER_SIZE, RecordKind, tag_hash

from .operation import EVER_MS

SCHEDULE = int(RecordKind.SCHEDULE)


@dataclass(slots=True)
class RecordFilter:
    """None means any. `born_max_ms`: accepted by then."""

    key: bytes | None = None
    tag: bytes | None = None
    born_max_ms: int = EVER_MS
    _tag_hash: int = 0

    def __post_init__(self) -> None:
        self._tag_hash = tag_hash(self.tag) if self.tag else 0

    def wants(self, record: bytes) -> bool:
        """Whether this is a scheduled message as the filter describes it."""
        head = HEADER.unpack_from(record)
        if head[1] != SCHEDULE or head[7] > self.born_max_ms:
            return False
        tag_at = HEADER_SIZE + head[11]
        if self.key is not None and record[HEADER_SIZE:tag_at] != self.key:
            return False
        if self.tag is None:
            return True
        same_hash = head[9] == self._tag_hash
        return same_hash and record[tag_at : tag_at + head[12]] == self.tag

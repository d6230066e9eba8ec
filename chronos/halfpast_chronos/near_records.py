"""Records of timers that are due soon, as many as there is room for."""


class NearRecords:
    """By the key of their timer, within so many bytes."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._records: dict[bytes, bytes] = {}
        self.size = 0
        """How many bytes are kept."""

    def keep(self, key: bytes, record: bytes) -> None:
        """Keep it if there is room."""
        self.take(key)  # left there by one that fell due while it was claimed
        if self.size + len(record) <= self._size_max:
            self._records[key] = record
            self.size += len(record)

    def take(self, key: bytes) -> bytes | None:
        """The record if it was kept; it is not kept any longer."""
        record = self._records.pop(key, None)
        if record is not None:
            self.size -= len(record)
        return record

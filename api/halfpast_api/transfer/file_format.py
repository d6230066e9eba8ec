"""How events are written in a file."""

from enum import StrEnum
from pathlib import Path

STDIN = "-"
_PARQUET_SUFFIXES = {".parquet", ".parq", ".pq"}


class FileFormat(StrEnum):
    """NDJSON: one JSON object a line."""

    NDJSON = "ndjson"
    PARQUET = "parquet"

    @classmethod
    def of(cls, name: str, given: "FileFormat | None") -> "FileFormat":
        """As it was given, or else what the name ends in."""
        if given is not None:
            return given
        is_parquet = Path(name).suffix.lower() in _PARQUET_SUFFIXES
        return cls.PARQUET if is_parquet else cls.NDJSON

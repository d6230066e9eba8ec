"""The file that is imported, read as what it is."""

import os
import sys
from typing import Any, BinaryIO, cast

from halfpast_api.transfer.errors import WrongFormat
from halfpast_api.transfer.file_format import STDIN, FileFormat
from halfpast_api.transfer.line import LineSource
from halfpast_api.transfer.ndjson_lines import NdjsonLines
from halfpast_api.transfer.parquet_rows import ParquetRows


def open_source(name: str, file: BinaryIO, file_format: FileFormat) -> LineSource:
    """Raises a TransferError."""
    if file_format is FileFormat.NDJSON:
        size = None
        if name != STDIN:
            size = os.fstat(file.fileno()).st_size
        return NdjsonLines(file, size, name=name)
    if name == STDIN:
        hint = "write it to a file first, and import that"
        raise WrongFormat("standard input", "cannot be read as Parquet", hint)
    return ParquetRows(file, name=name)


def standard_input() -> BinaryIO:
    """Without a buffer of its own, which would hide from `poll` what has come."""
    buffered: Any = sys.stdin.buffer
    return cast(BinaryIO, getattr(buffered, "raw", buffered))

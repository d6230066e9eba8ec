"""The library for Parquet, which is an extra: `pip install 'halfpast[parquet]'`."""

import importlib
from typing import Any

from halfpast_api.transfer.errors import ParquetMissing


def load_arrow() -> Any:
    """`pyarrow`, with its module `parquet`. Raises ParquetMissing."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ParquetMissing from error

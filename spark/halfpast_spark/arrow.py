"""PyArrow, which has no types of its own, and is an extra together with NumPy."""

import importlib
from typing import Any

from .errors import ArrowMissing

try:
    importlib.import_module("numpy")
    pa: Any = importlib.import_module("pyarrow")
    pc: Any = importlib.import_module("pyarrow.compute")
    parquet: Any = importlib.import_module("pyarrow.parquet")
except ImportError as error:
    raise ArrowMissing(str(error)) from error

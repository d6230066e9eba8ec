"""Rows with equal keys, side by side, and what they amount to."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .frame_records import Mask, Numbers


class Grouped:
    """Groups of rows, in the order of their keys; within one, rows stay in order."""

    def __init__(self, *keys: NDArray[Any]) -> None:
        if len(keys) == 1:
            self.order: Numbers = np.argsort(keys[0], kind="stable")
        else:
            self.order = np.lexsort(keys[::-1])
        is_first: Mask = np.zeros(len(self.order), np.bool_)
        is_first[:1] = True
        for key in keys:
            sorted_key = key[self.order]
            is_first[1:] |= sorted_key[1:] != sorted_key[:-1]
        self._starts = np.flatnonzero(is_first)

    def __len__(self) -> int:
        return len(self._starts)

    def keys(self, key: NDArray[Any]) -> NDArray[Any]:
        """One of each group."""
        return key[self.order[self._starts]]

    def sums(self, values: NDArray[Any]) -> Numbers:
        return self._reduced(np.add, values.astype(np.int64))

    def least(self, values: Numbers) -> Numbers:
        return self._reduced(np.minimum, values)

    def most(self, values: NDArray[Any]) -> Numbers:
        return self._reduced(np.maximum, values)

    def either(self, values: Mask) -> Mask:
        """Whether it is true of one of the group."""
        found: Mask = self._reduced(np.logical_or, values).astype(np.bool_)
        return found

    def _reduced(self, function: Any, values: NDArray[Any]) -> NDArray[Any]:
        if not len(self._starts):
            return values[:0]
        found: NDArray[Any] = function.reduceat(values[self.order], self._starts)
        return found

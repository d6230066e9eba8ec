"""Finding, for a row, the record of the same frame that it belongs with."""

import numpy as np
from numpy.typing import NDArray

from .frame_records import Bytes, Mask, Numbers, Records

KEY_SIZE = 24


def frame_keys(frames: Numbers, ids: Bytes) -> NDArray[np.bytes_]:
    """Frame and id as one value that can be sorted. It ends in a 1, since trailing
    zeroes do not count in such values."""
    keys = np.ones((len(frames), KEY_SIZE), np.uint8)
    keys[:, :4] = frames.astype(">u4").view(np.uint8).reshape(-1, 4)
    keys[:, 4:20] = ids
    return keys.reshape(-1).view(f"S{KEY_SIZE}")


class FrameJoin:
    """Some records of a chunk, to be found by frame and id."""

    def __init__(self, records: Records, wanted: Mask) -> None:
        rows = np.flatnonzero(wanted)
        keys = frame_keys(records.frame[rows], records.heads["id"][rows])
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._rows = rows[order]

    def find(self, frames: Numbers, ids: Bytes) -> Numbers:
        """The record for each of these, the first one of several; -1 for none."""
        if not len(self._keys) or not len(frames):
            return np.full(len(frames), -1, np.int64)
        keys = frame_keys(frames, ids)
        at = np.searchsorted(self._keys, keys)
        at = np.minimum(at, len(self._keys) - 1)
        found: Numbers = np.where(self._keys[at] == keys, self._rows[at], -1)
        return found


def transaction_ids(ids: Bytes) -> Bytes:
    """The ids of the transactions that these messages would be of."""
    found = ids.copy()
    found[:, 14:] = 0
    return found

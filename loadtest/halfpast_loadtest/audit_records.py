"""Many records of one form at once: a template, copied and patched with NumPy."""

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from halfpast_core_store.broker import Run
from halfpast_spark.frame_records import HEAD, Bytes, Numbers

ID_SIZE = 16


def stamped(
    template: bytes, ids: Bytes, born_ms: int, **fields: Numbers | int
) -> Bytes:
    """Copies of a record, one a row, with these ids and other fields of the header."""
    rows = np.tile(np.frombuffer(template, np.uint8), (len(ids), 1))
    heads = rows[:, : HEAD.itemsize].copy().view(HEAD).reshape(-1)
    heads["id"] = ids
    heads["born_ms"] = born_ms
    for name, values in fields.items():
        heads[name] = values
    rows[:, : HEAD.itemsize] = heads.view(np.uint8).reshape(len(ids), -1)
    return rows


def heads_of(rows: Bytes) -> NDArray[np.void]:
    """The headers of records of the same length."""
    return rows[:, : HEAD.itemsize].copy().view(HEAD).reshape(-1)


def with_kind(rows: Bytes, kind: int) -> Bytes:
    """The same records, saying something else."""
    changed = rows.copy()
    changed[:, 4] = kind
    return changed


def cut(rows: Bytes) -> list[bytes]:
    """Each row as bytes."""
    data = rows.tobytes()
    size = rows.shape[1]
    return [data[at : at + size] for at in range(0, len(data), size)]


def groups(rows: Bytes, keys: Numbers) -> Iterator[tuple[int, Bytes]]:
    """The rows of each key, in their order."""
    order = np.argsort(keys, kind="stable")
    known, starts = np.unique(keys[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for key, start, end in zip(known.tolist(), starts.tolist(), ends, strict=False):
        yield key, rows[order[start:end]]


def runs_by_queue(rows: Bytes) -> Iterator[Run]:
    """Messages, each for the topic and queue that its header names."""
    heads = heads_of(rows)
    places = heads["topic"].astype(np.int64) << 16 | heads["queue"]
    for place, some in groups(rows, places):
        yield Run(place >> 16, place & 0xFFFF, cut(some))


def transaction_ids(count: int, now_ms: int) -> Bytes:
    """New ids (UUIDv7) that end in two zero bytes, as those of transactions do."""
    ids = np.frombuffer(os.urandom(count * ID_SIZE), np.uint8).reshape(count, -1).copy()
    ids[:, :6] = np.frombuffer(now_ms.to_bytes(6, "big"), np.uint8)
    ids[:, 6] = ids[:, 6] & 0x0F | 0x70
    ids[:, 8] = ids[:, 8] & 0x3F | 0x80
    ids[:, 14:] = 0
    return ids


def block_ids(count: int, now_ms: int) -> Bytes:
    """New ids of one block, as those of one request are: they differ in their ends."""
    ids = np.repeat(transaction_ids(1, now_ms), count, axis=0)
    numbers = np.arange(1, count + 1, dtype=">u2")
    ids[:, 14:] = numbers.view(np.uint8).reshape(count, 2)
    return ids

"""All records of some frames as columns, read where they stand.

Nothing is decoded one by one: only the lengths are walked, the headers of all records
are then gathered at once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfpast_core_store.frame import HEADER_SIZE as FRAME_HEADER_SIZE
from halfpast_core_store.frame import LENGTH, RUN, RUN_SIZE
from halfpast_core_store.record import HEADER_SIZE

from .log_file import Chunk, Frame

Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

HEAD = np.dtype(
    [
        ("length", "<u4"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("attempt", "<u2"),
        ("topic", "<u4"),
        ("group", "<u4"),
        ("id", "u1", (16,)),
        ("born_ms", "<i8"),
        ("due_ms", "<i8"),
        ("tag_hash", "<u4"),
        ("version", "<u4"),
        ("key_size", "<u2"),
        ("tag_size", "<u2"),
        ("properties_size", "<u2"),
        ("queue", "<u2"),
    ]
)
"""The header of a record, as `halfpast_core_store.record` packs it."""
assert HEAD.itemsize == HEADER_SIZE

UNIFORM_COUNT_MIN = 8


@dataclass(slots=True)
class Records:
    """The records of some frames, in their order.

    `frame` and `run` number the frame and the run that a record stands in; `run_topic`
    and `run_queue` are where that is, `offset` its place in that queue. In `data` it
    stands from `starts` to `ends`, its body from `bodies` on.
    """

    data: bytes
    octets: Bytes
    frames: list[Frame]
    starts: Numbers
    heads: NDArray[Any]
    frame: Numbers
    run: Numbers
    run_topic: Numbers
    run_queue: Numbers
    offset: Numbers
    bodies: Numbers
    ends: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    def body(self, record: int) -> bytes:
        return self.data[self.bodies[record] : self.ends[record]]


def read_records(chunk: Chunk) -> Records:
    """The records of a chunk of verified frames."""
    starts: list[int] = []
    runs: list[tuple[int, int, int, int, int]] = []
    data = chunk.data
    for number, frame in enumerate(chunk.frames):
        directory_at = frame.at + FRAME_HEADER_SIZE
        at = directory_at + RUN_SIZE * frame.run_count
        for i in range(frame.run_count):
            topic, queue, _, count, size, offset = RUN.unpack_from(
                data, directory_at + RUN_SIZE * i
            )
            runs.append((number, topic, queue, offset, count))
            add_starts(starts, data, at, size, count)
            at += size
    octets = np.frombuffer(data, np.uint8)
    places = np.array(starts, np.int64)
    table = np.array(runs, np.int64).reshape(-1, 5)
    counts = table[:, 4]
    heads = gather_heads(octets, places)
    bodies = places + HEADER_SIZE
    for part in ("key_size", "tag_size", "properties_size"):
        bodies += heads[part]
    run = np.repeat(np.arange(len(table)), counts)
    within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Records(
        data=data,
        octets=octets,
        frames=chunk.frames,
        starts=places,
        heads=heads,
        frame=table[run, 0],
        run=run,
        run_topic=table[run, 1],
        run_queue=table[run, 2],
        offset=table[run, 3] + within,
        bodies=bodies,
        ends=places + heads["length"],
    )


def gather_heads(octets: Bytes, starts: Numbers) -> NDArray[Any]:
    if not len(starts):
        return np.empty(0, HEAD)
    windows = np.lib.stride_tricks.sliding_window_view(octets, HEADER_SIZE)
    return np.ascontiguousarray(windows[starts]).view(HEAD).reshape(-1)


def add_starts(starts: list[int], data: bytes, at: int, size: int, count: int) -> None:
    """Add where each of the `count` records of a run begins."""
    if count >= UNIFORM_COUNT_MIN:
        (first,) = LENGTH.unpack_from(data, at)
        if first * count == size:
            lengths = np.ndarray((count,), "<u4", data, at, (first,))
            if (lengths == first).all():
                starts.extend(range(at, at + size, first))
                return
    unpack = LENGTH.unpack_from
    end = at + size
    for _ in range(count):
        starts.append(at)
        at += unpack(data, at)[0]
    assert at == end, "run directory and records disagree"

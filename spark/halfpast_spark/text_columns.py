"""Arrow columns of text, made of bytes where they lie."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrow import pa
from .frame_records import Bytes, Mask, Numbers

_HEX = np.frombuffer(bytes(range(256)).hex().encode(), "<u2")
_PARTS = ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24))
_HYPHENS = [8, 13, 18, 23]
_UUID_SIZE = 36


def uuid_texts(ids: Bytes, is_there: Mask | None = None) -> Any:
    """A column of ids (one row of 16 bytes each) as UUID text; null where there is
    none."""
    count = len(ids)
    digits = _HEX[ids].view(np.uint8).reshape(count, 32)
    text = np.full((count, _UUID_SIZE), ord("-"), np.uint8)
    for start, end, at in _PARTS:
        text[:, at : at + end - start] = digits[:, start:end]
    if is_there is None or is_there.all():
        offsets = np.arange(0, (count + 1) * _UUID_SIZE, _UUID_SIZE, dtype=np.int32)
        return _strings(count, None, offsets, text)
    sizes = np.where(is_there, _UUID_SIZE, 0)
    return _strings(count, is_there, _offsets(sizes), text[is_there])


def texts(octets: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    """A column of pieces of `octets`; null where the size is 0. What is not UTF-8 is
    shown with replacement characters."""
    count = len(starts)
    is_there = sizes > 0
    if not is_there.any():
        return pa.nulls(count, pa.string())
    offsets = _offsets(sizes)
    firsts: Numbers = np.repeat(starts - offsets[:-1], sizes)
    data: Bytes = octets[firsts + np.arange(offsets[-1])]
    column = _strings(count, is_there, offsets, data)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(
            [
                data[start:end].tobytes().decode(errors="replace") if there else None
                for start, end, there in zip(
                    offsets[:-1], offsets[1:], is_there, strict=True
                )
            ],
            pa.string(),
        )
    return column


def named(numbers: Numbers, name: Any, is_there: Mask | None = None) -> Any:
    """A column of names: `name(number)` for each, asked once for each number."""
    unique, places = np.unique(numbers, return_inverse=True)
    names = pa.array([name(int(number)) for number in unique], pa.string())
    places = places.reshape(-1)
    if is_there is None:
        return names.take(pa.array(places))
    return names.take(pa.array(places, mask=~is_there))


def _offsets(sizes: Numbers) -> NDArray[np.int32]:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _strings(
    count: int, is_there: Mask | None, offsets: NDArray[np.int32], data: Bytes
) -> Any:
    validity = None
    if is_there is not None:
        validity = pa.py_buffer(np.packbits(is_there, bitorder="little").tobytes())
    buffers = [
        validity,
        pa.py_buffer(offsets),
        pa.py_buffer(np.ascontiguousarray(data)),
    ]
    return pa.Array.from_buffers(pa.string(), count, buffers)

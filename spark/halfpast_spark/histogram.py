"""Buckets of milliseconds: exact up to 7 ms, then eight to each doubling.

    bucket   0     1  2  3 ... 8   9  10 ... 16  17     18     19     20 ...
    holds    < 0   0  1  2 ... 7   8   9 ... 15  16-17  18-19  20-21  22-23 ...

So a value is known to an eighth of itself, from a millisecond to centuries, and counts
of buckets add up over windows, topics and runs. Bucket 0 is what came too early.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

EARLY = 0
LOWER_MIN = -(1 << 53)  # "any time before"
SUB_COUNT = 8
SUB_BITS = 3


def bucket_of(value: int) -> int:
    """The bucket that holds this value."""
    if value < 0:
        return EARLY
    if value < SUB_COUNT:
        return 1 + value
    shift = value.bit_length() - 1 - SUB_BITS
    return 1 + shift * SUB_COUNT + (value >> shift)


def bounds_of(bucket: int) -> tuple[int, int]:
    """The lowest and the highest value of a bucket."""
    if bucket == EARLY:
        return LOWER_MIN, -1
    place = bucket - 1
    if place < SUB_COUNT:
        return place, place
    shift = place // SUB_COUNT - 1
    lower = (place - shift * SUB_COUNT) << shift
    return lower, lower + (1 << shift) - 1


def bucket_column(value: "Column") -> "Column":
    """`bucket_of` a column of whole numbers."""
    from pyspark.sql import functions as F

    # The number of binary digits is exact, which a logarithm is not.
    shift = F.length(F.bin(value)) - 1 - SUB_BITS
    sub = F.call_function("shiftright", value, shift).cast("int")
    return (
        F.when(value < 0, F.lit(EARLY))
        .when(value < SUB_COUNT, (value + 1).cast("int"))
        .otherwise(1 + shift * SUB_COUNT + sub)
    )


def quantile(counts: Iterable[tuple[int, int]], share: float) -> int | None:
    """The highest value that the quantile can have, from (bucket, count) pairs.

    None if there are no counts. At most an eighth too high, and never too low.
    """
    known = sorted(counts)
    total = sum(count for _, count in known)
    wanted = share * total
    seen = 0
    for bucket, count in known:
        seen += count
        if count and seen >= wanted:
            return bounds_of(bucket)[1]
    return None


def merged(
    some: Iterable[tuple[int, int]], others: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Two histograms as one."""
    counts: dict[int, int] = {}
    for bucket, count in [*some, *others]:
        counts[bucket] = counts.get(bucket, 0) + count
    return sorted(counts.items())

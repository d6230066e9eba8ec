"""The figures of the audits, summed over whatever is asked for.

The fields are named as the columns of the window tables that they are sums of.
"""

from typing import TypeVar

import msgspec

ALL = "*"  # the topic that stands for all of them, the group for a topic without any


class TransactionCounts(msgspec.Struct, kw_only=True):
    """Transactions; half = committed + rolled_back + open + parked + difference."""

    half: int = 0
    committed: int = 0
    rolled_back: int = 0
    open: int = 0
    parked: int = 0
    difference: int = 0
    unbalanced: int = 0
    messages: int = 0
    missing: int = 0
    leaked: int = 0
    duplicated: int = 0
    checked_back: int = 0
    check_backs: int = 0
    second_phase_lost: int = 0
    slow_local: int = 0
    forced: int = 0

    @property
    def rate(self) -> float | None:
        """Which share was checked back."""
        return share(self.checked_back, self.half)

    @property
    def broken(self) -> int:
        """What may never be: the books, or the promise of all or nothing."""
        books = max(abs(self.difference), self.unbalanced)
        return books + self.missing + self.leaked + self.duplicated


class OnTimeCounts(msgspec.Struct, kw_only=True):
    """Timers; scheduled = fired + cancelled + dead + pending + lost."""

    scheduled: int = 0
    fired: int = 0
    cancelled: int = 0
    dead: int = 0
    pending: int = 0
    lost: int = 0
    rescheduled: int = 0
    early: int = 0
    duplicated: int = 0
    fired_anyway: int = 0
    unseen: int = 0
    judged: int = 0
    in_sla: int = 0

    @property
    def attainment(self) -> float | None:
        """Which share fired within the SLA."""
        return share(self.in_sla, self.judged)

    @property
    def broken(self) -> int:
        """What may never be."""
        return self.lost + self.early + self.duplicated + self.fired_anyway


class EndToEndCounts(msgspec.Struct, kw_only=True):
    """Messages; published = stored + cancelled + pending + dead + lost."""

    published: int = 0
    stored: int = 0
    cancelled: int = 0
    pending: int = 0
    dead: int = 0
    lost: int = 0
    duplicated: int = 0
    unpublished: int = 0
    consumed: int = 0
    waiting: int = 0
    dead_lettered: int = 0

    @property
    def broken(self) -> int:
        """What may never be."""
        return self.lost + self.duplicated + self.unpublished


Counts = TransactionCounts | OnTimeCounts | EndToEndCounts
C = TypeVar("C", TransactionCounts, OnTimeCounts, EndToEndCounts)


def share(part: int, whole: int) -> float | None:
    """None where there is nothing to take a share of."""
    return part / whole if whole else None

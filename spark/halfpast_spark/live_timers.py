"""What a stream remembers of a delayed message, and how that is counted.

    events ──> summed      one row an id: what these events tell of it
    row, row ──> joined    what was known of it, and what came later, as one row
    rows ──> counted       the same classes as in `on_time_audit.py`

A row holds what the classes need and no more: some forty bytes, however often a
message is moved or refused. Tests hold both against each other.
"""

import numpy as np

from .audited_kinds import SETS_DUE, TIMER_KINDS
from .count_columns import ON_TIME_COUNTS
from .frame_records import Mask, Numbers
from .live_entries import NO_VALUE, Entries, twice
from .live_events import FAR, NONE, Table, made_ms
from .live_grouping import Grouped
from .live_names import LiveNames
from .row_kinds import CODES, table_of
from .sla import SlaRules

ON_TIME = "on_time"
TIMER = np.dtype(
    [
        ("id", "S16"),
        ("due_ms", "<i8"),  # the last that was told, else the message's; or FAR
        ("stored_ms", "<i8"),  # when its message was, or FAR
        ("topic", "<i4"),
        ("flags", "<u2"),
        ("deliveries", "u1"),  # 2: more than one
    ]
)
TOLD, GIVEN, CHANGED, NAMED, CANCELLED, ENDS, IS_DEAD, ANYWAY = (
    1 << bit for bit in range(8)
)
"""A due time was told; it was scheduled; moved; anything but delivered; …; died or was
redriven; the last of these was that it died; delivered although it was cancelled."""

OF_TIMERS = table_of(*TIMER_KINDS)
_SETS_DUE = table_of(*SETS_DUE)
_GIVES = table_of("schedule", "replace")
_CHANGES = table_of("reschedule", "replace")
_ENDS = table_of("dead", "redriven")


def summed(events: Table) -> Table:
    """One row for each id, in the order of ids, of events in the order of the log."""
    by_id = Grouped(events["id"])
    kinds, due_ms = events["kind"], events["due_ms"]
    places = np.arange(len(events))
    is_delivered = kinds == CODES["delivered"]
    is_cancel = kinds == CODES["cancel"]
    rows = np.zeros(len(by_id), TIMER)
    rows["id"] = by_id.keys(events["id"])
    told = by_id.most(np.where(_SETS_DUE[kinds] & (due_ms != NONE), places, NONE))
    of_message = by_id.least(np.where(is_delivered & (due_ms != NONE), due_ms, FAR))
    rows["due_ms"] = np.where(told >= 0, due_ms[told], of_message)
    rows["stored_ms"] = by_id.least(np.where(is_delivered, events["stored_ms"], FAR))
    rows["topic"] = by_id.most(events["topic"])
    rows["deliveries"] = np.minimum(by_id.sums(is_delivered), 2)
    ended = by_id.most(np.where(_ENDS[kinds], places, NONE))
    cancelled_at = by_id.least(np.where(is_cancel, events["position"], FAR))
    delivered_at = by_id.least(np.where(is_delivered, events["position"], FAR))
    rows["flags"] = flags_of(
        (TOLD, told >= 0),
        (GIVEN, by_id.either(_GIVES[kinds])),
        (CHANGED, by_id.either(_CHANGES[kinds])),
        (NAMED, by_id.either(~is_delivered)),
        (CANCELLED, by_id.either(is_cancel)),
        (ENDS, ended >= 0),
        (IS_DEAD, (ended >= 0) & (kinds[ended] == CODES["dead"])),
        (ANYWAY, (cancelled_at < delivered_at) & (delivered_at < FAR)),
    )
    return rows


def joined(old: Table, new: Table) -> Table:
    """Row by row: what was known, and what has come since."""
    rows = new.copy()
    was, now = old["flags"].astype(np.int64), new["flags"].astype(np.int64)
    either = np.minimum(old["due_ms"], new["due_ms"])
    earlier = np.where(was & TOLD, old["due_ms"], either)
    rows["due_ms"] = np.where(now & TOLD, new["due_ms"], earlier)
    rows["stored_ms"] = np.minimum(old["stored_ms"], new["stored_ms"])
    rows["topic"] = np.maximum(old["topic"], new["topic"])
    rows["deliveries"] = np.minimum(old["deliveries"] + new["deliveries"], 2)
    dead = np.where(now & ENDS, now, was) & IS_DEAD
    late = np.where((was & CANCELLED) != 0, ANYWAY, now & ANYWAY)
    late = np.where(new["deliveries"] > 0, late, 0)
    anyway = np.where(old["deliveries"] > 0, was & ANYWAY, late)
    rows["flags"] = ((was | now) & ~(IS_DEAD | ANYWAY)) | dead | anyway
    return rows


def counted(rows: Table, names: LiveNames, rules: SlaRules, memory_ms: int) -> Entries:
    """What each adds, to its topic and to all of them. Nothing for one of which only a
    part is known, and for one that is due when it will have been forgotten."""
    flags = rows["flags"]
    is_whole = ((flags & GIVEN) != 0) | ((flags & NAMED) == 0)
    due_ms = rows["due_ms"]
    is_near = due_ms < made_ms(rows["id"]) + memory_ms
    rows = rows[is_whole & (due_ms != FAR) & is_near]
    flags, due_ms = rows["flags"], rows["due_ms"]
    is_fired = rows["deliveries"] > 0
    late_ms = np.where(is_fired, rows["stored_ms"] - due_ms, NO_VALUE)
    is_cancelled = ~is_fired & ((flags & CANCELLED) != 0)
    is_dead = ~is_fired & ~is_cancelled & ((flags & IS_DEAD) != 0)
    in_sla = is_fired & (late_ms >= 0) & (late_ms <= _within(rows, names, rules))
    told: dict[str, Mask] = {
        "scheduled": np.ones(len(rows), np.bool_),
        "fired": is_fired,
        "cancelled": is_cancelled,
        "dead": is_dead,
        "pending": ~(is_fired | is_cancelled | is_dead),
        "rescheduled": (flags & CHANGED) != 0,
        "early": is_fired & (late_ms < 0),
        "duplicated": rows["deliveries"] > 1,
        "fired_anyway": (flags & ANYWAY) != 0,
        "judged": is_fired,
        "in_sla": in_sla,
    }
    counts: Numbers = np.zeros((len(rows), len(ON_TIME_COUNTS)), np.int64)
    for name, mask in told.items():
        counts[:, ON_TIME_COUNTS.index(name)] = mask
    entries = Entries(
        audit=ON_TIME,
        at_ms=due_ms.astype(np.int64),
        group=np.full(len(rows), NONE, np.int64),
        topic=rows["topic"].astype(np.int64),
        values=late_ms,
        checks=None,
        counts=counts,
    )
    return twice(entries)


def _within(rows: Table, names: LiveNames, rules: SlaRules) -> Numbers:
    """How late each may be."""
    topics, places = np.unique(rows["topic"], return_inverse=True)
    within = [rules.of(names.topic(int(it))).within_ms for it in topics]
    found: Numbers = np.array(within, np.int64)[places.reshape(-1)]
    return found


def flags_of(*bits: tuple[int, Mask]) -> Numbers:
    """Bits, each set where its mask is true."""
    (bit, mask), *others = bits
    found: Numbers = np.where(mask, bit, 0)
    for bit, mask in others:
        found |= np.where(mask, bit, 0)
    return found

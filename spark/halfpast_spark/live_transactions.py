"""What a stream remembers of a transaction and its messages, and how that is counted.

    events ──> heads_summed, messages_summed    one row an id, or an id and topic
    row, row ──> heads_joined, messages_joined
    rows of both ──> counted                    as in `transaction_audit.py`

Tests hold this against that.
"""

import numpy as np

from .audited_kinds import HEAD_KINDS
from .count_columns import TRANSACTION_COUNTS
from .event_schema import KINDS
from .frame_join import transaction_ids
from .frame_records import Mask, Numbers
from .live_entries import NO_VALUE, Entries
from .live_events import (
    FAR,
    FORCED,
    FROM_CHECK,
    NONE,
    OF_TRANSACTION,
    WAS_COMMITTED,
    WAS_ROLLED_BACK,
    Table,
    id_bytes,
    id_values,
)
from .live_grouping import Grouped
from .live_timers import flags_of
from .row_kinds import CODES, table_of

TRANSACTIONS = "transactions"
HEAD = np.dtype(
    [
        ("id", "S16"),
        ("begun_ms", "<i8"),  # or FAR
        ("ended_ms", "<i8"),  # or FAR
        ("group", "<i4"),
        ("check_rows", "<u2"),
        ("check_told", "<u2"),
        ("flags", "u1"),
    ]
)
ENDS, IS_PARKED, FROM_A_CHECK, BY_FORCE, COMMITS, ROLLS_BACK = (
    1 << bit for bit in range(6)
)
"""It was parked or resumed; the last of these was that it was parked; …"""

MESSAGE = np.dtype([("id", "S20"), ("halves", "u1"), ("releases", "u1")])
"""The id with the topic behind it, so that all of a transaction stand together. 2 and
more count as 2."""

OF_HEADS = table_of(*HEAD_KINDS)
_CHECKS_MAX = (1 << 16) - 1
_ENDS = table_of("parked", "resumed")
_MAY_RELEASE = table_of("message", "schedule")
assert len(KINDS) < 1 << 8


def message_mask(events: Table) -> Mask:
    """Which events are about a message of a transaction."""
    kinds = events["kind"]
    is_release = _MAY_RELEASE[kinds] & ((events["flags"] & OF_TRANSACTION) != 0)
    found: Mask = is_release | (kinds == CODES["half"])
    return found


def heads_summed(events: Table) -> Table:
    """One row for each id, in their order, of events in the order of the log."""
    by_id = Grouped(events["id"])
    kinds, flags = events["kind"], events["flags"]
    stored_ms = events["stored_ms"]
    places = np.arange(len(events))
    is_op = kinds == CODES["op"]
    rows = np.zeros(len(by_id), HEAD)
    rows["id"] = by_id.keys(events["id"])
    begins = kinds == CODES["transaction"]
    rows["begun_ms"] = by_id.least(np.where(begins, stored_ms, FAR))
    rows["ended_ms"] = by_id.least(np.where(is_op, stored_ms, FAR))
    named = by_id.least(np.where(events["group"] != NONE, places, len(events)))
    rows["group"] = np.append(events["group"], NONE)[named]
    is_check = kinds == CODES["check"]
    rows["check_rows"] = np.minimum(by_id.sums(is_check), _CHECKS_MAX)
    rows["check_told"] = np.clip(by_id.most(events["check"]), 0, _CHECKS_MAX)
    ended = by_id.most(np.where(_ENDS[kinds], places, NONE))
    rows["flags"] = flags_of(
        (ENDS, ended >= 0),
        (IS_PARKED, (ended >= 0) & (kinds[ended] == CODES["parked"])),
        (FROM_A_CHECK, by_id.either(is_op & ((flags & FROM_CHECK) != 0))),
        (BY_FORCE, by_id.either(is_op & ((flags & FORCED) != 0))),
        (COMMITS, by_id.either(is_op & ((flags & WAS_COMMITTED) != 0))),
        (ROLLS_BACK, by_id.either(is_op & ((flags & WAS_ROLLED_BACK) != 0))),
    )
    return rows


def heads_joined(old: Table, new: Table) -> Table:
    """Row by row: what was known, and what has come since."""
    rows = new.copy()
    for name in ("begun_ms", "ended_ms"):
        rows[name] = np.minimum(old[name], new[name])
    rows["group"] = np.where(old["group"] != NONE, old["group"], new["group"])
    checks = old["check_rows"].astype(np.int64) + new["check_rows"]
    rows["check_rows"] = np.minimum(checks, _CHECKS_MAX)
    rows["check_told"] = np.maximum(old["check_told"], new["check_told"])
    was, now = old["flags"].astype(np.int64), new["flags"].astype(np.int64)
    parked = np.where(now & ENDS, now, was) & IS_PARKED
    rows["flags"] = ((was | now) & ~IS_PARKED) | parked
    return rows


def messages_summed(events: Table) -> Table:
    """One row for each message and topic, in the order of ids."""
    topics = np.ascontiguousarray(events["topic"].astype(">u4")).view(np.uint8)
    keys = np.hstack([id_bytes(events["id"]), topics.reshape(-1, 4)])
    ids = id_values(keys)
    by_id = Grouped(ids)
    is_half = events["kind"] == CODES["half"]
    rows = np.zeros(len(by_id), MESSAGE)
    rows["id"] = by_id.keys(ids)
    rows["halves"] = np.minimum(by_id.sums(is_half), 2)
    rows["releases"] = np.minimum(by_id.sums(~is_half), 2)
    return rows


def messages_joined(old: Table, new: Table) -> Table:
    """Row by row: what was known, and what has come since."""
    rows = new.copy()
    for name in ("halves", "releases"):
        rows[name] = np.minimum(old[name] + new[name], 2)
    return rows


def ids_of(heads: Table, messages: Table) -> Table:
    """The transactions that these rows are about, each once and in order."""
    of_messages = id_values(transaction_ids(id_bytes(messages["id"])[:, :16]))
    return np.unique(np.concatenate([heads["id"], of_messages]))


def counted(heads: Table, messages: Table, owners: Numbers) -> Entries:
    """What each transaction adds to each of its topics, and once to all of them;
    nothing without a beginning. `owners`: the place in `heads` that a message has."""
    is_begun = heads["begun_ms"] != FAR
    is_message = is_begun[owners] & (messages["halves"] > 0)
    messages, owners = messages[is_message], owners[is_message]
    topics = np.ascontiguousarray(id_bytes(messages["id"])[:, 16:]).view(">u4")
    topics = topics.reshape(-1).astype(np.int64)
    begun = np.flatnonzero(is_begun)
    # All topics together is one more topic, which also those without messages have.
    by_topic = Grouped(
        np.concatenate([owners, owners, begun]),
        np.concatenate([topics, np.full(len(owners) + len(begun), NONE)]),
    )
    nothing = np.zeros(len(begun), np.int64)
    releases = messages["releases"].astype(np.int64)
    told = np.concatenate([releases, releases, nothing])
    one = np.concatenate([np.ones(2 * len(owners), np.int64), nothing])
    owner = by_topic.keys(np.concatenate([owners, owners, begun]))
    known = heads[owner]
    count, released = by_topic.sums(one), by_topic.sums(told > 0)
    is_committed = (known["flags"] & COMMITS) != 0
    counts = _counts(known)
    for name, values in (
        ("messages", count),
        ("missing", np.where(is_committed, count - released, 0)),
        ("leaked", np.where(is_committed, 0, released)),
        ("duplicated", by_topic.sums(told > 1)),
    ):
        counts[:, TRANSACTION_COUNTS.index(name)] = values
    has_ended = known["ended_ms"] != FAR
    took_ms = np.where(has_ended, known["ended_ms"] - known["begun_ms"], NO_VALUE)
    all_topics = np.concatenate([topics, np.full(len(owners) + len(begun), NONE)])
    return Entries(
        audit=TRANSACTIONS,
        at_ms=known["begun_ms"].astype(np.int64),
        group=known["group"].astype(np.int64),
        topic=by_topic.keys(all_topics),
        values=took_ms,
        checks=_checks(known),
        counts=counts,
    )


def _checks(heads: Table) -> Numbers:
    """Some may lie in a segment that is gone; what follows tells their number."""
    found: Numbers = np.maximum(heads["check_rows"], heads["check_told"])
    return found.astype(np.int64)


def _counts(heads: Table) -> Numbers:
    """What is true of a transaction, whatever its messages."""
    flags, checks = heads["flags"], _checks(heads)
    is_committed = (flags & COMMITS) != 0
    is_rolled_back = (flags & ROLLS_BACK) != 0
    is_open = ~(is_committed | is_rolled_back)
    is_parked = is_open & ((flags & IS_PARKED) != 0)
    from_check, forced = (flags & FROM_A_CHECK) != 0, (flags & BY_FORCE) != 0
    has_op = heads["ended_ms"] != FAR
    is_both = is_committed & is_rolled_back
    told: dict[str, Mask | Numbers] = {
        "half": np.ones(len(heads), np.bool_),
        "committed": is_committed,
        "rolled_back": is_rolled_back,
        "open": is_open & ~is_parked,
        "parked": is_parked,
        "difference": -is_both.astype(np.int64),
        "unbalanced": is_both,
        "checked_back": checks > 0,
        "check_backs": checks,
        "second_phase_lost": from_check,
        "slow_local": has_op & (checks > 0) & ~from_check & ~forced,
        "forced": forced,
    }
    counts: Numbers = np.zeros((len(heads), len(TRANSACTION_COUNTS)), np.int64)
    for name, values in told.items():
        counts[:, TRANSACTION_COUNTS.index(name)] = values
    return counts

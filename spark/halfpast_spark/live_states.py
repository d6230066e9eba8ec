"""What became of one transaction, or of one timer, from all that is known of it.

The same classes as in `transaction_audit.py` and `on_time_audit.py`, for a stream: a
batch of it is about a few thousand ids, for which planning those queries would take
longer than the work. Tests hold both against each other.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .count_columns import ON_TIME_COUNTS, TRANSACTION_COUNTS
from .event_schema import COMMITTED, ROLLED_BACK
from .result_tables import ALL_TOPICS
from .sla import SlaRules

TRANSACTIONS = "transactions"
ON_TIME = "on_time"
COUNTS = {TRANSACTIONS: TRANSACTION_COUNTS, ON_TIME: ON_TIME_COUNTS}
"""What is counted, in the order in which an Entry has it."""


class Event(NamedTuple):
    """Of an event what the classes need; see `event_schema.py`."""

    kind: str
    position: int
    number: int
    stored_ms: int
    due_ms: int | None
    topic_id: int
    topic: str
    event_id: str
    group: str | None
    check: int | None
    from_check: bool
    forced: bool
    outcome: str | None


class Entry(NamedTuple):
    """What a transaction or timer adds to the counts of a window and topic. `value`:
    the time to its outcome, or its lateness."""

    audit: str
    at_ms: int
    group: str
    topic: str
    value: int | None
    checks: int
    counts: tuple[int, ...]


def transaction_entries(events: Iterable[Event]) -> Iterator[Entry]:
    """One entry for each topic, and one for all; nothing without a beginning."""
    heads: list[Event] = []
    messages: dict[tuple[str, str], list[int]] = {}
    for event in events:
        if event.kind in {"half", "message", "schedule"}:
            seen = messages.setdefault((event.event_id, event.topic), [0, 0])
            seen[event.kind != "half"] += 1
        else:
            heads.append(event)
    begun_ms = _first(it.stored_ms for it in heads if it.kind == "transaction")
    if begun_ms is None:
        return
    ops = [it for it in heads if it.kind == "op"]
    ended_ms = _first(it.stored_ms for it in ops)
    value = None if ended_ms is None else ended_ms - begun_ms
    checks = max(
        sum(it.kind == "check" for it in heads), *(it.check or 0 for it in heads)
    )
    group = next((it.group for it in heads if it.group is not None), "")
    is_committed = any(it.outcome == COMMITTED for it in ops)
    shared = _transaction_counts(heads, ops, checks)
    for topic in dict.fromkeys([ALL_TOPICS, *(name for _, name in messages)]):
        told = [
            seen
            for (_, name), seen in messages.items()
            if seen[0] and topic in {ALL_TOPICS, name}
        ]
        if not told and topic != ALL_TOPICS:
            continue
        released = sum(releases > 0 for _, releases in told)
        counts = {
            **shared,
            "messages": len(told),
            "missing": len(told) - released if is_committed else 0,
            "leaked": 0 if is_committed else released,
            "duplicated": sum(releases > 1 for _, releases in told),
        }
        row = tuple(counts.get(name, 0) for name in COUNTS[TRANSACTIONS])
        yield Entry(TRANSACTIONS, begun_ms, group, topic, value, checks, row)


def _transaction_counts(
    heads: list[Event], ops: list[Event], checks: int
) -> dict[str, int]:
    is_committed = any(it.outcome == COMMITTED for it in ops)
    is_rolled_back = any(it.outcome == ROLLED_BACK for it in ops)
    is_open = not (is_committed or is_rolled_back)
    parked_at = _last_position(heads, "parked")
    is_parked = is_open and parked_at > _last_position(heads, "resumed")
    from_check = any(it.from_check for it in ops)
    forced = any(it.forced for it in ops)
    return {
        "half": 1,
        "committed": int(is_committed),
        "rolled_back": int(is_rolled_back),
        "open": int(is_open and not is_parked),
        "parked": int(is_parked),
        "difference": -int(is_committed and is_rolled_back),
        "unbalanced": int(is_committed and is_rolled_back),
        "checked_back": int(checks > 0),
        "check_backs": checks,
        "second_phase_lost": int(from_check),
        "slow_local": int(bool(ops) and checks > 0 and not from_check and not forced),
        "forced": int(forced),
    }


def timer_entries(events: Iterable[Event], rules: SlaRules) -> Iterator[Entry]:
    """One entry for the topic, and one for all. Nothing for a timer of which only a
    part is known. What nothing has come of is pending: time will tell."""
    known = sorted(events, key=lambda it: it.position)
    deliveries = [it for it in known if it.kind == "delivered"]
    given = [it for it in known if it.kind in {"schedule", "replace"}]
    due_ms = _due_ms(known, deliveries)
    if due_ms is None or not (given or _came_alone(known)):
        return
    cancelled_at = _first(it.position for it in known if it.kind == "cancel")
    lateness = min(it.stored_ms for it in deliveries) - due_ms if deliveries else None
    topic = max((it.topic_id, it.topic) for it in known)[1]
    is_dead = _last_position(known, "dead") > _last_position(known, "redriven")
    state = "pending"
    if deliveries:
        state = "fired"
    elif cancelled_at is not None:
        state = "cancelled"
    elif is_dead:
        state = "dead"
    anyway = cancelled_at is not None and any(
        it.position > cancelled_at for it in deliveries[:1]
    )
    counts = {
        "scheduled": 1,
        state: 1,
        "rescheduled": int(any(it.kind in {"reschedule", "replace"} for it in known)),
        "early": int(lateness is not None and lateness < 0),
        "duplicated": int(len(deliveries) > 1),
        "fired_anyway": int(anyway),
        "judged": int(state == "fired"),
        "in_sla": int(
            lateness is not None and 0 <= lateness <= rules.of(topic).within_ms
        ),
    }
    row = tuple(counts.get(name, 0) for name in COUNTS[ON_TIME])
    for name in (topic, ALL_TOPICS):
        yield Entry(ON_TIME, due_ms, "", name, lateness, 0, row)


def _due_ms(known: list[Event], deliveries: list[Event]) -> int | None:
    """The last due time that was given; without one, that of the message."""
    told: int | None = None
    for it in known:
        if it.kind in {"schedule", "replace", "reschedule", "redriven"}:
            told = it.due_ms
    if told is not None:
        return told
    return _first(it.due_ms for it in deliveries if it.due_ms is not None)


def _came_alone(known: list[Event]) -> bool:
    """Whether it is an occurrence of a recurring schedule, which is only delivered."""
    return all(it.kind == "delivered" for it in known)


def _last_position(events: list[Event], kind: str) -> int:
    return max((it.position for it in events if it.kind == kind), default=-1)


def _first(values: Iterable[int]) -> int | None:
    return min(values, default=None)

"""What new events change in the live counts.

    events ──> keyed_events ──> Spark's state: each id with all its events
           ──> entries with the new events, less the entries without them

So an id counts as it stands, however many batches its events came in. What is only
known in part (begun before the stream did) is left to the runs in batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .histogram import bucket_of
from .live_states import (
    COUNTS,
    ON_TIME,
    TRANSACTIONS,
    Entry,
    Event,
    timer_entries,
    transaction_entries,
)
from .on_time_audit import TIMER_KINDS
from .sla import SlaRules
from .transaction_audit import HEAD_KINDS, id_ms, transaction_key
from .windows import floor_ms

TRANSACTION = "t"
TIMER = "d"
GAP = "g"
KEPT = (*Event._fields, "transaction_id", "offset", "reason")
"""Columns of an event that the stream reads."""

Key = tuple[int, str, str]  # window_start_ms, producer group, topic
Bucket = tuple[str, int, str, str, int]  # measure, then as a Key, and the bucket
MEASURES = {TRANSACTIONS: "outcome_ms", ON_TIME: "lateness_ms"}


@dataclass(slots=True)
class Changes:
    """What a batch changes."""

    window_ms: int
    counts: dict[str, dict[Key, list[int]]] = field(
        default_factory=lambda: {TRANSACTIONS: {}, ON_TIME: {}}
    )
    largest: dict[tuple[str, Key], int] = field(default_factory=lambda: {})
    buckets: dict[Bucket, int] = field(default_factory=lambda: {})
    position: int = -1
    """Of the last of the new events."""
    horizon_ms: int = 0
    """When that was stored."""
    events: int = 0
    gaps: list[str] = field(default_factory=lambda: [])
    """What could not be seen."""

    def add(self, entry: Entry, weight: int) -> None:
        """Count it (1), or no longer (-1)."""
        key = floor_ms(entry.at_ms, self.window_ms), entry.group, entry.topic
        known = self.counts[entry.audit]
        sums = known.get(key)
        if sums is None:
            sums = known[key] = [0] * len(entry.counts)
        for at, count in enumerate(entry.counts):
            if count:
                sums[at] += weight * count
        if entry.audit == TRANSACTIONS:
            self._add_bucket("checks", key, entry.checks, weight)
        if entry.value is None:
            return
        self._add_bucket(MEASURES[entry.audit], key, bucket_of(entry.value), weight)
        if weight > 0:
            place = entry.audit, key
            self.largest[place] = max(self.largest.get(place, entry.value), entry.value)

    def rows(self, audit: str) -> Iterator[tuple[Key, dict[str, int]]]:
        """The counts that change, by name."""
        for key, sums in self.counts[audit].items():
            yield key, dict(zip(COUNTS[audit], sums, strict=True))

    def _add_bucket(self, measure: str, key: Key, bucket: int, weight: int) -> None:
        place = (measure, *key, bucket)
        self.buckets[place] = self.buckets.get(place, 0) + weight


def keyed_events(events: DataFrame) -> DataFrame:
    """Each event under the ids that it is about: a transaction, a timer, or both. A gap
    is one by itself, and its id tells of it. `made`: when the id was."""
    kind = F.col("kind")
    is_of_transaction = kind.isin(*HEAD_KINDS, "half") | (
        kind.isin("message", "schedule") & F.col("transaction_id").isNotNull()
    )
    of_transaction = F.when(
        is_of_transaction,
        F.struct(F.lit(TRANSACTION).alias("about"), transaction_key().alias("id")),
    )
    of_timer = F.when(
        kind.isin(*TIMER_KINDS),
        F.struct(F.lit(TIMER).alias("about"), F.col("event_id").alias("id")),
    )
    told = F.format_string("positions %d to %d: %s", "position", "offset", "reason")
    of_gap = F.when(
        kind == "gap", F.struct(F.lit(GAP).alias("about"), told.alias("id"))
    )
    keys = F.array_compact(F.array(of_transaction, of_timer, of_gap))
    key = F.col("key")
    stored_ms = F.col("event.stored_ms")
    made_ms = F.when(key.about == GAP, stored_ms).otherwise(id_ms(key.id))
    return events.select(
        F.explode(keys).alias("key"), F.struct(*Event._fields).alias("event")
    ).select("key.about", "key.id", F.timestamp_millis(made_ms).alias("made"), "event")


def flat_events(ids: DataFrame) -> DataFrame:
    """The ids of a batch with their events, one row an event."""
    told = ids.select("about", "id", "made", F.explode("events").alias("event"))
    made_ms = F.unix_millis("made").alias("made_ms")
    return told.select("about", "id", made_ms, "event.*")


def changes_of(
    flat: Any, *, before: int, window_ms: int, memory_ms: int, rules: SlaRules
) -> Changes:
    """What the events behind the position `before` change, from an Arrow table of
    `flat_events`.

    Timers that are due later than `memory_ms` after they were made are left out: the
    state will have forgotten them by then.
    """
    changes = Changes(window_ms)
    rows = set[tuple[int, int]]()  # an event may be about two ids
    for (about, name, made_ms), events in _by_id(flat).items():
        new = [event for event in events if event.position > before]
        rows.update((event.position, event.number) for event in new)
        if about == GAP:
            changes.gaps += [name] * bool(new)
            continue
        old = [event for event in events if event.position <= before]
        for some, weight in ((events, 1), (old, -1)):
            for entry in _entries(about, some, rules):
                if about == TRANSACTION or entry.at_ms < made_ms + memory_ms:
                    changes.add(entry, weight)
        for event in new:
            changes.position = max(changes.position, event.position)
            changes.horizon_ms = max(changes.horizon_ms, event.stored_ms)
    changes.gaps.sort()
    changes.events = len(rows)
    return changes


def _by_id(flat: Any) -> dict[tuple[str, str, int], list[Event]]:
    """What an id is about, the id and when it was made; and all its events."""
    names = ("about", "id", "made_ms", *Event._fields)
    columns = [flat.column(name).to_pylist() for name in names]
    found: dict[tuple[str, str, int], list[Event]] = {}
    for about, name, made_ms, *values in zip(*columns, strict=True):
        found.setdefault((about, name, made_ms), []).append(Event._make(values))
    return found


def _entries(about: str, events: Sequence[Event], rules: SlaRules) -> Iterator[Entry]:
    if not events:
        return iter(())
    if about == TRANSACTION:
        return transaction_entries(events)
    return timer_entries(events, rules)

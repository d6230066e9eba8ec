"""What a stream counts of hand-made events, however they are cut into batches.

PYTEST_DONT_REWRITE: tests import its names before it is a plugin.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from halfpast_spark.event_schema import COMMITTED, ROLLED_BACK
from halfpast_spark.live_books import LiveBooks
from halfpast_spark.live_deltas import Changes
from halfpast_spark.live_events import (
    EVENT,
    FORCED,
    FROM_CHECK,
    NONE,
    OF_TRANSACTION,
    WAS_COMMITTED,
    WAS_ROLLED_BACK,
    LiveEvents,
)
from halfpast_spark.live_memory import LiveMemory
from halfpast_spark.live_saves import LiveSaves
from halfpast_spark.row_kinds import CODES
from halfpast_spark.sla import SlaRules

MEMORY_MS = 86_400_000
Counts = dict[str, dict[tuple[int, str, str], dict[str, int]]]
Buckets = dict[tuple[str, int, str, str, int], int]


def live_events(rows: Iterable[dict[str, Any]]) -> LiveEvents:
    """Events as a worker packs them."""
    rows = list(rows)
    found = LiveEvents(np.zeros(len(rows), EVENT))
    for place, row in enumerate(rows):
        group = row.get("group")
        if group is not None and group not in found.groups:
            found.groups.append(group)
        found.topics[row["topic_id"]] = row["topic"]
        due_ms = row.get("due_ms")
        found.events[place] = (
            uuid.UUID(row["event_id"]).bytes,
            row["position"],
            row["stored_ms"],
            NONE if due_ms is None else due_ms,
            row["topic_id"],
            NONE if group is None else found.groups.index(group),
            row.get("check") or 0,
            CODES[row["kind"]],
            _flags(row),
        )
    return found


def _flags(row: dict[str, Any]) -> int:
    bits = {
        FROM_CHECK: row["from_check"],
        FORCED: row["forced"],
        WAS_COMMITTED: row.get("outcome") == COMMITTED,
        WAS_ROLLED_BACK: row.get("outcome") == ROLLED_BACK,
        OF_TRANSACTION: row.get("transaction_id") is not None,
    }
    return sum(bit for bit, is_set in bits.items() if is_set)


def new_books(
    window_ms: int, rules: SlaRules, memory: LiveMemory | None = None
) -> LiveBooks:
    return LiveBooks(
        memory or LiveMemory(), window_ms=window_ms, memory_ms=MEMORY_MS, rules=rules
    )


def counted(batches: Iterable[Changes]) -> tuple[Counts, Buckets]:
    """All changes added up, without what is 0."""
    sums: dict[str, dict[tuple[int, str, str], Counter[str]]] = {}
    buckets = Counter[tuple[str, int, str, str, int]]()
    for changes in batches:
        for audit in changes.counts:
            for key, counts in changes.rows(audit):
                sums.setdefault(audit, {}).setdefault(key, Counter()).update(counts)
        buckets.update(changes.buckets)
    found = {
        audit: {
            key: {name: it for name, it in counts.items() if it}
            for key, counts in keys.items()
            if any(counts.values())
        }
        for audit, keys in sums.items()
    }
    return found, {key: count for key, count in buckets.items() if count}


def cut(rows: Sequence[dict[str, Any]], sizes: Iterable[int]) -> list[LiveEvents]:
    """Batches of so many rows, but for frames, which stay whole; the rest is one."""
    batches: list[LiveEvents] = []
    start = 0
    for size in sizes:
        end = min(start + size, len(rows))
        while end < len(rows) and rows[end]["position"] == rows[end - 1]["position"]:
            end += 1
        batches.append(live_events(rows[start:end]))
        start = end
    return [*batches, live_events(rows[start:])]


def check_any_cut(
    rows: Sequence[dict[str, Any]], window_ms: int, rules: SlaRules, folder: Path
) -> None:
    """One frame at a time, and with a death after each that leaves the memory as it
    was saved, perhaps some batches ago: the same is counted."""
    whole = counted([new_books(window_ms, rules).take([live_events(rows)])])
    frames = cut(rows, [1] * len(rows))
    books = new_books(window_ms, rules)
    assert counted(books.take([it]) for it in frames) == whole
    told: list[Changes] = []
    saves, books = LiveSaves(folder), new_books(window_ms, rules)
    for number, batch in enumerate(frames):
        told.append(books.take([batch]))
        if number % 3 == 0:  # and then only what was changed longest ago
            saves.save(books.memory, budget_bytes=1)
        saved = LiveSaves(folder).load()
        assert saved is not None
        books = new_books(window_ms, rules, saved)
        for known in frames[: number + 1]:  # as the log tells it again
            books.take([known])
    assert counted(told) == whole

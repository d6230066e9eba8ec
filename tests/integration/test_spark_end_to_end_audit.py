"""From publishing to consumption, on hand-made events."""

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.spark_events import EventLine, id_text

pytest.importorskip("pyspark")

from halfpast_spark.end_to_end_audit import (
    STATE_COLUMNS,
    WINDOW_COLUMNS,
    end_to_end_windows,
    message_states,
    settled,
)
from halfpast_spark.windows import Period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["tests.integration.spark_session"]
pytestmark = pytest.mark.spark

T0 = 1_760_000_100_000
WINDOW = 300_000
PERIOD = Period(
    from_ms=T0,
    to_ms=T0 + 2 * WINDOW,
    window_ms=WINDOW,
    horizon_ms=T0 + WINDOW + 20_000,
    grace_ms=5_000,
)

Counts = dict[str, Any]


class Messages(EventLine):
    """Messages, with their places in queue 0 of their topics."""

    def store(
        self, number: int, at_ms: int, offset: int, kind: str = "message", **more: Any
    ) -> None:
        event_id = id_text(T0, number, 1)
        self.add(at_ms, {"kind": kind, "event_id": event_id, "offset": offset, **more})

    def tell(self, number: int, at_ms: int, kind: str, **more: Any) -> None:
        self.add(at_ms, {"kind": kind, "event_id": id_text(T0, number, 1), **more})

    def consume(self, group: str, at_ms: int, *offsets: int, **more: Any) -> None:
        rows = [
            {"kind": "consumed", "group": group, "offset": offset, **more}
            for offset in offsets
        ]
        self.add(at_ms, *rows)


def write(line: Messages) -> None:
    """`orders` has it all; of `bills` only the queue's place is the same."""
    line.store(1, T0, 0)
    line.store(2, T0 + 10, 1)
    line.store(2, T0 + 20, 2)  # the same id again
    line.store(3, T0 + WINDOW, 3)
    line.tell(4, T0, "schedule", due_ms=T0 + 100)
    line.store(4, T0 + 101, 4, "delivered", due_ms=T0 + 100)
    line.tell(5, T0, "schedule", due_ms=T0 + 100)
    line.tell(5, T0 + 50, "cancel")
    line.tell(6, T0, "schedule", due_ms=T0 + 100)  # lost
    line.tell(7, T0, "schedule", due_ms=T0 + WINDOW + 19_000)  # pending
    line.tell(8, T0, "schedule", due_ms=T0 + 100)
    line.tell(8, T0 + 100, "dead", check=9)
    line.store(9, T0 + 101, 5, "delivered", due_ms=T0 + 100)  # nobody scheduled it
    for number, outcome in ((20, "committed"), (21, "rolled_back"), (22, None)):
        key = {"transaction_id": id_text(T0, number), "group": "shop"}
        line.tell(number, T0, "half", **key)  # and no message comes of it
        if outcome:
            line.add(
                T0 + 5,
                {"kind": "op", "event_id": id_text(T0, number), **key}
                | {"outcome": outcome},
            )
    line.store(30, T0, 0, topic="bills")
    line.consume("packers", T0 + 500, 0, 1)
    line.consume("packers", T0 + 900, 0)  # set back, and again
    line.add(
        T0 + 2_000,
        {"kind": "dead_letter", "event_id": id_text(T0, 4, 1), "group": "packers"},
    )
    line.consume("clerks", T0 + 700, 0, topic="bills")


@pytest.fixture(scope="module")
def found(spark: "SparkSession") -> dict[tuple[int, str, str], Counts]:
    line = Messages()
    write(line)
    events = line.frame(spark)
    states = message_states(events, PERIOD)
    assert tuple(states.columns) == STATE_COLUMNS
    windows = end_to_end_windows(states, settled(events), PERIOD)
    assert tuple(windows.columns) == WINDOW_COLUMNS
    told: dict[tuple[int, str, str], Counts] = {}
    for row in windows.collect():
        at = (row["window_start_ms"] - T0) // WINDOW
        key = at, row["consumer_group"], row["topic"]
        assert key not in told
        told[key] = row.asDict()
    return told


def counts(row: Counts) -> Counts:
    """What is not 0."""
    named = {"window_start_ms", "consumer_group", "topic"}
    return {name: value for name, value in row.items() if value and name not in named}


def test_published_is_stored_or_has_a_reason(
    found: dict[tuple[int, str, str], Counts],
) -> None:
    assert counts(found[0, "*", "orders"]) == {
        "published": 8,
        "stored": 4,
        "cancelled": 1,
        "dead": 1,
        "lost": 2,
        "duplicated": 1,
        "unpublished": 1,
    }
    assert counts(found[1, "*", "orders"]) == {
        "published": 2,
        "stored": 1,
        "pending": 1,
    }


def test_stored_is_consumed_or_waiting_for_each_group(
    found: dict[tuple[int, str, str], Counts],
) -> None:
    row = counts(found[0, "packers", "orders"])
    assert (row["stored"], row["consumed"], row["waiting"]) == (4, 3, 1)
    assert row["dead_lettered"] == 1
    assert row["consume_p50_ms"] == 500
    assert row["consume_max_ms"] == 1_899
    later = counts(found[1, "packers", "orders"])
    assert (later["stored"], later["waiting"]) == (1, 1)
    assert counts(found[0, "clerks", "bills"])["consumed"] == 1


def test_each_group_has_the_topics_that_it_takes(
    found: dict[tuple[int, str, str], Counts],
) -> None:
    assert {key[1:] for key in found} == {
        ("*", "*"),
        ("*", "bills"),
        ("*", "orders"),
        ("clerks", "bills"),
        ("packers", "orders"),
    }


def test_the_books_balance(found: dict[tuple[int, str, str], Counts]) -> None:
    for (_, group, _), row in found.items():
        parts = ("stored", "cancelled", "pending", "dead", "lost")
        assert row["published"] == sum(row[name] for name in parts)
        if group != "*":
            assert row["stored"] == row["consumed"] + row["waiting"]

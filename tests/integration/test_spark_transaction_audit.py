"""The books of transactions, on hand-made events.

Every producer group is a case of its own; all are audited at once, since starting a
query takes longer than all of them together.
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.spark_events import EventLine, id_text

pytest.importorskip("pyspark")

from tests.integration.live_counting import (
    check_any_cut,
    counted,
    live_events,
    new_books,
)

from halfpast_spark.sla import SlaRules
from halfpast_spark.transaction_audit import (
    STATE_COLUMNS,
    WINDOW_COLUMNS,
    transaction_histograms,
    transaction_rows,
    transaction_states,
    transaction_topics,
    transaction_windows,
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
    horizon_ms=T0 + 2 * WINDOW,
    grace_ms=1000,
)
assert T0 % WINDOW == 0


class Books(EventLine):
    """Transactions of one producer group after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.group = ""
        self.unbalanced: set[str] = set()
        self._base = 0

    def case(self, group: str) -> None:
        """Those that follow are of this group; their numbers begin anew."""
        self.group = group
        self._base += 1000

    def id(self, number: int, message: int = 0) -> str:
        return id_text(T0, self._base + number, message)

    def of(self, number: int, kind: str, **more: Any) -> dict[str, Any]:
        key = self.id(number)
        told = {"event_id": key, "transaction_id": key, "group": self.group}
        return {"kind": kind, **told, **more}

    def begin(self, number: int, at_ms: int, *topics: str) -> None:
        halves = [
            self.of(number, "half", event_id=self.id(number, index), topic=topic)
            for index, topic in enumerate(topics, start=1)
        ]
        self.add(at_ms, self.of(number, "transaction"), *halves)

    def end(
        self, number: int, at_ms: int, outcome: str, *topics: str, **more: Any
    ) -> None:
        """The outcome, and with it the messages with these topics."""
        messages = [
            {
                "kind": "schedule" if topic == "bills" else "message",
                "event_id": self.id(number, index),
                "transaction_id": self.id(number),
                "topic": topic,
            }
            for index, topic in enumerate(topics, start=1)
        ]
        op = self.of(number, "op", outcome=outcome, **{"check": 0, **more})
        self.add(at_ms, *messages, op)

    def check(self, number: int, at_ms: int, check: int) -> None:
        self.add(at_ms, self.of(number, "check", check=check))


def write_cases(books: Books) -> None:
    """All that the tests below look at."""
    books.case("fates")
    books.begin(1, T0, "orders")
    books.end(1, T0 + 40, "committed", "orders")
    books.begin(2, T0, "orders")
    books.end(2, T0 + 80, "rolled_back")
    books.begin(3, T0, "orders")
    books.begin(4, T0, "orders")
    for check in (1, 2, 3):
        books.check(4, T0 + 1000 * check, check)
    books.add(T0 + 4000, books.of(4, "parked", check=3))

    books.case("resumed")
    for number in (1, 2, 3):
        books.begin(number, T0, "orders")
        books.add(T0 + 10, books.of(number, "parked", check=15))
    for number in (1, 2):
        books.add(T0 + 20, books.of(number, "resumed", check=15))
    books.add(T0 + 30, books.of(2, "parked", check=30))
    books.end(3, T0 + 50, "committed", "orders", forced=True, check=15)

    books.case("lost phase")
    books.begin(1, T0, "orders")
    books.check(1, T0 + 6000, 1)
    books.end(1, T0 + 6100, "committed", "orders", from_check=True, check=1)
    books.begin(2, T0, "orders")
    books.check(2, T0 + 6000, 1)
    books.check(2, T0 + 36_000, 2)
    books.end(2, T0 + 40_000, "committed", "orders", check=2)

    books.case("topics")
    books.begin(1, T0, "orders", "bills", "bills")
    books.end(1, T0 + 10, "committed", "orders", "bills", "bills")
    books.begin(2, T0 + WINDOW, "orders")
    books.begin(3, T0 + 2 * WINDOW, "orders")  # outside of the period
    books.begin(4, T0 - 1, "orders")

    books.case("messages")
    books.begin(1, T0, "orders", "orders")
    books.end(1, T0 + 10, "committed", "orders")  # the second one is nowhere
    books.begin(2, T0, "orders")
    books.end(2, T0 + 10, "rolled_back", "orders")
    books.begin(3, T0, "orders")
    books.add(T0 + 10, {"kind": "message", "event_id": books.id(3, 1)})
    books.begin(4, T0, "orders")
    books.end(4, T0 + 10, "committed", "orders")
    books.end(4, T0 + 20, "committed", "orders")

    books.case("unbalanced")
    books.begin(1, T0, "orders")
    books.end(1, T0 + 10, "committed", "orders")
    books.end(1, T0 + 20, "rolled_back")
    books.end(2, T0 + 30, "rolled_back")  # begun nowhere; at T0 by its id
    books.unbalanced = {books.id(1), books.id(2)}

    books.case("none")
    books.add(T0, {"kind": "message", "event_id": books.id(1, 7)})


class Found:
    """What the audit finds in the cases."""

    def __init__(self, spark: "SparkSession") -> None:
        self.books = Books()
        write_cases(self.books)
        events = self.books.frame(spark)
        states = transaction_states(events)
        assert tuple(states.columns) == STATE_COLUMNS
        self.unbalanced = {
            row["transaction_id"] for row in states.where("is_unbalanced").collect()
        }
        rows = transaction_rows(states, transaction_topics(events)).cache()
        windows = transaction_windows(rows, PERIOD)
        assert tuple(windows.columns) == WINDOW_COLUMNS
        self.rows: dict[tuple[int, str, str], dict[str, Any]] = {}
        for row in windows.collect():
            at = (row["window_start_ms"] - T0) // WINDOW
            key = at, row["producer_group"], row["topic"]
            assert key not in self.rows
            self.rows[key] = row.asDict()
        self.histograms: dict[tuple[str, str, str], Counter[int]] = {}
        for row in transaction_histograms(rows, PERIOD).collect():
            name = row["measure"], row["producer_group"], row["topic"]
            of_name = self.histograms.setdefault(name, Counter())
            of_name[row["bucket"]] += row["count"]

    def counts(self, group: str, topic: str = "orders", at: int = 0) -> dict[str, int]:
        """What is counted there and is not 0."""
        row = self.rows[at, group, topic]
        left_out = {"window_start_ms", "producer_group", "topic"}
        return {
            name: value
            for name, value in row.items()
            if value and name not in left_out and not name.startswith("outcome_")
        }


@pytest.fixture(scope="module")
def found(spark: "SparkSession") -> Found:
    return Found(spark)


def test_each_fate_is_counted_once(found: Found) -> None:
    assert found.counts("fates") == {
        "half": 4,
        "committed": 1,
        "rolled_back": 1,
        "open": 1,
        "parked": 1,
        "messages": 4,
        "checked_back": 1,
        "check_backs": 3,
    }
    row = found.rows[0, "fates", "orders"]
    assert row["outcome_p50_ms"] == 60
    assert row["outcome_max_ms"] == 80
    assert found.histograms["checks", "fates", "orders"] == {0: 3, 3: 1}
    assert found.histograms["outcome_ms", "fates", "*"] == {27: 1, 35: 1}


def test_a_parked_one_that_is_resumed_is_open_until_its_outcome(found: Found) -> None:
    assert found.counts("resumed") == {
        "half": 3,
        "open": 1,
        "parked": 1,
        "committed": 1,
        "forced": 1,
        "messages": 3,
        "checked_back": 3,  # PARKED, RESUMED and the outcome tell how often
        "check_backs": 60,
    }


def test_a_lost_second_phase_is_not_a_slow_local_transaction(found: Found) -> None:
    assert found.counts("lost phase") == {
        "half": 2,
        "committed": 2,
        "messages": 2,
        "checked_back": 2,
        "check_backs": 3,
        "second_phase_lost": 1,
        "slow_local": 1,
    }


def test_all_topics_together_count_a_transaction_once(found: Found) -> None:
    assert found.counts("topics", "bills") == {"half": 1, "committed": 1, "messages": 2}
    assert found.counts("topics", "*") == {"half": 1, "committed": 1, "messages": 3}


def test_each_belongs_to_the_window_in_which_it_began(found: Found) -> None:
    assert {key for key in found.rows if key[1] == "topics"} == {
        (0, "topics", "orders"),
        (0, "topics", "bills"),
        (0, "topics", "*"),
        (1, "topics", "orders"),
        (1, "topics", "*"),
    }


def test_messages_that_are_missing_leaked_or_doubled(found: Found) -> None:
    assert found.counts("messages") == {
        "half": 4,
        "committed": 2,
        "rolled_back": 1,
        "open": 1,
        "messages": 5,
        "missing": 1,
        "leaked": 2,
        "duplicated": 1,
    }


def test_books_that_do_not_balance_name_their_ids(found: Found) -> None:
    assert found.rows[0, "unbalanced", "orders"]["difference"] == -1
    assert found.counts("unbalanced", "*") == {
        "half": 1,
        "committed": 1,
        "rolled_back": 2,
        "difference": -2,
        "unbalanced": 2,
        "messages": 1,
    }
    assert found.unbalanced == found.books.unbalanced


def test_a_message_without_a_transaction_is_none(found: Found) -> None:
    assert not [key for key in found.rows if key[1] in {"none", None}]


@pytest.fixture(scope="module")
def live_rows(found: Found) -> list[dict[str, Any]]:
    """As a stream gets them, but that it takes what is released without an outcome
    for a message of no transaction."""
    rows = found.books.rows
    released = {"message", "schedule"}
    return [
        {**row, "transaction_id": row["event_id"]} if row["kind"] in released else row
        for row in rows
    ]


def test_a_stream_has_the_same_classes(
    found: Found, live_rows: list[dict[str, Any]]
) -> None:
    """But of what has no beginning it tells nothing."""
    changes = new_books(WINDOW, SlaRules()).take([live_events(live_rows)])
    counts, buckets = counted([changes])
    told = {
        ((start - T0) // WINDOW, group, topic): known
        for (start, group, topic), known in counts["transactions"].items()
        if PERIOD.from_ms <= start < PERIOD.to_ms
    }
    assert told.keys() == found.rows.keys()
    for at, group, topic in found.rows:
        wanted = found.counts(group, topic, at)
        if (group, topic) == ("unbalanced", "*"):
            orphan = {"rolled_back": 1, "unbalanced": 1, "difference": -1}
            wanted = {name: it - orphan.get(name, 0) for name, it in wanted.items()}
            wanted = {name: it for name, it in wanted.items() if it}
        assert told[at, group, topic] == wanted, (at, group, topic)
    for (measure, group, topic), known in found.histograms.items():
        live = {
            bucket: sum(
                count
                for place, count in buckets.items()
                if (place[0], *place[2:]) == (measure, group, topic, bucket)
                and PERIOD.from_ms <= place[1] < PERIOD.to_ms
            )
            for bucket in known
        }
        assert live == known, (measure, group, topic)


def test_a_stream_counts_the_same_however_the_log_is_cut(
    live_rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    check_any_cut(live_rows, WINDOW, SlaRules(), tmp_path)

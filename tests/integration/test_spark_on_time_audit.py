"""The books of delayed messages, on hand-made events.

Every topic is a case of its own; all are audited at once.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.spark_events import TOPIC_IDS, EventLine, id_text

pytest.importorskip("pyspark")

from tests.integration.live_counting import (
    check_any_cut,
    counted,
    live_events,
    new_books,
)

from halfpast_spark.histogram import bucket_of
from halfpast_spark.on_time_audit import (
    STATE_COLUMNS,
    WINDOW_COLUMNS,
    lateness_histogram,
    on_time_windows,
    timer_rows,
    timer_states,
)
from halfpast_spark.sla import Sla, SlaRules
from halfpast_spark.windows import Period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["tests.integration.spark_session"]
pytestmark = pytest.mark.spark

T0 = 1_760_000_100_000
WINDOW = 300_000
HORIZON = T0 + WINDOW + 20_000
PERIOD = Period(
    from_ms=T0,
    to_ms=T0 + 2 * WINDOW,
    window_ms=WINDOW,
    horizon_ms=HORIZON,
    grace_ms=5_000,
)
RULES = SlaRules(Sla(50, 0.999), {"slow": Sla(2_000, 0.9)})


class Timers(EventLine):
    """Delayed messages of one topic after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.topic = ""
        self._base = 0

    def case(self, topic: str) -> None:
        """Those that follow are of this topic; their numbers begin anew."""
        self.topic = topic
        self._base += 1000
        TOPIC_IDS.setdefault(topic, 2000 + self._base)

    def of(self, number: int, kind: str, **more: Any) -> dict[str, Any]:
        key = id_text(T0, self._base + number)
        return {"kind": kind, "event_id": key, "topic": self.topic, **more}

    def tell(self, number: int, at_ms: int, kind: str, **more: Any) -> None:
        self.add(at_ms, self.of(number, kind, **more))

    def schedule(self, number: int, due_ms: int) -> None:
        self.tell(number, T0 - 60_000, "schedule", due_ms=due_ms)

    def fire(self, number: int, at_ms: int, due_ms: int) -> None:
        self.add(
            at_ms,
            self.of(number, "delivered", due_ms=due_ms),
            self.of(number, "fired", due_ms=due_ms),
        )


def write_cases(timers: Timers) -> None:
    """All that the tests below look at."""
    timers.case("fates")
    for number in range(1, 7):
        timers.schedule(number, T0 + 100)
    timers.fire(1, T0 + 101, T0 + 100)
    timers.fire(2, T0 + 160, T0 + 100)
    timers.tell(3, T0, "cancel")
    timers.tell(4, T0 + 100, "failed", due_ms=T0 + 900, check=1)
    timers.tell(4, T0 + 901, "dead", check=2)
    # 5 and 6 never come

    timers.case("horizon")
    timers.schedule(1, HORIZON - 5_001)
    timers.schedule(2, HORIZON - 5_000)
    timers.schedule(3, HORIZON + 1)

    timers.case("moved")
    timers.schedule(1, T0 + 100)
    timers.tell(1, T0, "reschedule", due_ms=T0 + WINDOW)
    timers.fire(1, T0 + WINDOW + 3, T0 + WINDOW)
    timers.schedule(2, T0 + 100)
    timers.tell(2, T0, "replace", due_ms=T0 + 200)
    timers.fire(2, T0 + 200, T0 + 200)
    timers.schedule(3, T0 + 100)
    timers.tell(3, T0, "reschedule", due_ms=T0 + 10 * WINDOW)

    timers.case("broken")
    timers.schedule(1, T0 + 100)
    timers.fire(1, T0 + 99, T0 + 100)
    timers.schedule(2, T0 + 100)
    timers.fire(2, T0 + 100, T0 + 100)
    timers.fire(2, T0 + 130, T0 + 100)
    timers.schedule(3, T0 + 100)
    timers.tell(3, T0, "cancel")
    timers.fire(3, T0 + 100, T0 + 100)
    timers.schedule(4, T0 + WINDOW + 19_000)
    timers.tell(4, T0 + WINDOW + 19_000, "fired", due_ms=T0 + WINDOW + 19_000, topic="")

    timers.case("retried")
    timers.schedule(1, T0 + 100)
    timers.tell(1, T0 + 100, "failed", due_ms=T0 + 600, check=1)
    timers.fire(1, T0 + 601, T0 + 100)
    timers.schedule(2, T0 + 100)
    timers.tell(2, T0 + 100, "dead", check=1)
    timers.tell(2, T0 + 5_000, "redriven", due_ms=T0 + 5_000)
    timers.fire(2, T0 + 5_001, T0 + 5_000)

    timers.case("unseen")
    timers.fire(1, T0 + 101, T0 + 100)  # scheduled in a segment that is gone
    timers.add(T0 + 101, timers.of(2, "delivered", due_ms=T0 + 100))  # an occurrence
    timers.tell(3, T0, "cancel")  # nobody knows for when

    timers.case("slow")
    timers.schedule(1, T0 + 100)
    timers.fire(1, T0 + 2_100, T0 + 100)
    timers.schedule(2, T0 + 100)
    timers.fire(2, T0 + 2_101, T0 + 100)


class Found:
    """What the audit finds in the cases."""

    def __init__(self, spark: "SparkSession") -> None:
        timers = Timers()
        write_cases(timers)
        self.timers = timers
        states = timer_states(timers.frame(spark))
        assert tuple(states.columns) == STATE_COLUMNS
        rows = timer_rows(states, PERIOD, RULES).cache()
        windows = on_time_windows(rows)
        assert tuple(windows.columns) == WINDOW_COLUMNS
        self.rows: dict[tuple[int, str], dict[str, Any]] = {}
        for row in windows.collect():
            key = (row["window_start_ms"] - T0) // WINDOW, row["topic"]
            assert key not in self.rows
            self.rows[key] = row.asDict()
        self.histograms: dict[tuple[int, str], dict[int, int]] = {}
        for row in lateness_histogram(rows).collect():
            key = (row["window_start_ms"] - T0) // WINDOW, row["topic"]
            self.histograms.setdefault(key, {})[row["bucket"]] = row["count"]

    def counts(self, topic: str, at: int = 0) -> dict[str, int]:
        """What is counted there and is not 0."""
        row = self.rows[at, topic]
        return {
            name: value
            for name, value in row.items()
            if value
            and name not in {"window_start_ms", "topic"}
            and not name.startswith("lateness_")
        }


@pytest.fixture(scope="module")
def found(spark: "SparkSession") -> Found:
    return Found(spark)


def test_each_fate_is_counted_once(found: Found) -> None:
    assert found.counts("fates") == {
        "scheduled": 6,
        "fired": 2,
        "cancelled": 1,
        "dead": 1,
        "lost": 2,
        "judged": 4,
        "in_sla": 1,
    }
    row = found.rows[0, "fates"]
    assert row["lateness_p50_ms"] == 30.5
    assert row["lateness_max_ms"] == 60
    buckets = {bucket_of(1): 1, bucket_of(60): 1}
    assert found.histograms[0, "fates"] == buckets


def test_lost_is_only_what_was_due_before_horizon_and_grace(found: Found) -> None:
    assert found.counts("horizon", at=1) == {
        "scheduled": 3,
        "lost": 1,
        "pending": 2,
        "judged": 1,
    }


def test_a_timer_belongs_to_the_window_of_its_last_due_time(found: Found) -> None:
    assert found.counts("moved") == {
        "scheduled": 1,
        "fired": 1,
        "rescheduled": 1,
        "judged": 1,
        "in_sla": 1,
    }
    assert found.counts("moved", at=1) == found.counts("moved")
    assert found.rows[1, "moved"]["lateness_max_ms"] == 3
    assert {key for key in found.rows if key[1] == "moved"} == {
        (0, "moved"),
        (1, "moved"),
    }


def test_early_doubled_and_contradicted_ones_are_told_apart(found: Found) -> None:
    assert found.counts("broken") == {
        "scheduled": 3,
        "fired": 3,
        "early": 1,
        "duplicated": 1,
        "fired_anyway": 1,
        "judged": 3,
        "in_sla": 2,
    }
    assert found.histograms[0, "broken"] == {0: 1, bucket_of(0): 2}


def test_a_timer_that_fired_without_its_message_is_lost_at_once(found: Found) -> None:
    assert found.counts("broken", at=1) == {"scheduled": 1, "lost": 1, "judged": 1}


def test_a_refused_message_is_as_late_as_it_is(found: Found) -> None:
    assert found.counts("retried") == {
        "scheduled": 2,
        "fired": 2,
        "judged": 2,
        "in_sla": 1,
    }
    assert found.rows[0, "retried"]["lateness_max_ms"] == 501


def test_a_message_whose_scheduling_is_gone_is_unseen(found: Found) -> None:
    assert found.counts("unseen") == {
        "scheduled": 2,
        "fired": 2,
        "unseen": 1,
        "judged": 2,
        "in_sla": 2,
    }


def test_each_topic_has_its_own_sla(found: Found) -> None:
    assert found.counts("slow")["in_sla"] == 1


def test_all_topics_together_are_their_sum(found: Found) -> None:
    for at in (0, 1):
        together = found.counts("*", at)
        for name, value in together.items():
            parts = [
                found.counts(topic, at).get(name, 0)
                for where, topic in found.rows
                if where == at and topic != "*"
            ]
            assert sum(parts) == value, name


def test_the_books_balance(found: Found) -> None:
    for row in found.rows.values():
        fates = ("fired", "cancelled", "dead", "pending", "lost")
        assert row["scheduled"] == sum(row[name] for name in fates)


def test_a_stream_has_the_same_classes(found: Found) -> None:
    """But it knows no time: what nothing has come of is pending; and of what it knows
    in part it tells nothing."""
    changes = new_books(WINDOW, RULES).take([live_events(found.timers.rows)])
    counts, buckets = counted([changes])
    told = {
        ((start - T0) // WINDOW, topic): known
        for (start, _, topic), known in counts["on_time"].items()
    }
    for (at, topic), row in found.rows.items():
        if topic in {"unseen", "*"}:
            continue
        wanted = found.counts(topic, at)
        lost = wanted.pop("lost", 0)
        wanted["pending"] = wanted.get("pending", 0) + lost
        wanted["judged"] = wanted.get("judged", 0) - lost
        wanted = {name: it for name, it in wanted.items() if it}
        assert told[at, topic] == wanted, (at, topic)
        assert row["scheduled"] == wanted["scheduled"]
        for bucket, count in found.histograms.get((at, topic), {}).items():
            place = "lateness_ms", T0 + at * WINDOW, "", topic, bucket
            assert buckets[place] == count
    assert told[0, "unseen"]["scheduled"] == 1  # the occurrence


def test_a_stream_counts_the_same_however_the_log_is_cut(
    found: Found, tmp_path: Path
) -> None:
    check_any_cut(found.timers.rows, WINDOW, RULES, tmp_path)

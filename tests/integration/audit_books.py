"""Made-up results of audits, of any length: books that balance, with a bad hour.

For the tests of the pages and reports, and to look at them:

    python -m tests.integration.audit_books sqlite:///FILE --days 30 --topics 20

Everything follows from the seed. In the bad hour one topic fires late, one producer
group loses its second phases, and a few timers are lost, early or fired twice.
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Column, Connection, Table

from halfpast_api.metadata.database import migration_engine, parse_url
from halfpast_api.metadata.migrate import migrate
from halfpast_spark import result_tables as tables
from halfpast_spark.result_tables import ALL_TOPICS, BATCH

Row = dict[str, Any]

MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
END_MS: Final = 1_767_268_800_000  # 2026-01-01T12:00:00Z
SLA_MS: Final = 50
SLA_SHARE: Final = 0.999
CHUNK: Final = 20_000

TOPICS: Final = (
    "orders", "payments", "reminders", "invoices", "shipping", "emails", "refunds",
    "webhooks", "carts", "audits", "dunning", "search",
    "stock", "loyalty", "returns", "surveys", "sms", "push", "exports", "trials",
)  # fmt: skip
GROUPS: Final = ("shop", "billing", "warehouse")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which windows there are."""

    end_ms: int = END_MS
    window_ms: int = 5 * MINUTE_MS
    windows: int = 288
    topics: int = 4

    def starts(self) -> Iterator[int]:
        first = self.end_ms - self.windows * self.window_ms
        return iter(range(first, self.end_ms, self.window_ms))

    def is_bad(self, start_ms: int) -> bool:
        """The hour that begins three hours before the end."""
        return 0 < self.end_ms - 2 * 3_600_000 - start_ms <= 3_600_000


def write(url: str, span: Span, seed: int = 5) -> None:
    """Bring the schema up to date and fill the tables."""
    migrate(url)
    engine = migration_engine(parse_url(url))
    books = _Books(span, Random(seed))
    with engine.begin() as connection:
        _insert(connection, tables.on_time, books.on_time())
        _insert(connection, tables.transactions, books.transactions())
        _insert(connection, tables.end_to_end, books.end_to_end())
        _insert(connection, tables.histograms, books.histograms())
        _insert(connection, tables.offenders, books.offenders())
        _insert(connection, tables.runs, iter([books.run()]))
    engine.dispose()


def _insert(connection: Connection, table: Table, rows: Iterator[Row]) -> None:
    blank = {it.name: _blank(it) for it in table.columns if not it.nullable}
    while chunk := [blank | row for row in islice(rows, CHUNK)]:
        connection.execute(table.insert(), chunk)


def _blank(column: Column[Any]) -> int | str:
    return 0 if column.type.python_type is int else ""


def bucket_of(value: int) -> tuple[int, int, int]:
    """Number, lower and upper of a log-spaced bucket, ten to a decade."""
    if value < 10:
        return value, value, value
    number = int(math.log10(value) * 10 + 1e-9)
    lower, upper = math.ceil(10 ** (number / 10)), math.ceil(10 ** ((number + 1) / 10))
    return number, lower, upper - 1


class _Books:
    """The rows of all tables for one span."""

    def __init__(self, span: Span, random: Random) -> None:
        self._span = span
        self._random = random
        self._topics = TOPICS[: span.topics]
        self._histograms: list[Row] = []
        self._end_to_end: list[Row] = []
        self._offenders: list[Row] = []

    def _key(self, start_ms: int) -> Row:
        return {
            "window_ms": self._span.window_ms,
            "window_start_ms": start_ms,
            "source": BATCH,
            "horizon_ms": self._span.end_ms - 4_000,
        }

    def _load(self, start_ms: int, scale: float) -> int:
        day = (start_ms % DAY_MS) / DAY_MS
        wave = 0.55 - 0.45 * math.cos(2 * math.pi * (day - 0.17))
        week = 0.6 if (start_ms // DAY_MS) % 7 in (2, 3) else 1.0
        return max(0, int(scale * wave * week * self._random.uniform(0.85, 1.15)))

    def on_time(self) -> Iterator[Row]:
        for start_ms in self._span.starts():
            rows = [
                self._on_time(start_ms, topic, number)
                for number, topic in enumerate(self._topics)
            ]
            yield from rows
            yield self._total(start_ms, rows)

    def _on_time(self, start_ms: int, topic: str, number: int) -> Row:
        random, is_bad = self._random, self._span.is_bad(start_ms)
        hurt = is_bad and number == 1
        scheduled = self._load(start_ms, 900 / (1 + number))
        cancelled = int(scheduled * random.uniform(0.02, 0.05))
        lost = random.randint(1, 3) if hurt and scheduled > 20 else 0
        dead = 1 if random.random() < 0.004 else 0
        dead = min(dead, scheduled - cancelled - lost)
        pending = 0
        if start_ms + self._span.window_ms >= self._span.end_ms:
            pending = (scheduled - cancelled - lost - dead) // 3
        fired = scheduled - cancelled - lost - dead - pending
        median = 90.0 if hurt else random.uniform(1.0, 2.4) + 0.1 * number
        counts = self._lateness(fired, median, 1.1 if hurt else 0.75)
        key = self._key(start_ms)
        self._keep(key, "lateness_ms", "", topic, counts)
        self._offend_on_time(key, topic, hurt=hurt, lost=lost)
        self._follow(key, topic, number, fired + pending, pending)
        return key | {
            "topic": topic,
            "scheduled": scheduled,
            "fired": fired,
            "cancelled": cancelled,
            "dead": dead,
            "pending": pending,
            "lost": lost,
            "rescheduled": int(scheduled * 0.03),
            "early": 1 if hurt and start_ms % 4 == 0 else 0,
            "duplicated": 1 if hurt and start_ms % 3 == 0 else 0,
            "fired_anyway": 0,
            "unseen": 0,
            "judged": fired + lost,
            "in_sla": sum(n for value, n in counts.items() if value <= SLA_MS),
            **_percentiles(counts),
            "sla_ms": SLA_MS,
            "sla_share": SLA_SHARE,
        }

    def _lateness(self, count: int, median: float, spread: float) -> dict[int, int]:
        """So many values around a median, as a few clusters of equal ones."""
        counts: dict[int, int] = {}
        steps = min(count, 24)
        for step in range(steps):
            share = (step + 0.5) / steps
            deviation = _normal(share) * spread + self._random.gauss(0, 0.05)
            value = round(median * math.exp(deviation))
            here = count // steps + (1 if step < count % steps else 0)
            counts[value] = counts.get(value, 0) + here
        if count > 100 and self._random.random() < 0.2:  # somebody waited for a disk
            top = self._random.randint(30, 70)
            counts[top] = counts.get(top, 0) + 1
            first = max(counts, key=lambda value: counts[value])
            counts[first] -= 1
        return counts

    def _keep(
        self, key: Row, measure: str, group: str, topic: str, counts: dict[int, int]
    ) -> None:
        merged: dict[tuple[int, int, int], int] = {}
        for value, count in counts.items():
            bucket = bucket_of(value) if measure != "checks" else (value, value, value)
            merged[bucket] = merged.get(bucket, 0) + count
        for (number, lower, upper), count in merged.items():
            place = {"bucket": number, "lower": lower, "upper": upper, "count": count}
            name = {"measure": measure, "producer_group": group, "topic": topic}
            self._histograms.append(key | name | place)

    def _total(self, start_ms: int, rows: list[Row]) -> Row:
        key = self._key(start_ms)
        counted = {
            name: sum(row[name] for row in rows)
            for name in rows[0]
            if name not in key
            and name != "topic"
            and not name.startswith(("lateness", "sla"))
        }
        merged: dict[tuple[int, int, int], int] = {}
        for row in self._of_window(start_ms, "lateness_ms"):
            bucket = row["bucket"], row["lower"], row["upper"]
            merged[bucket] = merged.get(bucket, 0) + row["count"]
        for (number, lower, upper), count in merged.items():
            name = {"measure": "lateness_ms", "producer_group": "", "topic": ALL_TOPICS}
            place = {"bucket": number, "lower": lower, "upper": upper, "count": count}
            self._histograms.append(key | name | place)
        values = {upper: count for (_, _, upper), count in sorted(merged.items())}
        figures = _percentiles(values)
        sla = {"sla_ms": None, "sla_share": None}
        return key | {"topic": ALL_TOPICS} | counted | figures | sla

    def _of_window(self, start_ms: int, measure: str) -> list[Row]:
        found: list[Row] = []
        for row in reversed(self._histograms):
            if row["window_start_ms"] != start_ms:
                break
            if row["measure"] == measure:
                found.append(row)
        return found

    def _offend_on_time(self, key: Row, topic: str, *, hurt: bool, lost: int) -> None:
        if not hurt:
            return
        start_ms = key["window_start_ms"]
        for place in range(1, lost + 1):
            due_ms = start_ms + self._random.randrange(self._span.window_ms)
            self._offend(key, "on_time", "lost", "", topic, place, due_ms, None)
        for place in range(1, 6):
            due_ms = start_ms + self._random.randrange(self._span.window_ms)
            late_ms = int(2600 / place + self._random.uniform(0, 40))
            self._offend(key, "on_time", "late", "", topic, place, due_ms, late_ms)
        if start_ms % 4 == 0:
            due_ms = start_ms + 1000
            self._offend(key, "on_time", "early", "", topic, 1, due_ms, -12)
        if start_ms % 3 == 0:
            due_ms = start_ms + 2000
            self._offend(key, "on_time", "duplicated", "", topic, 1, due_ms, 3)

    def _offend(
        self,
        key: Row,
        audit: str,
        reason: str,
        group: str,
        topic: str,
        place: int,
        due_ms: int,
        late_ms: int | None,
    ) -> None:
        born_ms = due_ms - 1_800_000
        happened: list[Row] = [
            {"at": born_ms + 1, "what": "schedule", "due_ms": due_ms - 60_000},
            {"at": born_ms + 90_500, "what": "reschedule", "due_ms": due_ms},
        ]
        if late_ms is not None:
            fired = {"at": due_ms + late_ms, "what": "fired"}
            happened += [fired, {"at": due_ms + late_ms, "what": "delivered"}]
            if reason == "duplicated":
                happened.append({"at": due_ms + late_ms + 41, "what": "delivered"})
        if audit == "transactions":
            happened = [
                {"at": born_ms, "what": "transaction", "message_count": 2},
                {"at": born_ms, "what": "half", "topic": topic},
                *(
                    {"at": born_ms + 6_000 + 30_000 * n, "what": "check", "check": n}
                    for n in range(1, 16)
                ),
                {"at": born_ms + 486_000, "what": "parked", "check": 15},
            ]
        self._offenders.append(
            key
            | {
                "audit": audit,
                "reason": reason,
                "group_name": group,
                "topic": ALL_TOPICS if audit == "transactions" else topic,
                "place": place,
                "event_id": self._id(born_ms),
                "due_ms": due_ms if audit == "on_time" else None,
                "stored_ms": None if late_ms is None else due_ms + late_ms,
                "lateness_ms": late_ms,
                "timeline": json.dumps(happened, separators=(",", ":")),
            }
        )

    def _id(self, born_ms: int) -> str:
        tail = self._random.getrandbits(80) & ~(0xF << 76) | 0x7 << 76
        return str(UUID(int=born_ms << 80 | tail & ~(0x3 << 62) | 0x2 << 62))

    def _follow(
        self, key: Row, topic: str, number: int, published: int, pending: int
    ) -> None:
        stored = published - pending
        of_topic = {
            "published": published,
            "stored": stored,
            "cancelled": 0,
            "pending": pending,
            "dead": 0,
            "lost": 0,
            "duplicated": 0,
            "unpublished": 0,
        }
        nobody = {"consumed": 0, "waiting": 0, "dead_lettered": 0}
        times: Row = {"consume_p50_ms": None, "consume_p99_ms": None}
        times["consume_max_ms"] = None
        row = key | {"topic": topic} | of_topic
        self._end_to_end.append(row | {"consumer_group": "*"} | nobody | times)
        for group in ("mailer", "ledger")[: 1 + number % 2]:
            waiting = stored // 5 if key["window_start_ms"] > END_MS - 1_800_000 else 0
            figures = {"consumed": stored - waiting, "waiting": waiting}
            figures["dead_lettered"] = 1 if self._random.random() < 0.01 else 0
            times = {
                "consume_p50_ms": self._random.uniform(4, 9),
                "consume_p99_ms": self._random.uniform(40, 90),
                "consume_max_ms": self._random.uniform(100, 900),
            }
            self._end_to_end.append(row | {"consumer_group": group} | figures | times)

    def end_to_end(self) -> Iterator[Row]:
        return iter(self._end_to_end)

    def transactions(self) -> Iterator[Row]:
        for start_ms in self._span.starts():
            for number, group in enumerate(GROUPS):
                topic = self._topics[min(number, len(self._topics) - 1)]
                row = self._transaction(start_ms, group, topic, number)
                yield row
                yield row | {"topic": ALL_TOPICS}

    def _transaction(self, start_ms: int, group: str, topic: str, number: int) -> Row:
        random = self._random
        hurt = self._span.is_bad(start_ms) and number == 1
        half = self._load(start_ms, 420 / (1 + number))
        checked = int(half * (random.uniform(0.12, 0.2) if hurt else 0.004))
        parked = min(checked, random.randint(0, 2)) if hurt else 0
        is_last = start_ms + self._span.window_ms >= self._span.end_ms
        open_ = half // 20 if is_last else 0
        rolled_back = int(half * random.uniform(0.015, 0.03))
        committed = half - rolled_back - open_ - parked
        slow = checked // 4
        key = self._key(start_ms)
        counts = self._lateness(committed + rolled_back - checked + parked, 18, 0.8)
        decided_late = checked - parked
        if decided_late:
            counts[6_400] = decided_late
        checks = {0: half - checked, 1: checked - parked, 15: parked}
        for name in (topic, ALL_TOPICS):
            self._keep(key, "outcome_ms", group, name, counts)
            shown = {number: n for number, n in checks.items() if n}
            self._keep(key, "checks", group, name, shown)
        for place in range(1, parked + 1):
            self._offend(
                key, "transactions", "parked", group, topic, place, start_ms, None
            )
        figures = _percentiles(counts)
        return key | {
            "producer_group": group,
            "topic": topic,
            "half": half,
            "committed": committed,
            "rolled_back": rolled_back,
            "open": open_,
            "parked": parked,
            "difference": 0,
            "unbalanced": 0,
            "messages": half * 2,
            "missing": 0,
            "leaked": 0,
            "duplicated": 0,
            "checked_back": checked,
            "check_backs": checked + parked * 14,
            "second_phase_lost": checked - parked - slow,
            "slow_local": slow,
            "forced": 0,
            "outcome_p50_ms": figures["lateness_p50_ms"],
            "outcome_p95_ms": figures["lateness_p95_ms"],
            "outcome_p99_ms": figures["lateness_p99_ms"],
            "outcome_max_ms": figures["lateness_max_ms"],
        }

    def histograms(self) -> Iterator[Row]:
        return iter(self._histograms)

    def offenders(self) -> Iterator[Row]:
        return iter(self._offenders)

    def run(self) -> Row:
        span = self._span
        return {
            "run_id": self._id(span.end_ms),
            "source": BATCH,
            "read_from": "parquet",
            "store_id": "made-up",
            "window_ms": span.window_ms,
            "from_ms": span.end_ms - span.windows * span.window_ms,
            "to_ms": span.end_ms,
            "grace_ms": 10_000,
            "horizon_ms": span.end_ms - 4_000,
            "horizon_position": 81_200_331,
            "events": 4_211_870,
            "started_ms": span.end_ms + 1_000,
            "finished_ms": span.end_ms + 24_000,
            "details": "",
            "gaps": json.dumps(["segment 00000000001073741824 has 2 damaged frames"]),
        }


def _percentiles(counts: dict[int, int]) -> Row:
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
    total = sum(counts.values())
    found: Row = {}
    for name, share in shares.items():
        passed = 0
        found[f"lateness_{name}_ms"] = None
        for value in sorted(counts):
            passed += counts[value]
            if total and passed >= share * total:
                found[f"lateness_{name}_ms"] = float(value)
                break
    return found


def _normal(share: float) -> float:
    """The quantile of the logistic curve, near enough to the normal one."""
    return math.log(share / (1 - share)) / 1.702


def main() -> None:
    """Fill a database to look at."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("url")
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--topics", type=int, default=4)
    given = parser.parse_args()
    write(given.url, Span(windows=288 * given.days, topics=given.topics))


if __name__ == "__main__":
    main()

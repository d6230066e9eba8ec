"""Delayed messages: what came of each timer, and how late.

    events ──> timer_states ──> timer_rows ──> on_time_windows      by window and topic
                                          └──> lateness_histogram

    scheduled = fired + cancelled + dead + pending + lost

A timer belongs to the window of its due time, the last one it was given (not the one
at which a refused message is tried again). *Fired* is a timer whose message is in its
queue, whatever else is said of it. Duplicates are found by id, never by count.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .audited_kinds import SETS_DUE, TIMER_KINDS
from .count_columns import ON_TIME_COUNTS
from .counting import count_if, max_if, min_if, one_if, sum_of
from .histogram import bucket_column
from .result_tables import ALL_TOPICS
from .sla import SlaRules, within_column
from .windows import Period, window_start, within

QUANTILES = (0.5, 0.95, 0.99, 0.999)

STATE_COLUMNS = (
    "event_id",
    "topic",
    "due_ms",
    "stored_ms",  # when its message was stored first
    "lateness_ms",
    "state",  # fired, cancelled, dead, or open: pending or lost, as the time is
    "is_rescheduled",
    "is_early",
    "is_duplicated",
    "is_fired_anyway",
    "is_unseen",
    "is_hollow",  # a timer says that it fired, and there is no message
    "failures",
)
QUANTILE_COLUMNS = (
    "lateness_p50_ms",
    "lateness_p95_ms",
    "lateness_p99_ms",
    "lateness_p999_ms",
)
WINDOW_COLUMNS = (
    "window_start_ms",
    "topic",
    *ON_TIME_COUNTS,
    *QUANTILE_COLUMNS,
    "lateness_max_ms",
)


def timer_states(events: DataFrame) -> DataFrame:
    """What became of each timer."""
    rows = events.where(F.col("kind").isin(*TIMER_KINDS)).select(
        "event_id",
        "kind",
        "position",
        "stored_ms",
        "due_ms",
        F.when(F.col("topic_id") > 0, F.col("topic_id")).alias("topic_id"),
    )
    kind = F.col("kind")
    is_given = kind.isin("schedule", "replace")
    # Most ids have few rows: adding them up before the shuffle would gain nothing.
    sums = (
        rows.repartition("event_id")
        .groupBy("event_id")
        .agg(
            F.max("topic_id").alias("topic_id"),
            max_if(is_given, "position").alias("given_at"),
            F.max_by("due_ms", F.when(kind.isin(*SETS_DUE), F.col("position"))).alias(
                "due_told"
            ),
            count_if(kind.isin("reschedule", "replace")).alias("changes"),
            min_if(kind == "cancel", "position").alias("cancelled_at"),
            count_if(kind == "fired").alias("fired_rows"),
            count_if(kind == "delivered").alias("deliveries"),
            min_if(kind == "delivered", "position").alias("delivered_at"),
            min_if(kind == "delivered", "stored_ms").alias("stored_ms"),
            min_if(kind == "delivered", "due_ms").alias("due_delivered"),
            min_if(kind == "fired", "due_ms").alias("due_fired"),
            max_if(kind == "dead", "position").alias("dead_at"),
            max_if(kind == "redriven", "position").alias("redriven_at"),
            count_if(kind.isin("failed", "dead")).alias("failures"),
        )
    )
    named = sums.join(F.broadcast(topic_names(events)), on="topic_id", how="left")
    return _with_states(named)


def topic_names(events: DataFrame) -> DataFrame:
    """Each topic's number and name, once."""
    named = events.where(F.col("topic") != "").select("topic_id", "topic")
    return named.groupBy("topic_id").agg(F.max("topic").alias("topic"))


def _with_states(sums: DataFrame) -> DataFrame:
    due_ms = F.coalesce("due_told", "due_delivered", "due_fired")
    lateness = F.col("stored_ms") - due_ms
    is_fired = F.col("deliveries") > 0
    is_cancelled = F.col("cancelled_at").isNotNull()
    is_dead = F.col("dead_at") > F.coalesce("redriven_at", F.lit(-1))
    has_fired_row = F.col("fired_rows") > 0
    # An occurrence of a recurring schedule is only delivered: nobody scheduled it.
    is_named = has_fired_row | is_cancelled | (F.col("changes") + F.col("failures") > 0)
    told = sums.where(due_ms.isNotNull()).select(
        "event_id",
        F.coalesce("topic", F.lit("")).alias("topic"),
        due_ms.alias("due_ms"),
        "stored_ms",
        lateness.alias("lateness_ms"),
        F.when(is_fired, F.lit("fired"))
        .when(is_cancelled, F.lit("cancelled"))
        .when(is_dead, F.lit("dead"))
        .otherwise(F.lit("open"))
        .alias("state"),
        # A REPLACE that names a new timer comes as its SCHEDULE.
        (F.col("changes") > 0).alias("is_rescheduled"),
        F.coalesce(lateness < 0, F.lit(False)).alias("is_early"),
        (F.col("deliveries") > 1).alias("is_duplicated"),
        F.coalesce(F.col("delivered_at") > F.col("cancelled_at"), F.lit(False)).alias(
            "is_fired_anyway"
        ),
        (F.col("given_at").isNull() & is_named).alias("is_unseen"),
        (~is_fired & has_fired_row).alias("is_hollow"),
        "failures",
    )
    return told.select(*STATE_COLUMNS)


def timer_rows(states: DataFrame, period: Period, rules: SlaRules) -> DataFrame:
    """Each timer that was due in the period, with its window, once for its topic and
    once for all topics."""
    due = F.col("due_ms")
    is_overdue = F.col("is_hollow") | (due < period.settled_ms)
    state = F.when(F.col("state") != "open", F.col("state")).otherwise(
        F.when(is_overdue, F.lit("lost")).otherwise(F.lit("pending"))
    )
    in_sla = (F.col("lateness_ms") >= 0) & (
        F.col("lateness_ms") <= within_column(F.col("topic"), rules)
    )
    rows = states.where(within(due, period)).select(
        *(name for name in STATE_COLUMNS if name not in {"topic", "state"}),
        state.alias("state"),
        F.coalesce(in_sla, F.lit(False)).alias("is_in_sla"),
        window_start(due, period.window_ms).alias("window_start_ms"),
        F.explode(F.array("topic", F.lit(ALL_TOPICS))).alias("topic"),
    )
    return rows


def on_time_windows(rows: DataFrame) -> DataFrame:
    """The books by window and topic, from `timer_rows`."""
    shares = F.array(*(F.lit(share) for share in QUANTILES))
    found = rows.groupBy("window_start_ms", "topic").agg(
        *(sum_of(amount).alias(name) for name, amount in amounts().items()),
        F.percentile("lateness_ms", shares).alias("quantiles"),
        F.max("lateness_ms").cast("double").alias("lateness_max_ms"),
    )
    for at, name in enumerate(QUANTILE_COLUMNS):
        found = found.withColumn(name, F.col("quantiles")[at])
    return found.select(*WINDOW_COLUMNS)


def amounts() -> dict[str, Column]:
    """What each of `timer_rows` adds to the counts of its window."""
    state = F.col("state")
    conditions = {
        "scheduled": F.lit(True),
        "rescheduled": F.col("is_rescheduled"),
        "early": F.col("is_early"),
        "duplicated": F.col("is_duplicated"),
        "fired_anyway": F.col("is_fired_anyway"),
        "unseen": F.col("is_unseen"),
        "judged": state.isin("fired", "lost"),
        "in_sla": F.col("is_in_sla"),
    }
    for name in ("fired", "cancelled", "dead", "pending", "lost"):
        conditions[name] = state == name
    return {name: one_if(condition) for name, condition in conditions.items()}


def lateness_histogram(rows: DataFrame) -> DataFrame:
    """How many messages were how late, by window and topic: columns `bucket`, `count`
    beside those two."""
    late = rows.where(F.col("lateness_ms").isNotNull())
    found = late.groupBy(
        "window_start_ms", "topic", bucket_column(F.col("lateness_ms")).alias("bucket")
    ).agg(F.count(F.lit(1)).alias("count"))
    return found.select("window_start_ms", "topic", "bucket", "count")

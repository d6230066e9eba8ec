"""The worst of each window by id, with what happened to them.

    transaction rows ─┐
    timer rows ───────┼──> candidates ──> worst ──> with_timelines
    message states ───┘

At most PLACES of each window, topic, group and reason, and at most REASON_MAX of each
reason in all. Whole lists are in the id-level tables.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .result_tables import ALL_TOPICS
from .transaction_audit import transaction_key
from .windows import Period, window_start, within

PLACES = 10
REASON_MAX = 2_000
TIMELINE_MAX = 40  # entries; a transaction may have a thousand messages

KEY_COLUMNS = ("window_start_ms", "audit", "reason", "group_name", "topic")
CANDIDATE_COLUMNS = (
    *KEY_COLUMNS,
    "event_id",
    "due_ms",
    "stored_ms",
    "lateness_ms",
    "badness",
)
OFFENDER_COLUMNS = (
    *KEY_COLUMNS,
    "place",
    "event_id",
    "due_ms",
    "stored_ms",
    "lateness_ms",
    "timeline",
)
TOLD = ("topic", "group", "due_ms", "check", "outcome", "reason")  # beside at and what


def timer_candidates(rows: DataFrame) -> DataFrame:
    """What is wrong with timers, from `on_time_audit.timer_rows`: one row a reason."""
    lateness = F.col("lateness_ms")
    is_late = (F.col("state") == "fired") & ~F.col("is_in_sla") & (lateness > 0)
    reasons = [
        _reason("lost", F.col("state") == "lost", -F.col("due_ms")),
        _reason("dead", F.col("state") == "dead", -F.col("due_ms")),
        _reason("early", F.col("is_early"), -lateness),
        _reason("duplicated", F.col("is_duplicated"), lateness),
        _reason("fired_anyway", F.col("is_fired_anyway"), lateness),
        _reason("late", is_late, lateness),
    ]
    told = rows.where(F.col("topic") != ALL_TOPICS).select(
        "window_start_ms",
        F.lit("on_time").alias("audit"),
        F.lit("").alias("group_name"),
        "topic",
        "event_id",
        "due_ms",
        "stored_ms",
        "lateness_ms",
        F.explode(F.array_compact(F.array(*reasons))).alias("why"),
    )
    return _candidates(told)


def transaction_candidates(rows: DataFrame, period: Period) -> DataFrame:
    """What is wrong with transactions, from `transaction_audit.transaction_rows`; each
    counts once, under all topics."""
    is_committed = F.col("state") == "committed"
    age = period.horizon_ms - F.col("begun_ms")
    reasons = [
        _reason("unbalanced", F.col("is_unbalanced"), age),
        _reason("missing", is_committed & (F.col("missing") > 0), F.col("missing")),
        _reason("leaked", ~is_committed & (F.col("released") > 0), F.col("released")),
        _reason("duplicated", F.col("duplicated") > 0, F.col("duplicated")),
        _reason("parked", F.col("state") == "parked", age),
        _reason("open", F.col("state") == "open", age),
        _reason(
            "second_phase_lost", F.col("is_second_phase_lost"), F.col("outcome_ms")
        ),
        _reason("slow_local", F.col("is_slow_local"), F.col("outcome_ms")),
    ]
    begun = F.col("begun_ms")
    told = rows.where((F.col("topic") == ALL_TOPICS) & within(begun, period)).select(
        window_start(begun, period.window_ms).alias("window_start_ms"),
        F.lit("transactions").alias("audit"),
        F.col("producer_group").alias("group_name"),
        "topic",
        F.col("transaction_id").alias("event_id"),
        F.lit(None).cast("bigint").alias("due_ms"),
        F.col("ended_ms").alias("stored_ms"),
        F.col("outcome_ms").alias("lateness_ms"),
        F.explode(F.array_compact(F.array(*reasons))).alias("why"),
    )
    return _candidates(told)


def message_candidates(states: DataFrame, period: Period) -> DataFrame:
    """What is wrong with messages, from `end_to_end_audit.message_states`."""
    age = period.horizon_ms - F.col("meant_ms")
    reasons = [
        _reason("lost", F.col("state") == "lost", age),
        _reason("duplicated", F.col("is_duplicated"), age),
        _reason("unpublished", F.col("is_unpublished"), age),
    ]
    told = states.select(
        window_start(F.col("meant_ms"), period.window_ms).alias("window_start_ms"),
        F.lit("end_to_end").alias("audit"),
        F.lit("").alias("group_name"),
        "topic",
        "event_id",
        F.col("meant_ms").alias("due_ms"),
        F.lit(None).cast("bigint").alias("stored_ms"),
        F.lit(None).cast("bigint").alias("lateness_ms"),
        F.explode(F.array_compact(F.array(*reasons))).alias("why"),
    )
    return _candidates(told)


def worst(candidates: DataFrame) -> DataFrame:
    """The worst of each window, topic, group and reason, with their places."""
    by_badness = [F.col("badness").desc_nulls_last(), F.col("event_id").asc()]
    in_window = Window.partitionBy(*KEY_COLUMNS).orderBy(*by_badness)
    in_all = Window.partitionBy("audit", "reason").orderBy(*by_badness)
    return (
        candidates.withColumn("place", F.row_number().over(in_window))
        .where(F.col("place") <= PLACES)
        .withColumn("place_of_all", F.row_number().over(in_all))
        .where(F.col("place_of_all") <= REASON_MAX)
        .select(*OFFENDER_COLUMNS[:-1])
    )


def with_timelines(offenders: DataFrame, events: DataFrame) -> DataFrame:
    """The same with the column `timeline`: a JSON array of all that the log tells of
    the id, in the order of the log."""
    told = F.struct(
        F.col("stored_ms").alias("at"),
        F.col("kind").alias("what"),
        *(F.col(name) for name in TOLD),
    )
    wanted = offenders.select("audit", "event_id").distinct()
    of_transactions = _timelines(
        events, wanted.where("audit = 'transactions'"), transaction_key(), told
    )
    of_messages = _timelines(
        events, wanted.where("audit <> 'transactions'"), F.col("event_id"), told
    )
    found = offenders.join(
        of_transactions.unionByName(of_messages), on=["audit", "event_id"], how="left"
    )
    return found.withColumn("timeline", F.coalesce("timeline", F.lit("[]"))).select(
        *OFFENDER_COLUMNS
    )


def _timelines(
    events: DataFrame, wanted: DataFrame, key: Column, told: Column
) -> DataFrame:
    places = ("position", "number")
    rows = events.where(F.col("event_id").isNotNull()).select(
        key.alias("key"), *places, told.alias("it")
    )
    met = rows.join(
        F.broadcast(wanted.withColumnRenamed("event_id", "key")), on="key", how="inner"
    )
    line = F.array_sort(F.collect_list(F.struct(*places, "it")))
    entries = F.transform(F.slice(line, 1, TIMELINE_MAX), lambda entry: entry["it"])
    found = met.groupBy("audit", "key").agg(F.to_json(entries).alias("timeline"))
    return found.withColumnRenamed("key", "event_id")


def _reason(name: str, condition: Column, badness: Column) -> Column:
    told = F.struct(
        F.lit(name).alias("reason"), badness.cast("bigint").alias("badness")
    )
    return F.when(condition, told)


def _candidates(told: DataFrame) -> DataFrame:
    columns: Sequence[str | Column] = [
        F.col("why.reason")
        if name == "reason"
        else F.col("why.badness")
        if name == "badness"
        else F.col(name)
        for name in CANDIDATE_COLUMNS
    ]
    return told.select(*columns)

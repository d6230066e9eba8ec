"""From publishing to consumption, by id: published = stored = consumed.

    events ──> message_states    one row a message: whether it is in its queue
           ──> settled           one row a message and consumer group that is done
                   └──> end_to_end_windows   by window, consumer group and topic

    published = stored + cancelled + pending + dead + lost
    stored    = consumed + waiting                              (for each group)

A message belongs to the window in which it was meant to be there: its due time, or the
time at which it was accepted. Messages of a transaction are published by its commit.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .audited_kinds import SETS_DUE
from .counting import count_if, max_if, min_if
from .event_schema import COMMITTED
from .on_time_audit import topic_names
from .result_tables import ALL_TOPICS
from .transaction_audit import transaction_key
from .windows import Period, window_start, within

STORING = ("message", "delivered")
PUBLISHING = ("message", "schedule", "replace", "occurred")
KINDS = (
    *STORING, *SETS_DUE, "occurred", "cancel", "dead", "half",
)  # fmt: skip
NO_GROUP = "*"
QUANTILES = (0.5, 0.99)

STATE_COLUMNS = (
    "event_id",
    "topic",
    "meant_ms",
    "state",  # stored, cancelled, dead, pending or lost
    "is_duplicated",
    "is_unpublished",
)
COUNT_COLUMNS = (
    "published",
    "stored",
    "cancelled",
    "pending",
    "dead",
    "lost",
    "duplicated",
    "unpublished",
)
GROUP_COLUMNS = ("consumed", "waiting", "dead_lettered")
TIME_COLUMNS = ("consume_p50_ms", "consume_p99_ms", "consume_max_ms")
WINDOW_COLUMNS = (
    "window_start_ms",
    "consumer_group",
    "topic",
    *COUNT_COLUMNS,
    *GROUP_COLUMNS,
    *TIME_COLUMNS,
)


def message_states(events: DataFrame, period: Period) -> DataFrame:
    """Where each message is that somebody published and that is meant for the period.

    Half messages count if their transaction has been committed.
    """
    kind = F.col("kind")
    rows = events.where(kind.isin(*KINDS)).select(
        "event_id",
        "kind",
        "position",
        "due_ms",
        F.coalesce("born_ms", "stored_ms").alias("born_ms"),
        F.when(F.col("topic_id") > 0, F.col("topic_id")).alias("topic_id"),
    )
    sums = (
        rows.repartition("event_id")
        .groupBy("event_id")
        .agg(
            F.max("topic_id").alias("topic_id"),
            F.max_by("due_ms", F.when(kind.isin(*SETS_DUE), F.col("position"))).alias(
                "due_told"
            ),
            min_if(kind == "delivered", "due_ms").alias("due_delivered"),
            F.min("born_ms").alias("born_ms"),
            count_if(kind.isin(*STORING)).alias("copies"),
            count_if(kind.isin(*PUBLISHING)).alias("publishes"),
            count_if(kind == "half").alias("halves"),
            max_if(kind == "cancel", "position").alias("cancelled_at"),
            max_if(kind == "dead", "position").alias("dead_at"),
            max_if(kind == "redriven", "position").alias("redriven_at"),
        )
    )
    # What a transaction holds back was never published, unless it was committed.
    is_held = (F.col("halves") > 0) & (F.col("copies") + F.col("publishes") == 0)
    missing = sums.where(is_held).join(
        committed_ids(events), on=committed_join(), how="left_semi"
    )
    there = sums.where(~is_held).unionByName(missing)
    named = there.join(F.broadcast(topic_names(events)), on="topic_id", how="left")
    return _with_states(named, period)


def committed_ids(events: DataFrame) -> DataFrame:
    """The transactions with a commit."""
    is_commit = (F.col("kind") == "op") & (F.col("outcome") == COMMITTED)
    key = transaction_key().alias("committed_id")
    return events.where(is_commit).select(key).distinct()


def committed_join() -> Column:
    prefix = F.substring(F.col("event_id"), 1, 32)
    return F.col("committed_id") == F.concat(prefix, F.lit("0000"))


def _with_states(sums: DataFrame, period: Period) -> DataFrame:
    meant = F.coalesce("due_told", "due_delivered", "born_ms")
    is_timed = F.coalesce("due_told", "due_delivered").isNotNull()
    is_overdue = ~is_timed | (meant < period.settled_ms)
    is_dead = F.col("dead_at") > F.coalesce("redriven_at", F.lit(-1))
    is_there = (F.col("copies") + F.col("publishes") + F.col("halves")) > 0
    told = sums.where(is_there & within(meant, period)).select(
        "event_id",
        F.coalesce("topic", F.lit("")).alias("topic"),
        meant.alias("meant_ms"),
        F.when(F.col("copies") > 0, F.lit("stored"))
        .when(F.col("cancelled_at").isNotNull(), F.lit("cancelled"))
        .when(is_dead, F.lit("dead"))
        .when(is_overdue, F.lit("lost"))
        .otherwise(F.lit("pending"))
        .alias("state"),
        (F.col("copies") > 1).alias("is_duplicated"),
        (F.col("publishes") == 0).alias("is_unpublished"),
    )
    return told.select(*STATE_COLUMNS)


def settled(events: DataFrame) -> DataFrame:
    """Which group is done with which message, how long after it was stored, and
    whether it went to the dead letters: then that is all that the log tells."""
    place = ("topic_id", "queue", "offset")
    stored = events.where(F.col("kind").isin(*STORING)).select(
        *place, "event_id", F.col("stored_ms").alias("was_stored_ms")
    )
    ends = (F.col("group").alias("consumer_group"), "stored_ms")
    done = events.where(F.col("kind") == "consumed").select(*place, *ends)
    dead = events.where(F.col("kind") == "dead_letter").select("event_id", *ends)
    columns = ("event_id", "consumer_group", "stored_ms", "was_stored_ms")
    by_place = stored.join(done, on=list(place), how="inner").select(*columns)
    by_id = stored.join(dead, on="event_id", how="inner").select(*columns)
    return (
        by_place.withColumn("is_dead_letter", F.lit(False))
        .unionByName(by_id.withColumn("is_dead_letter", F.lit(True)))
        .groupBy("event_id", "consumer_group")
        .agg(
            F.min(F.col("stored_ms") - F.col("was_stored_ms")).alias("consume_ms"),
            F.bool_or("is_dead_letter").alias("is_dead_letter"),
        )
    )


def end_to_end_windows(
    states: DataFrame, settled_rows: DataFrame, period: Period
) -> DataFrame:
    """The books by window, consumer group and topic.

    All topics together have no groups: each takes topics of its own.
    """
    start = window_start(F.col("meant_ms"), period.window_ms)
    rows = states.withColumn("window_start_ms", start)
    topics = (
        rows.withColumn("topic", F.explode(F.array("topic", F.lit(ALL_TOPICS))))
        .groupBy("window_start_ms", "topic")
        .agg(*(sums.alias(name) for name, sums in window_counts().items()))
    )
    shares = F.array(*(F.lit(share) for share in QUANTILES))
    groups = (
        rows.join(settled_rows, on="event_id", how="inner")
        .groupBy("window_start_ms", "topic", "consumer_group")
        .agg(
            F.count(F.lit(1)).alias("consumed"),
            count_if(F.col("is_dead_letter")).alias("dead_lettered"),
            F.percentile("consume_ms", shares).alias("quantiles"),
            F.max("consume_ms").cast("double").alias("consume_max_ms"),
        )
    )
    # A group that takes a topic also is owed the windows of which it has nothing yet.
    pairs = groups.select("topic", "consumer_group").distinct()
    owed = topics.join(F.broadcast(pairs), on="topic", how="inner")
    by_group = owed.join(
        groups, on=["window_start_ms", "topic", "consumer_group"], how="left"
    ).fillna(0, ["consumed", "dead_lettered"])
    alone = topics.withColumn("consumer_group", F.lit(NO_GROUP))
    found = by_group.withColumn("waiting", F.col("stored") - F.col("consumed"))
    for at, name in enumerate(TIME_COLUMNS[:-1]):
        found = found.withColumn(name, F.col("quantiles")[at])
    for name in GROUP_COLUMNS:
        alone = alone.withColumn(name, F.lit(0).cast("bigint"))
    for name in TIME_COLUMNS:
        alone = alone.withColumn(name, F.lit(None).cast("double"))
    return found.select(*WINDOW_COLUMNS).unionByName(alone.select(*WINDOW_COLUMNS))


def window_counts() -> dict[str, Column]:
    """What is counted over messages; all of it adds up."""
    state = F.col("state")
    counts = {
        "published": F.count(F.lit(1)),
        "duplicated": count_if(F.col("is_duplicated")),
        "unpublished": count_if(F.col("is_unpublished") & (state == "stored")),
    }
    for name in ("stored", "cancelled", "pending", "dead", "lost"):
        counts[name] = count_if(state == name)
    return counts

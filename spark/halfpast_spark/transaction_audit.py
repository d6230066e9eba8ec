"""The books of the transactions: half = committed + rolled back + open + parked.

    events ──> transaction_states    one row a transaction: what became of it
           ──> transaction_topics    one row a transaction and topic: its messages
                     └─────> transaction_windows    by window, producer group, topic

A transaction belongs to the window in which it began (its TRANSACTION record became
durable); one whose beginning is not in the data, to the one that its id tells.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .audited_kinds import HEAD_KINDS, MESSAGE_KINDS
from .count_columns import TRANSACTION_COUNTS
from .counting import count_if, max_if, min_if, one_if, sum_of
from .event_schema import COMMITTED, ROLLED_BACK
from .histogram import bucket_column
from .result_tables import ALL_TOPICS
from .windows import Period, window_start, within

ID_PREFIX_LENGTH = 32  # of the UUID text: all but the last two bytes
QUANTILES = (0.5, 0.95, 0.99)

STATE_COLUMNS = (
    "transaction_id",
    "producer_group",
    "begun_ms",
    "ended_ms",
    "outcome_ms",
    "state",  # committed, rolled_back, open or parked; null without a beginning
    "is_half",
    "is_committed",
    "is_rolled_back",
    "is_unbalanced",
    "checks",
    "is_second_phase_lost",
    "is_slow_local",
    "is_forced",
)
TOPIC_COLUMNS = (
    "transaction_id", "topic", "messages", "released", "missing", "duplicated",
)  # fmt: skip
WINDOW_COLUMNS = (
    "window_start_ms",
    "producer_group",
    "topic",
    *TRANSACTION_COUNTS,
    "outcome_p50_ms",
    "outcome_p95_ms",
    "outcome_p99_ms",
    "outcome_max_ms",
)
HISTOGRAM_COLUMNS = (
    "measure", "window_start_ms", "producer_group", "topic", "bucket", "count",
)  # fmt: skip


def transaction_key() -> Column:
    """The transaction that an event is of, or would be of if it is of one."""
    prefix = F.substring("event_id", 1, ID_PREFIX_LENGTH)
    return F.coalesce(F.col("transaction_id"), F.concat(prefix, F.lit("0000")))


def id_ms(event_id: Column) -> Column:
    """The time in an id (UUIDv7), in epoch ms."""
    digits = F.concat(F.substring(event_id, 1, 8), F.substring(event_id, 10, 4))
    return F.conv(digits, 16, 10).cast("bigint")


def transaction_states(events: DataFrame) -> DataFrame:
    """What became of each transaction."""
    rows = events.where(F.col("kind").isin(*HEAD_KINDS)).select(
        transaction_key().alias("transaction_id"),
        F.col("group").alias("producer_group"),
        "kind",
        "position",
        "stored_ms",
        "check",
        "from_check",
        "forced",
        "outcome",
    )
    is_op = F.col("kind") == "op"
    committed = is_op & (F.col("outcome") == COMMITTED)
    rolled_back = is_op & (F.col("outcome") == ROLLED_BACK)
    # By its id alone: what is joined to it later is shuffled in the same way.
    rows = rows.repartition("transaction_id")
    sums = rows.groupBy("transaction_id", "producer_group").agg(
        min_if(F.col("kind") == "transaction", "stored_ms").alias("begun"),
        min_if(is_op, "stored_ms").alias("ended_ms"),
        max_if(committed, "position").alias("committed_at"),
        max_if(rolled_back, "position").alias("rolled_back_at"),
        max_if(F.col("kind") == "parked", "position").alias("parked_at"),
        max_if(F.col("kind") == "resumed", "position").alias("resumed_at"),
        count_if(F.col("kind") == "check").alias("check_rows"),
        F.max("check").alias("check_told"),
        F.bool_or(is_op & F.col("from_check")).alias("from_check"),
        F.bool_or(is_op & F.col("forced")).alias("forced"),
    )
    return _with_states(sums)


def _with_states(sums: DataFrame) -> DataFrame:
    is_half = F.col("begun").isNotNull()
    is_committed = F.col("committed_at").isNotNull()
    is_rolled_back = F.col("rolled_back_at").isNotNull()
    has_ended = is_committed | is_rolled_back
    is_parked = F.col("parked_at") > F.coalesce("resumed_at", F.lit(-1))
    # Some may lie in a segment that is gone; what follows tells their number.
    checks = F.greatest("check_rows", F.coalesce("check_told", F.lit(0)))
    begun = F.coalesce("begun", id_ms(F.col("transaction_id")))
    told = sums.select(
        "transaction_id",
        "producer_group",
        begun.alias("begun_ms"),
        "ended_ms",
        F.when(is_half, F.col("ended_ms") - F.col("begun")).alias("outcome_ms"),
        F.when(is_half & is_committed, F.lit(COMMITTED))
        .when(is_half & is_rolled_back, F.lit(ROLLED_BACK))
        .when(is_half & is_parked, F.lit("parked"))
        .when(is_half, F.lit("open"))
        .alias("state"),
        is_half.alias("is_half"),
        is_committed.alias("is_committed"),
        is_rolled_back.alias("is_rolled_back"),
        ((is_committed & is_rolled_back) | (has_ended & ~is_half)).alias(
            "is_unbalanced"
        ),
        checks.alias("checks"),
        (has_ended & F.col("from_check")).alias("is_second_phase_lost"),
        (has_ended & (checks > 0) & ~F.col("from_check") & ~F.col("forced")).alias(
            "is_slow_local"
        ),
        (has_ended & F.col("forced")).alias("is_forced"),
    )
    return told.select(*STATE_COLUMNS)


def transaction_topics(events: DataFrame) -> DataFrame:
    """The messages of each transaction by topic, and all of them under ALL_TOPICS; of
    what is no transaction, nothing.

    A message is *released* if it is in its queue, or waits there for its time.
    """
    rows = events.where(F.col("kind").isin(*MESSAGE_KINDS)).select(
        transaction_key().alias("transaction_id"),
        "event_id",
        "topic",
        (F.col("kind") == "half").alias("is_half"),
    )
    # All that follows is about one transaction: one shuffle does for it.
    message = (
        rows.repartition("transaction_id")
        .groupBy("transaction_id", "event_id", "topic")
        .agg(
            count_if(F.col("is_half")).alias("halves"),
            count_if(~F.col("is_half")).alias("releases"),
        )
    )
    releases = F.col("releases")
    both = F.explode(F.array("topic", F.lit(ALL_TOPICS)))
    topic = (
        message.where(F.col("halves") > 0)
        .select("transaction_id", both.alias("topic"), "releases")
        .groupBy("transaction_id", "topic")
        .agg(
            F.count(F.lit(1)).alias("messages"),
            count_if(releases > 0).alias("released"),
            count_if(releases == 0).alias("missing"),
            count_if(releases > 1).alias("duplicated"),
        )
    )
    return topic.select(*TOPIC_COLUMNS)


def transaction_rows(states: DataFrame, topics: DataFrame) -> DataFrame:
    """Each transaction with each of its topics, and once with all of them."""
    sums = ("messages", "released", "missing", "duplicated")
    # A part of them fits into memory, and long texts take long to sort.
    small = topics.hint("shuffle_hash")
    rows = states.join(small, on="transaction_id", how="left")
    # One whose messages are not in the data has no topic but this one.
    rows = rows.fillna(0, list(sums)).fillna(ALL_TOPICS, ["topic"])
    return rows.select(*STATE_COLUMNS, *TOPIC_COLUMNS[1:])


def transaction_windows(rows: DataFrame, period: Period) -> DataFrame:
    """The books by window, producer group and topic, from `transaction_rows`."""
    began = F.col("begun_ms")
    ended = F.array(*(F.lit(share) for share in QUANTILES))
    found = (
        rows.where(within(began, period))
        .withColumn("window_start_ms", window_start(began, period.window_ms))
        .groupBy("window_start_ms", "producer_group", "topic")
        .agg(
            *(sum_of(amount).alias(name) for name, amount in amounts().items()),
            F.percentile("outcome_ms", ended).alias("quantiles"),
            F.max("outcome_ms").cast("double").alias("outcome_max_ms"),
        )
    )
    for at, name in enumerate(("outcome_p50_ms", "outcome_p95_ms", "outcome_p99_ms")):
        found = found.withColumn(name, F.col("quantiles")[at])
    return with_difference(found).select(*WINDOW_COLUMNS)


def amounts() -> dict[str, Column]:
    """What each of `transaction_rows` adds to the counts of its window."""
    state, checks = F.col("state"), F.col("checks")
    is_committed = state == COMMITTED
    numbers = {
        "messages": F.col("messages"),
        "missing": F.when(is_committed, F.col("missing")),
        "leaked": F.when(~is_committed, F.col("released")),
        "duplicated": F.col("duplicated"),
        "check_backs": checks,
    }
    conditions = {
        "half": F.col("is_half"),
        "committed": F.col("is_committed"),
        "rolled_back": F.col("is_rolled_back"),
        "open": state == "open",
        "parked": state == "parked",
        "unbalanced": F.col("is_unbalanced"),
        "checked_back": checks > 0,
        "second_phase_lost": F.col("is_second_phase_lost"),
        "slow_local": F.col("is_slow_local"),
        "forced": F.col("is_forced"),
    }
    return {**numbers, **{name: one_if(it) for name, it in conditions.items()}}


def with_difference(counted: DataFrame) -> DataFrame:
    """What the books do not explain."""
    explained = sum(
        (F.col(name) for name in ("rolled_back", "open", "parked")), F.col("committed")
    )
    return counted.withColumn("difference", F.col("half") - explained)


def transaction_histograms(rows: DataFrame, period: Period) -> DataFrame:
    """How many transactions took how long, and how many check-backs, by window,
    producer group and topic: `measure` is `outcome_ms` or `checks`."""
    began = F.col("begun_ms")
    values = F.array(
        F.struct(
            F.lit("checks").alias("measure"),
            F.col("checks").cast("int").alias("bucket"),
        ),
        F.struct(
            F.lit("outcome_ms").alias("measure"),
            bucket_column(F.col("outcome_ms")).alias("bucket"),
        ),
    )
    told = (
        rows.where(within(began, period) & F.col("is_half"))
        .withColumn("window_start_ms", window_start(began, period.window_ms))
        .select(
            "window_start_ms", "producer_group", "topic", F.explode(values).alias("it")
        )
        .select("it.measure", "window_start_ms", "producer_group", "topic", "it.bucket")
        .where(F.col("bucket").isNotNull())
    )
    found = told.groupBy(*told.columns).agg(F.count(F.lit(1)).alias("count"))
    return found.select(*HISTOGRAM_COLUMNS)

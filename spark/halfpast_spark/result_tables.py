"""What the audits find, window by window, as tables of the metadata database.

Who reads them needs three rules:

- A *window* begins at `window_start_ms` (UTC) and is `window_ms` long. Each window
  length is a series of its own: never add rows of different lengths.
- The topic `*` stands for all topics together. It is a row of its own because a
  transaction may have messages of several topics, and percentiles do not add up:
  never add `*` to the others.
- `source` is `batch` (the authority: its rows are replaced, all windows of a run in
  one transaction) or `stream` (live counts). Where a window has both, `batch` counts
  if it saw the whole window, else the newer one; `result_rows.py` reads them that way.

Counts add up over windows, and so do histograms; rates are for the reader to divide.
Times are epoch ms. `migrations/` makes these tables; this module says what they are
and needs nothing but SQLAlchemy.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

PREFIX = "halfpast_audit_"
ALL_TOPICS = "*"
BATCH = "batch"
STREAM = "stream"

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def _name(length: int = 255) -> TypeEngine[str]:
    """Names of users' things sort by code point on every database."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def _window() -> tuple[Column[int], Column[int], Column[str], Column[int]]:
    """What every row of a window begins with, and is found by. `horizon_ms`: the row
    is as of this store time; a window that ends later is not complete."""
    return (
        Column("window_ms", BigInteger, primary_key=True, autoincrement=False),
        Column("window_start_ms", BigInteger, primary_key=True, autoincrement=False),
        Column("source", String(8), primary_key=True),
        Column("horizon_ms", BigInteger, nullable=False),
    )


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _maybe(name: str) -> Column[float]:
    """A figure that is NULL where there is nothing to take it from."""
    return Column(name, Double, nullable=True)


# Transactions that began in the window, by producer group and topic. Books:
# half = committed + rolled_back + open + parked + difference; a difference other than
# 0 has its ids in `offenders`, and all of them in the Parquet table of transactions.
transactions = Table(
    f"{PREFIX}transactions",
    metadata,
    *_window(),
    Column("producer_group", _name(), primary_key=True),
    Column("topic", _name(), primary_key=True),
    _count("half"),
    _count("committed"),
    _count("rolled_back"),
    _count("open"),
    _count("parked"),
    _count("difference"),
    _count("unbalanced"),  # ids: two outcomes, or an outcome without a beginning
    _count("messages"),  # half messages
    _count("missing"),  # messages of committed ones that are nowhere
    _count("leaked"),  # messages that are seen without a commit
    _count("duplicated"),  # messages that are released more than once
    _count("checked_back"),  # transactions; check-back rate = checked_back / half
    _count("check_backs"),  # all that were sent
    _count("second_phase_lost"),  # the outcome came from a check-back alone
    _count("slow_local"),  # checked back, but the producer's own outcome came
    _count("forced"),  # an operator decided
    _maybe("outcome_p50_ms"),  # from begun to outcome, both durable
    _maybe("outcome_p95_ms"),
    _maybe("outcome_p99_ms"),
    _maybe("outcome_max_ms"),
)

# Timers (delayed messages) that were due in the window, by their last due time. Books:
# scheduled = fired + cancelled + dead + pending + lost. The others are about some of
# those. SLA attainment = in_sla / judged, to be held against sla_share.
on_time = Table(
    f"{PREFIX}on_time",
    metadata,
    *_window(),
    Column("topic", _name(), primary_key=True),
    _count("scheduled"),
    _count("fired"),
    _count("cancelled"),
    _count("dead"),
    _count("pending"),
    _count("lost"),  # due before the horizon minus grace, and nothing came of it
    _count("rescheduled"),
    _count("early"),
    _count("duplicated"),
    _count("fired_anyway"),  # fired although it had been cancelled before
    _count("unseen"),  # fired or cancelled; scheduled before the data begin
    _count("judged"),  # fired or lost: what the SLA is about
    _count("in_sla"),
    _maybe("lateness_p50_ms"),
    _maybe("lateness_p95_ms"),
    _maybe("lateness_p99_ms"),
    _maybe("lateness_p999_ms"),
    _maybe("lateness_max_ms"),
    _maybe("sla_ms"),  # NULL for `*`, whose topics may differ
    _maybe("sla_share"),
)

# Messages meant to be there in the window (due then, or published then), by topic and
# consumer group; `consumer_group` is `*` for what is true of the topic without any,
# and the only one that the topic `*` has.
# Books: published = stored + cancelled + pending + dead + lost,
#        stored = consumed + waiting (for `*`: both 0).
end_to_end = Table(
    f"{PREFIX}end_to_end",
    metadata,
    *_window(),
    Column("consumer_group", _name(), primary_key=True),
    Column("topic", _name(), primary_key=True),
    _count("published"),
    _count("stored"),
    _count("cancelled"),
    _count("pending"),
    _count("dead"),
    _count("lost"),
    _count("duplicated"),  # ids that are stored more than once
    _count("unpublished"),  # stored, but nobody has published it (or not seen)
    _count("consumed"),
    _count("waiting"),
    _count("dead_lettered"),  # of the consumed ones: given up by the group
    _maybe("consume_p50_ms"),  # from stored to settled
    _maybe("consume_p99_ms"),
    _maybe("consume_max_ms"),
)

# How many values fell into which bucket (`histogram.py`): counts add up over windows.
# `measure`: `lateness_ms` (by topic; producer_group is ``), `outcome_ms` and `checks`
# (by producer group and topic; a bucket of `checks` is the number itself).
# A bucket holds the values from `lower` to `upper`, both of them in it.
histograms = Table(
    f"{PREFIX}histograms",
    metadata,
    *_window(),
    Column("measure", String(16), primary_key=True),
    Column("producer_group", _name(), primary_key=True),
    Column("topic", _name(), primary_key=True),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("lower", BigInteger, nullable=False),
    Column("upper", BigInteger, nullable=False),
    _count("count"),
)

# The worst of each window by id, at most a few dozen a topic, group and reason; the
# whole lists are in Parquet. `audit`: transactions, on_time, end_to_end. `group`: of
# producers or of consumers, or ``. `place`: 1 is the worst. `timeline`: a JSON array of
# {"at": epoch ms, "what": kind of event, ...} in the order of the log.
offenders = Table(
    f"{PREFIX}offenders",
    metadata,
    *_window(),
    Column("audit", String(16), primary_key=True),
    Column("reason", String(24), primary_key=True),
    Column("group_name", _name(), primary_key=True),
    Column("topic", _name(), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("event_id", String(36), nullable=False, index=True),
    Column("due_ms", BigInteger, nullable=True),
    Column("stored_ms", BigInteger, nullable=True),  # when it fired, or ended
    Column("lateness_ms", BigInteger, nullable=True),
    Column("timeline", Text, nullable=False),
)

# One row a run, written with its results. `horizon_ms`: the store time up to which the
# run saw the log; `pending_later`: timers due at or after `to_ms`, which no window of
# it holds; `gaps`: a JSON array of texts, what it could not see.
runs = Table(
    f"{PREFIX}runs",
    metadata,
    Column("run_id", String(36), primary_key=True),
    Column("source", String(8), nullable=False),
    Column("read_from", String(8), nullable=False),  # parquet or log
    Column("store_id", String(64), nullable=False),
    Column("window_ms", BigInteger, nullable=False),
    Column("from_ms", BigInteger, nullable=False),
    Column("to_ms", BigInteger, nullable=False),
    Column("grace_ms", BigInteger, nullable=False),
    Column("horizon_ms", BigInteger, nullable=False),
    Column("horizon_position", BigInteger, nullable=False),
    _count("events"),
    _count("pending_later"),
    Column("started_ms", BigInteger, nullable=False),
    Column("finished_ms", BigInteger, nullable=False, index=True),
    Column("details", Text, nullable=False),  # folder of the id-level tables, or ``
    Column("gaps", Text, nullable=False),
)

# Where each streaming job stands: the guard that makes its results exactly-once. A
# batch is taken once, by number; `query_id` names the checkpoint that counts them.
# `memory_ms`: for how long it remembers an id; `gaps`: as of a run.
streams = Table(
    f"{PREFIX}streams",
    metadata,
    Column("name", _name(), primary_key=True),
    Column("query_id", String(36), nullable=False),
    Column("batch_id", BigInteger, nullable=False),
    Column("window_ms", BigInteger, nullable=False),
    Column("grace_ms", BigInteger, nullable=False),
    Column("memory_ms", BigInteger, nullable=False),
    Column("horizon_ms", BigInteger, nullable=False),
    Column("horizon_position", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("gaps", Text, nullable=False),
)

RESULTS = (transactions, on_time, end_to_end, histograms, offenders)

"""The audits as a stream: live counts, a second or two behind the log.

    log ──> ids with all their events (Spark's state) ──> changes ──> database

The state remembers each id for `memory_ms` after it was made. What lies further apart
is left to the runs in batch, which are the authority.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from .checkpoint import Checkpoint
from .data_source import FORMAT, HalfpastSource
from .errors import AuditError, BadOption
from .event_schema import ddl
from .job_config import GRACE_MS, WINDOW_MS
from .job_errors import BadPeriod, StreamConflict
from .live_deltas import KEPT, changes_of, flat_events, keyed_events
from .live_guard import LiveStream, Seen
from .live_results import LiveResults
from .log_folder import LogFolder
from .on_time_audit import TIMER_KINDS
from .results_database import ResultsDatabase
from .sla import SlaRules
from .transaction_audit import HEAD_KINDS, MESSAGE_KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DAY_MS = 86_400_000
IDLE_S = 1
KINDS = tuple(dict.fromkeys((*HEAD_KINDS, *MESSAGE_KINDS, *TIMER_KINDS, "gap")))
STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """One stream. `checkpoint`: a folder that is the stream's own. `available_now`:
    end when all that is there has been counted."""

    store: str
    database: str
    checkpoint: str
    window_ms: int = WINDOW_MS
    grace_ms: int = GRACE_MS
    memory_ms: int = DAY_MS
    batch_bytes: int = 32 * 1024 * 1024
    rules: SlaRules = field(default_factory=SlaRules)
    available_now: bool = False
    partitions: int = 2
    restart: bool = False

    def __post_init__(self) -> None:
        """Raises BadPeriod."""
        if self.window_ms <= 0 or self.memory_ms <= 0 or self.grace_ms < 0:
            why = "give a window and a memory of more than 0 ms, and no negative grace"
            raise BadPeriod(why)

    @property
    def name(self) -> str:
        """There is one stream for each window length: they would count twice."""
        return f"live-{self.window_ms}"


class StreamJob:
    """A stream that runs until it is stopped, or has come to the end."""

    def __init__(self, spark: "SparkSession", config: StreamConfig) -> None:
        """Raises AuditError, and what the store raises for its folder."""
        if not hasattr(spark, "sparkContext"):
            why = "a stream cannot run through Spark Connect; name the cluster itself"
            raise BadOption("master", "sc://…", why)
        self._spark = spark
        self._config = config
        self._folder = LogFolder(config.store)
        self._database = ResultsDatabase(config.database)
        self._database.check()
        self._live: LiveResults | None = None
        self._started = threading.Event()
        self._failure: AuditError | None = None

    def start(self) -> "StreamingQuery":
        """Raises StreamConflict, ResultsUnavailable."""
        config = self._config
        self._make_ready(Checkpoint(config.checkpoint))
        self._spark.dataSource.register(HalfpastSource)
        for name, value in STATE_SETTINGS.items():
            self._spark.conf.set(name, value)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(config.partitions))
        writer = (
            remembered_ids(self._events(), config.memory_ms)
            .writeStream.queryName(config.name)
            .outputMode("update")
            .option("checkpointLocation", config.checkpoint)
            .foreachBatch(self._take)
        )
        if config.available_now:
            writer = writer.trigger(availableNow=True)
        query = writer.start()
        self._live = LiveResults(self._database, self._stream(query.id))
        self._started.set()
        return query

    def run(
        self,
        is_stopped: Callable[[], bool] = lambda: False,
        tell: Callable[[Seen], None] = lambda _: None,
    ) -> Seen:
        """From the start to the end, or until told to stop; tells how far it came, and
        `tell` is told every second.

        Raises AuditError.
        """
        query = self.start()
        try:
            while not query.awaitTermination(IDLE_S) and not is_stopped():
                tell(self._move_horizon(query))
            return self._move_horizon(query)
        except StreamingQueryException as error:
            raise self._failure or error from error
        finally:
            query.stop()

    def _make_ready(self, checkpoint: Checkpoint) -> None:
        """Checkpoint and database must tell of the same stream: Spark notes a batch
        when the database has it, so that is never behind."""
        if self._config.restart:
            checkpoint.clear()
            LiveResults(self._database, self._stream("")).forget()
            return
        live = LiveResults(self._database, self._stream(checkpoint.query_id))
        if live.seen().batch_id < checkpoint.last_commit:
            why = "its counts are no longer in the database; --restart counts anew"
            raise StreamConflict(self._config.name, why)

    def _stream(self, query_id: str) -> LiveStream:
        config = self._config
        return LiveStream(
            name=config.name,
            query_id=query_id,
            window_ms=config.window_ms,
            grace_ms=config.grace_ms,
            memory_ms=config.memory_ms,
            rules=config.rules,
        )

    def _events(self) -> "DataFrame":
        return (
            self._spark.readStream.format(FORMAT)
            .schema(ddl(KEPT))
            .option("kinds", ",".join(KINDS))
            .option("maxBytesPerTrigger", str(self._config.batch_bytes))
            .load(self._config.store)
        )

    def _take(self, ids: "DataFrame", batch_id: int) -> None:
        """One batch. May be called again with the same one, after a crash."""
        self._started.wait()
        assert self._live is not None
        config = self._config
        try:
            known = self._live.seen()
            # Also for a batch that is in the database: Spark's state needs it too.
            flat = cast(Any, flat_events(ids)).toArrow()
            if batch_id <= known.batch_id:
                return
            changes = changes_of(
                flat,
                before=known.position,
                window_ms=config.window_ms,
                memory_ms=config.memory_ms,
                rules=config.rules,
            )
            self._live.take(batch_id, changes)
        except AuditError as error:
            self._failure = error
            raise

    def _move_horizon(self, query: "StreamingQuery") -> Seen:
        """When all that is there has been counted, time goes on without events, too."""
        assert self._live is not None
        progress = query.lastProgress
        if progress is not None:
            horizon = self._folder.horizon()
            offset = json.loads(progress["sources"][0]["endOffset"] or "{}")
            if offset.get("position", -1) >= horizon.end:
                return self._live.move_horizon(horizon.as_of_ms)
        return self._live.seen()


def remembered_ids(events: "DataFrame", memory_ms: int) -> "DataFrame":
    """Each id with all its events, whenever one more comes: `about`, `id`, `events`."""
    keyed = keyed_events(events).withWatermark("made", f"{memory_ms} milliseconds")
    return keyed.groupBy("made", "about", "id").agg(
        F.collect_list("event").alias("events")
    )

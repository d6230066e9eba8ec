"""The audits as a stream: live counts, a second or so behind the log.

    log ──> packed events (Spark) ──> what became of each id (memory) ──> changes
        ──> database

Spark follows the log, reads it on its workers and notes how far that went. An id is
remembered for `memory_ms` after it was made, here and not in Spark's state: that is
walked through whole with each batch, to find what is to be forgotten. What lies further
apart is left to the runs in batch, which are the authority.
"""

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import StreamingQueryException

from .checkpoint import Checkpoint
from .errors import AuditError, BadOption
from .job_errors import SparkFailed, StreamConflict
from .live_counter import LiveCounter
from .live_events import unpacked
from .live_guard import LiveStream, Seen
from .live_results import LiveResults
from .live_source import FORMAT, LiveSource
from .log_folder import LogFolder
from .results_database import ResultsDatabase
from .retention import prune_afterwards
from .spark_failures import reason_of
from .stream_config import StreamConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

IDLE_S = 1
SETTINGS = {
    # Each batch is one small task: to plan it costs more than to do it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}


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
        self.counter = LiveCounter(config, self._folder)
        self._live: LiveResults | None = None
        self._started = threading.Event()
        self._failure: AuditError | None = None

    def start(self) -> "StreamingQuery":
        """Raises StreamConflict, ResultsUnavailable."""
        config = self._config
        begin = self._make_ready(Checkpoint(config.checkpoint))
        self._spark.dataSource.register(LiveSource)
        for name, value in SETTINGS.items():
            self._spark.conf.set(name, value)
        writer = (
            self._events(begin)
            .writeStream.queryName(config.name)
            .option("checkpointLocation", config.checkpoint)
            .foreachBatch(self._take)
        )
        if config.available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{config.every_ms} milliseconds")
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
        prune_at_s = time.monotonic()
        try:
            while not query.awaitTermination(IDLE_S) and not is_stopped():
                tell(self._move_horizon(query))
                if time.monotonic() >= prune_at_s:
                    prune_afterwards(self._database, self._config.retention)
                    prune_at_s = time.monotonic() + self._config.prune_every_s
            return self._move_horizon(query)
        except StreamingQueryException as error:
            failure = self._failure or SparkFailed(reason_of(str(error)))
            raise failure from error
        finally:
            query.stop()
            self.counter.close()

    def _make_ready(self, checkpoint: Checkpoint) -> int:
        """Checkpoint and database must tell of the same stream: Spark notes a batch
        when the database has it, so that is never behind. Gives where it begins."""
        if self._config.restart:
            checkpoint.clear()
            LiveResults(self._database, self._stream("")).forget()
        live = LiveResults(self._database, self._stream(checkpoint.query_id))
        seen = live.seen()
        if seen.batch_id < checkpoint.last_commit:
            why = "its counts are no longer in the database; --restart counts anew"
            raise StreamConflict(self._config.name, why)
        origin = self.counter.prepare(checkpoint, horizon_ms=seen.horizon_ms)
        return origin.position

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

    def _events(self, begin: int) -> "DataFrame":
        """`begin` also where retention has deleted that: then a gap tells of it."""
        return (
            self._spark.readStream.format(FORMAT)
            .option("start", str(begin))
            .option("maxBytesPerTrigger", str(self._config.batch_bytes))
            .load(self._config.store)
        )

    def _take(self, rows: "DataFrame", batch_id: int) -> None:
        """One batch. May be called again with the same one, after a crash."""
        self._started.wait()
        assert self._live is not None
        try:
            some = unpacked(cast(Any, rows).toArrow())
            self.counter.take(batch_id, some, self._live)
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

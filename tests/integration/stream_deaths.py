"""A stream that dies: in one batch, at one point.

    python -m tests.integration.stream_deaths STORE DATABASE CHECKPOINT BATCH POINT

kills its own process there.

PYTEST_DONT_REWRITE: it also runs by itself.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.integration.audit_runs import WINDOW_MS
from tests.integration.audit_store import PATIENT
from tests.integration.spark_session import QUICK

from halfpast_spark import live_results
from halfpast_spark.live_guard import note_seen
from halfpast_spark.session import open_session
from halfpast_spark.stream_config import StreamConfig
from halfpast_spark.stream_job import StreamJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_BYTES = 8 * 1024
DAY_MS = 86_400_000
POINTS = ("before the work", "in the transaction", "after the commit")


class MortalStream(StreamJob):
    """`die` is called in the batch `batch` at `point`."""

    def __init__(
        self,
        spark: "SparkSession",
        config: StreamConfig,
        batch: int,
        point: str,
        die: Callable[[], None],
    ) -> None:
        super().__init__(spark, config)
        assert point in POINTS
        self._batch = batch
        self._point = point
        self._die = die

    def _take(self, rows: "DataFrame", batch_id: int) -> None:
        if batch_id != self._batch:
            super()._take(rows, batch_id)
        elif self._point == POINTS[0]:
            self._die()
        elif self._point == POINTS[1]:
            with patch.object(live_results, "note_seen", self._note_and_die):
                super()._take(rows, batch_id)
        else:
            super()._take(rows, batch_id)
            self._die()

    def _note_and_die(self, *arguments: Any) -> None:
        """All is written, and nothing is committed."""
        note_seen(*arguments)
        self._die()


def config_of(store: str, database: str, checkpoint: str) -> StreamConfig:
    """A stream over a small log, in several batches and to its end."""
    return StreamConfig(
        store=store,
        database=database,
        checkpoint=checkpoint,
        window_ms=WINDOW_MS,
        grace_ms=0,
        rules=PATIENT,
        batch_bytes=BATCH_BYTES,
        memory_ms=DAY_MS,  # some are due in hours
        save_every_ms=0,
        available_now=True,
    )


def main() -> None:
    store, database, checkpoint, batch, point = sys.argv[1:]
    spark = open_session("mortal", master="local[2]", settings=QUICK)
    config = config_of(store, database, checkpoint)
    MortalStream(
        spark, config, int(batch), point, lambda: os.kill(os.getpid(), signal.SIGKILL)
    ).run()


if __name__ == "__main__":
    main()

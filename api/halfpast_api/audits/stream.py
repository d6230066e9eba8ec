"""`halfpast audit stream`: live counts until somebody ends it."""

import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from halfpast_api.audits.run import session
from halfpast_api.audits.spans import span_ms
from halfpast_api.metadata.migrate import migrate
from halfpast_api.places import Places
from halfpast_spark.log_folder import LogFolder
from halfpast_spark.retention import RetentionConfig
from halfpast_spark.rules import Rules, read_rules
from halfpast_spark.session import LEAN_SETTINGS
from halfpast_spark.stream_config import StreamConfig

if TYPE_CHECKING:
    from halfpast_spark.live_guard import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """The options as they were typed."""

    data: Path
    metadata: str | None
    window: str
    grace: str
    memory_of: str
    rules: Path | None
    checkpoint: Path | None
    every: str
    keep: str
    keep_rows: int
    available_now: bool
    restart: bool
    master: str
    memory: str


class StatusLine:
    """How far a stream is, on a terminal; quiet where nobody looks."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shows = self._stream.isatty()

    def tell(self, seen: "Seen") -> None:
        behind_s = max(0.0, time.time() - seen.horizon_ms / 1000)
        where = f"{behind_s:.1f} s behind" if seen.horizon_ms else "starting"
        self._write(f"\r\x1b[K{seen.events:,} events, {where}; Ctrl-C ends it")

    def end(self) -> None:
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._shows:
            self._stream.write(text)
            self._stream.flush()


def run_stream(request: StreamRequest) -> "Seen":
    """How far it came when it was ended by SIGTERM or Ctrl-C, or at the end.

    Raises AuditError, MetadataError, StoreError, ValueError.
    """
    places = Places.below(request.data, metadata=request.metadata)
    rules = Rules() if request.rules is None else read_rules(request.rules)
    window_ms, grace_ms = span_ms(request.window), span_ms(request.grace)
    memory_ms, every_ms = span_ms(request.memory_of), span_ms(request.every)
    retention = RetentionConfig(
        keep_ms=span_ms(request.keep), rows_max=request.keep_rows
    )
    own = places.data / "audit" / f"stream-{window_ms}"
    LogFolder(str(places.data))
    config = StreamConfig(
        store=str(places.data),
        database=places.metadata,
        checkpoint=str((request.checkpoint or own).absolute()),
        window_ms=window_ms,
        grace_ms=grace_ms,
        memory_ms=memory_ms,
        every_ms=every_ms,
        retention=retention,
        rules=rules.sla,
        available_now=request.available_now,
        restart=request.restart,
    )
    migrate(places.metadata)
    stopped: list[int] = []
    with session(request.master, request.memory, **LEAN_SETTINGS) as spark:
        from halfpast_spark.stream_job import StreamJob

        job, line = StreamJob(spark, config), StatusLine()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: stopped.append(number))
        try:
            return job.run(lambda: bool(stopped), line.tell)
        finally:
            line.end()

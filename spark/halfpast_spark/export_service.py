"""Exporting once, or for as long as the store lives: what the command runs."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .export import ExportConfig, Exporter
from .log_folder import LogFolder

Tell = Callable[[str], None]
POLL_S = 2.0
UPKEEP_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """What a run has done: segments, their bytes of log, rows, and where it stands."""

    segments: int
    log_bytes: int
    rows: int
    end: int
    seconds: float


def run_export(
    store: str,
    folder: str,
    *,
    follow: bool = False,
    stop: threading.Event | None = None,
    tell: Tell = lambda _: None,
    config: ExportConfig | None = None,
    poll_s: float = POLL_S,
) -> ExportRun:
    """Export all segments that are closed; with `follow` go on until `stop` is set.

    `tell` hears of each segment. Raises AuditError and what the store raises for a
    folder that is not its own.
    """
    stop = stop or threading.Event()
    started_s = time.monotonic()
    segments = log_bytes = rows = 0
    with Exporter(LogFolder(store), Path(folder), config) as exporter:
        upkeep_s = 0.0
        while True:
            while not stop.is_set() and (done := exporter.step()) is not None:
                segments += 1
                log_bytes += done.end - done.start
                rows += done.rows
                tell(f"exported the log up to {done.end}: {done.rows} events")
            if not follow or time.monotonic() >= upkeep_s:
                upkeep_s = time.monotonic() + UPKEEP_S
                now_ms = time.time_ns() // 1_000_000
                while not stop.is_set() and exporter.join(now_ms):
                    pass
                exporter.sweep(now_ms)
            if not follow or stop.wait(poll_s):
                break
        end = exporter.manifest.end
    return ExportRun(
        segments=segments,
        log_bytes=log_bytes,
        rows=rows,
        end=end,
        seconds=time.monotonic() - started_s,
    )

"""`halfpast audit export`: the log's events as Parquet, once or for good."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from halfpast_spark.export_service import ExportRun

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def export_folder(data: Path, folder: Path | None) -> Path:
    """Where the events of a store are exported to, unless a folder is named."""
    return (folder or data / "audit" / "events").absolute()


def exporter_runs(folder: Path) -> bool:
    """Whether somebody exports into this folder now."""
    from halfpast_core_store.folder import lock_holder
    from halfpast_spark.export_manifest import LOCK_NAME

    return bool(lock_holder(folder, LOCK_NAME))


def export_events(
    data: Path, folder: Path | None, *, follow: bool, tell: Callable[[str], None]
) -> "ExportRun":
    """Export what is closed; with `follow`, go on until a signal asks to stop, and
    finish what has begun. Raises AuditError, StoreError, OSError."""
    from halfpast_spark.export_service import run_export

    stop = threading.Event()

    def asked(_number: int, _frame: object) -> None:
        stop.set()

    for number in SIGNALS:
        signal.signal(number, asked)
    return run_export(
        str(data), str(export_folder(data, folder)), follow=follow, stop=stop, tell=tell
    )

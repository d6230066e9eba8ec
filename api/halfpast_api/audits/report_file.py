"""The report: the page that the console shows of some windows, as a file."""

import os
import time
from pathlib import Path

from halfpast_api.audits.show import open_results, read_extent
from halfpast_api.console.audits.dashboard import read_dashboard
from halfpast_api.console.audits.report import render_report
from halfpast_api.console.audits.scope import Wish
from halfpast_spark.results import Run
from halfpast_spark.results_database import ResultsDatabase


def need_place(path: Path) -> None:
    """Raises ValueError where no report can be written: better known before a run."""
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.absolute().parent}")


def write_report(database: str, run: Run, path: Path) -> None:
    """The report of one run. Raises OSError, ResultsUnavailable."""
    wish = Wish(from_ms=run.from_ms, to_ms=run.to_ms, window_ms=run.window_ms)
    _write(ResultsDatabase(database), wish, path)


def report_found(
    data: Path,
    metadata: str | None,
    path: Path,
    *,
    last: str | None,
    window: str | None,
) -> Path:
    """The report of what `audit show` would show; gives where it is.

    Raises AuditError, OSError, ValueError.
    """
    need_place(path)
    database = open_results(data, metadata)
    extent = read_extent(database, last=last, window=window)
    wish = Wish(
        from_ms=extent["from_ms"],
        to_ms=extent["to_ms"],
        window_ms=extent["window_ms"],
    )
    _write(database, wish, path)
    return path.absolute()


def _write(database: ResultsDatabase, wish: Wish, path: Path) -> None:
    """An old report stays until the new one is whole."""
    with database.transaction() as connection:
        dashboard = read_dashboard(connection, wish, time.time_ns() // 1_000_000)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(render_report(dashboard), encoding="utf-8")
    os.replace(temporary, path)

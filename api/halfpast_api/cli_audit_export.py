"""audit export: the log's events as Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_serve_options import DATA, Data

Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        envvar="HALFPAST_AUDIT_EXPORT",
        help="Where to.",
        show_default="DATA/audit/events",
    ),
]


def register(audit: typer.Typer) -> None:
    """Add the command to those of `audit`."""
    audit.command()(export)


def export(
    data: Data = DATA,
    folder: Export = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as segments are closed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Export the events of all segments that the log has closed, each once.

    That is what 'audit run' reads first: it is quicker than the log, and
    outlives it. Only one process exports to a folder at a time.
    """
    import os

    from halfpast_api.audits.export import export_events
    from halfpast_api.audits.guard import guarded
    from halfpast_api.deathwatch import die_with_supervisor

    def tell(line: str) -> None:
        if not as_json:
            print_line(line)

    def action() -> None:
        run = export_events(data, folder, follow=follow, tell=tell)
        if as_json:
            print_json(
                {
                    "segments": run.segments,
                    "log_bytes": run.log_bytes,
                    "events": run.rows,
                    "position": run.end,
                    "seconds": round(run.seconds, 3),
                }
            )
        elif not run.segments:
            print_line(f"Nothing new: exported up to {run.end} already.")

    die_with_supervisor(os.environ)
    guarded(action, as_json=as_json)

"""audit prune: delete old results of audits."""

from pathlib import Path
from typing import Annotated

import typer

from halfpast_api.cli_output import AsJson, print_json, print_line
from halfpast_api.cli_serve_options import Data, Metadata

Keep = Annotated[
    str,
    typer.Option(
        "--keep",
        envvar="HALFPAST_AUDIT_KEEP",
        help="Results of windows older than that are deleted.",
    ),
]
KeepRows = Annotated[
    int,
    typer.Option(
        "--keep-rows",
        envvar="HALFPAST_AUDIT_KEEP_ROWS",
        help="Of more rows than that the oldest windows are deleted.",
    ),
]
KEEP = "90d"
KEEP_ROWS = 5_000_000


def register(audit: typer.Typer) -> None:
    """Add the command to those of `audit`."""
    audit.command()(prune)


def prune(
    data: Data = Path(".halfpast"),
    metadata: Metadata = None,
    keep: Keep = KEEP,
    keep_rows: KeepRows = KEEP_ROWS,
    as_json: AsJson = False,
) -> None:
    """Delete results of audits that are too old, or too many.

    'audit run' does so at its end, and 'audit stream' every hour; this is for
    both with other bounds. The log and what was exported are not touched.
    """
    from halfpast_api.audits.guard import guarded
    from halfpast_api.audits.prune import prune_results

    def action() -> None:
        pruned = prune_results(data, metadata, keep=keep, keep_rows=keep_rows)
        if as_json:
            print_json({"deleted": dict(pruned.deleted), "rows_left": pruned.left})
        elif pruned.rows:
            print_line(f"Deleted {pruned.rows:,} rows; {pruned.left:,} are left.")
        else:
            print_line(f"Nothing to delete: {pruned.left:,} rows.")

    guarded(action, as_json=as_json)

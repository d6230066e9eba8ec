"""audit show, report, check: what the audits have found."""

from pathlib import Path
from typing import Annotated

import typer

from halfpast_api.cli_audit_view import print_broken, print_summaries
from halfpast_api.cli_output import REFUSED, AsJson, print_json, print_line
from halfpast_api.cli_serve_options import Data, Metadata

DATA = Path(".halfpast")
Last = Annotated[
    str | None, typer.Option(help="A span, such as 1h.", show_default="the last run")
]
Window = Annotated[
    str | None,
    typer.Option(help="Windows of this length.", show_default="the last run's"),
]


def register(audit: typer.Typer) -> None:
    """Add the commands to those of `audit`."""
    for command in (show, report, check):
        audit.command()(command)


def show(
    data: Data = DATA,
    metadata: Metadata = None,
    last: Last = None,
    window: Window = None,
    as_json: AsJson = False,
) -> None:
    """Show what the last run has found, or the last hours."""
    from halfpast_api.audits.guard import guarded
    from halfpast_api.audits.show import read_summaries

    def action() -> None:
        shown = read_summaries(data, metadata, last=last, window=window)
        print_json(shown.as_json()) if as_json else print_summaries(shown)

    guarded(action, as_json=as_json)


def report(
    file: Annotated[Path, typer.Argument(help="An HTML file.", dir_okay=False)],
    data: Data = DATA,
    metadata: Metadata = None,
    last: Last = None,
    window: Window = None,
    as_json: AsJson = False,
) -> None:
    """Write what has been found to one HTML file that needs nothing else."""
    from halfpast_api.audits.guard import guarded
    from halfpast_api.audits.report_file import report_found

    def action() -> None:
        written = report_found(data, metadata, file, last=last, window=window)
        if as_json:
            print_json({"report": str(written)})
        else:
            print_line(f"report: {written}")

    guarded(action, as_json=as_json)


def check(
    data: Data = DATA,
    metadata: Metadata = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            help="SLAs and bounds, in TOML.",
            show_default="nothing lost, doubled, early, or out of balance",
            dir_okay=False,
        ),
    ] = None,
    last: Last = None,
    window: Window = None,
    max_age: Annotated[
        str | None,
        typer.Option(help="Also fail if the last run has seen nothing for so long."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which rules do not hold; the exit status is 1 if there are any."""
    from halfpast_api.audits.guard import guarded
    from halfpast_api.audits.show import read_broken

    def action() -> None:
        broken = read_broken(
            data, metadata, rules=rules, last=last, window=window, max_age=max_age
        )
        if as_json:
            print_json({"broken": broken})
        elif broken:
            print_broken(broken)
        else:
            print_line("All rules hold.")
        if broken:
            raise typer.Exit(REFUSED)

    guarded(action, as_json=as_json)

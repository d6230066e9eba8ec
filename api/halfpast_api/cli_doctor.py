"""doctor: look at a data folder and explain it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_output import (
    REFUSED,
    AsJson,
    CommandFailed,
    print_failure,
    print_json,
    print_line,
)

if TYPE_CHECKING:
    from halfpast_api.doctor import Diagnosis

_COLOURS = {"ok": "green", "note": "yellow", "bad": "red"}


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(doctor)


def doctor(
    data: Annotated[
        Path,
        typer.Option("--data", envvar="HALFPAST_DATA", help="The data folder."),
    ] = Path(".halfpast"),
    as_json: AsJson = False,
) -> None:
    """Check a data folder and say what to do. Changes nothing."""
    from halfpast_api.doctor import diagnose

    try:
        diagnosis = diagnose(data)
    except OSError as error:
        failed = CommandFailed(
            f"{data} cannot be read: {error.strerror or error}",
            hint="run it as the user who runs the suite",
        )
        print_failure(failed, as_json=as_json)
        raise typer.Exit(failed.code) from None
    print_json(diagnosis) if as_json else _print(diagnosis)
    if not diagnosis.healthy:
        raise typer.Exit(REFUSED)


def _print(diagnosis: "Diagnosis") -> None:
    print_line(f"{diagnosis.folder}")
    for finding in diagnosis.findings:
        level = typer.style(f"{finding.level:<5}", fg=_COLOURS[finding.level])
        typer.echo(f"{level} {finding.about:<9} {finding.text}")
        if finding.advice:
            typer.echo(f"{'':<15} -> {finding.advice}")
    if diagnosis.healthy:
        print_line("Healthy.")
    else:
        print_line("Not healthy: see above for what to do.")

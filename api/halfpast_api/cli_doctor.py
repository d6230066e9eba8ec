"""doctor: look at a data folder and explain it."""

from pathlib import Path
from typing import Annotated

import typer

from halfpast_api.cli_output import AsJson, print_json, print_line


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

"""What the commands print: lines for people, or JSON for programs.

Answers go to stdout, everything else to stderr. Errors say what to try next, and
their exit codes are the ones of sysexits.h where there is one:

    0 done · 1 refused · 2 wrong usage · 69 server not reachable
    74 the disk failed · 75 outcome unknown: it may have happened
    78 the data folder cannot be used · 130 interrupted
"""

import dataclasses
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

REFUSED = 1
USAGE = 2
UNREACHABLE = os.EX_UNAVAILABLE
UNKNOWN = os.EX_TEMPFAIL
STORE_FAILED = os.EX_IOERR
FOLDER_UNUSABLE = os.EX_CONFIG
INTERRUPTED = 130

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


class CommandFailed(Exception):
    """Ends a command: what happened, the code to exit with, what to try next.

    With `report`, that is what --json prints in place of the text.
    """

    def __init__(
        self,
        text: str,
        *,
        code: int = REFUSED,
        hint: str = "",
        report: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.hint = hint
        self.report = report


def print_json(value: object) -> None:
    """One line; dataclasses become objects, spans become `..._ms`."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.encode(plain(value)) + b"\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """One line of an answer for people, at once also into a pipe."""
    print(text, flush=True)


def print_failure(failure: CommandFailed, *, as_json: bool) -> None:
    """To stderr, in red where that is a terminal."""
    if as_json:
        import msgspec

        report = {"error": failure.text, "hint": failure.hint, **(failure.report or {})}
        print(msgspec.json.encode(plain(report)).decode(), file=sys.stderr)
        return
    typer.secho(f"error: {failure.text}", fg="red", err=True)
    if failure.hint:
        typer.echo(f"try:   {failure.hint}", err=True)


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """Columns for people. Cut to the width of a terminal, never in a pipe."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        # Rich would read [brackets] in data as styles.
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    width = None if sys.stdout.isatty() else 1000
    Console(width=width, highlight=False).print(table)


def plain(value: Any) -> Any:
    """As JSON has it; times in UTC with milliseconds, as the API writes them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if isinstance(inner, timedelta):
                found[f"{field.name}_ms"] = round(inner / timedelta(milliseconds=1))
            elif isinstance(inner, bytes):
                found[f"{field.name}_base64"] = inner
            else:
                found[field.name] = plain(inner)
        return found
    match value:
        case datetime():
            utc = value.astimezone(UTC)
            return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case Enum():
            return value.value
        case Path():
            return str(value)
        case dict():
            members = cast(dict[str, Any], value)
            return {name: plain(inner) for name, inner in members.items()}
        case list() | tuple():
            return [plain(inner) for inner in cast(list[Any], value)]
        case _:
            return value

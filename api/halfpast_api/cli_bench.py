"""bench: the benchmarks, from the package beside this one."""

import importlib
from typing import Annotated, Any

import typer

from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_failure,
    print_json,
    print_table,
)


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(bench)


def bench(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[SETTING=VALUE]...")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Name them all.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a benchmark, which starts a server of its own."""
    # By name, and only now: the benchmarks drive a server from outside and so stand
    # beside this package, not below it. This command is just their front door.
    benches: Any = importlib.import_module("halfpast_loadtest.bench")
    try:
        if show_list:
            _print_list(benches.names(), as_json=as_json)
        else:
            given = dict(_pair(text) for text in settings or [])
            raise typer.Exit(benches.run(_named(name), as_json, given))
    except CommandFailed as failure:
        print_failure(failure, as_json=as_json)
        raise typer.Exit(failure.code) from None


def _print_list(summaries: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json(summaries)
    else:
        rows = [[name, summary] for name, summary in summaries.items()]
        print_table(["name", "measures"], rows)


def _named(name: str | None) -> str:
    if name is None:
        raise CommandFailed("name one", code=USAGE, hint="halfpast bench --list")
    return name


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CommandFailed(
            f"{text!r} is not a setting", code=USAGE, hint="callers=32, for example"
        )
    return name, value

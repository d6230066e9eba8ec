"""producer-groups list, show, set, delete: where and when producers are asked."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_candidates import producer_groups
from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy
from halfpast_api.cli_times import parse_span

if TYPE_CHECKING:
    from halfpast_api.page_calls import Json
    from halfpast_api.producer_group_calls import ProducerGroupCalls

R = TypeVar("R")
Group = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=producer_groups)]


def register(app: typer.Typer) -> None:
    """Add `producer-groups` with its commands."""
    groups = typer.Typer(
        name="producer-groups",
        help="Producer groups: who is asked about transactions in doubt, and when.",
        no_args_is_help=True,
    )
    groups.command("list")(list_groups)
    groups.command("set")(set_group)
    groups.command()(show)
    groups.command()(delete)
    app.add_typer(groups)


def list_groups(
    count: Annotated[int, typer.Option("--max", min=1)] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List those that have settings, by name."""
    found = _with(server, lambda calls: calls.list(count), as_json)
    if as_json:
        for one in found:
            print_json(one)
    elif found:
        columns = ["NAME", "CHECKED AFTER", "AT MOST", "URL"]
        rows = [
            [
                *(one["name"], f"{one['check_after_ms']} ms"),
                *(f"{one['check_max']} times", one.get("check_url", "(it polls)")),
            ]
            for one in found
        ]
        print_table(columns, rows)
    else:
        typer.echo("no producer group has settings of its own", err=True)


def show(
    group: Group, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a group's settings."""
    _print(_with(server, lambda calls: calls.get(group), as_json), as_json)


def set_group(
    group: Group,
    check_url: Annotated[
        str | None, typer.Option("--check-url", help="Asked there; '' for none.")
    ] = None,
    check_after: Annotated[
        str | None, typer.Option("--check-after", help="After the beginning: 6s.")
    ] = None,
    check_interval: Annotated[
        str | None, typer.Option("--check-interval", help="The first pause: 30s.")
    ] = None,
    check_max: Annotated[
        int | None, typer.Option("--check-max", help="Then it is parked.")
    ] = None,
    timeout: Annotated[str | None, typer.Option(help="For one call.")] = None,
    description: Annotated[str | None, typer.Option(help="For people.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Change a group's settings; the rest stays. A new secret is shown once."""
    settings: dict[str, Any] = {
        "check_url": check_url,
        "check_after_ms": _span_ms(check_after),
        "check_interval_ms": _span_ms(check_interval),
        "check_max": check_max,
        "check_timeout_ms": _span_ms(timeout),
        "description": description,
    }
    given = {name: value for name, value in settings.items() if value is not None}

    async def work(calls: "ProducerGroupCalls") -> "Json":
        if not given:
            hint = f"halfpast producer-groups set {group} --check-after 10s"
            raise CommandFailed("nothing to change is given", code=USAGE, hint=hint)
        return await calls.change(group, given)

    _print(_with(server, work, as_json), as_json)


def delete(
    group: Group, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Give a group its defaults again."""
    found = _with(server, lambda calls: calls.delete(group), as_json)
    if as_json:
        print_json(found)
    else:
        print_line(f"{found['outcome']}  {found['name']}")


def _print(found: "Json", as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_line(f"producer group  {found['name']}")
    print_line(f"asked at        {found.get('check_url') or '(it polls)'}")
    print_line(f"asked after     {found['check_after_ms']} ms")
    print_line(f"then after      {found['check_interval_ms']} ms, twice as long …")
    print_line(f"at most         {found['check_max']} times")
    if found["description"]:
        print_line(f"description     {found['description']}")
    secrets: int | list[str] = found["check_secrets"]
    if isinstance(secrets, list):
        for secret in secrets:
            print_line(f"secret          {secret}  (shown once)")


def _span_ms(text: str | None) -> int | None:
    return None if text is None else round(parse_span(text).total_seconds() * 1000)


def _with(
    server: str,
    work: "Callable[[ProducerGroupCalls], Coroutine[Any, Any, R]]",
    as_json: bool,
) -> R:
    from halfpast_api.producer_group_calls import ProducerGroupCalls

    async def run() -> R:
        async with ProducerGroupCalls(server, retry_policy()) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)

"""trail list, export: who has done what."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfpast_api.cli_output import AsJson, print_json, print_line, print_table
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy

if TYPE_CHECKING:
    from halfpast_api.access.trail_handlers import TrailEntryView

PAGE_SIZE = 1000

Actor = Annotated[str, typer.Option(help="Only what they did: key:k3x9q2mv.")]
Object = Annotated[str, typer.Option("--object", help="Only what was done to it.")]
After = Annotated[str, typer.Option(help="Only since then (RFC 3339).")]
Before = Annotated[str, typer.Option(help="Only before then.")]


def register(app: typer.Typer) -> None:
    """Add `trail` with its commands."""
    trail = typer.Typer(
        name="trail",
        help="Administrative acts: who did what, and when.",
        no_args_is_help=True,
    )
    trail.command("list")(list_entries)
    trail.command()(export)
    app.add_typer(trail)


def list_entries(
    actor: Actor = "",
    object_: Object = "",
    after: After = "",
    before: Before = "",
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 50,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List acts, the newest first."""
    found: list[TrailEntryView] = []

    async def work() -> None:
        async for entry in _entries(server, min(limit, PAGE_SIZE), wanted):
            found.append(entry)
            if len(found) == limit:
                return

    wanted = _filter(actor, object_, after, before)
    guarded(lambda: asyncio.run(work()), server=server, as_json=as_json)
    if as_json:
        for entry in found:
            print_json(_plain(entry))
        return
    rows = [[it.at, it.actor, it.namespace, it.action, it.object] for it in found]
    if rows:
        print_table(["at", "who", "namespace", "did", "to"], rows)
    else:
        print_line("nothing is on record")


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="NDJSON, made anew.")],
    after: After = "",
    before: Before = "",
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Write all acts into a file, one JSON object a line, the newest first."""
    import msgspec

    count = 0

    async def work() -> None:
        nonlocal count
        beside = file.with_name(file.name + ".tmp")
        with beside.open("wb") as out:
            async for entry in _entries(server, PAGE_SIZE, wanted):
                out.write(msgspec.json.encode(entry) + b"\n")
                count += 1
        beside.replace(file)

    wanted = _filter("", "", after, before)
    guarded(lambda: asyncio.run(work()), server=server, as_json=as_json)
    if as_json:
        print_json({"file": file, "entries": count})
    else:
        print_line(f"{count} acts are in {file}")


async def _entries(
    server: str, page_size: int, wanted: dict[str, str]
) -> "AsyncIterator[TrailEntryView]":
    from halfpast_api.access.access_calls import AccessCalls

    async with AccessCalls(server, retry_policy()) as calls:
        async for page in calls.trail(wanted, page_size):
            for entry in page:
                yield entry


def _filter(actor: str, subject: str, after: str, before: str) -> dict[str, str]:
    given = {"actor": actor, "object": subject, "after": after, "before": before}
    return {name: value for name, value in given.items() if value}


def _plain(entry: "TrailEntryView") -> Any:
    import msgspec

    return msgspec.to_builtins(entry)

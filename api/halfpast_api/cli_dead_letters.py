"""dead-letters list, redrive, discard: of the Delay Server, of groups, of endpoints.

`halfpast dead` is the same, for those who are in a hurry. A topic, or ids to redrive,
without a source mean what the Delay Server gave up.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_candidates import endpoints, groups, topics
from halfpast_api.cli_endpoints_view import print_dead_counts, print_dead_letters
from halfpast_api.cli_output import (
    REFUSED,
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy

if TYPE_CHECKING:
    from halfpast_api.push.endpoint_calls import EndpointCalls

R = TypeVar("R")

Endpoint = Annotated[
    str | None, typer.Option(help="Of this endpoint.", autocompletion=endpoints)
]
Group = Annotated[
    str | None, typer.Option(help="Of this consumer group.", autocompletion=groups)
]
Delayed = Annotated[
    bool, typer.Option("--delayed", help="Of the Delay Server: no topic took them.")
]
Topic = Annotated[
    str | None,
    typer.Option(help="Only those of this topic.", autocompletion=topics),
]
Key = Annotated[str | None, typer.Option(help="Only those with this key.")]
Tag = Annotated[str | None, typer.Option(help="Only those with this tag.")]
After = Annotated[
    str | None, typer.Option("--dead-after", help="Only those that died since then.")
]
Before = Annotated[
    str | None, typer.Option("--dead-before", help="Only those that died before.")
]
Every = Annotated[bool, typer.Option("--all", help="All of them.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count them.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID...]")]


def register(app: typer.Typer) -> None:
    """Add `dead-letters`, also called `dead`, with its commands."""
    letters = typer.Typer(
        name="dead-letters",
        help="Dead letters: messages that were given up, with the reason.",
        no_args_is_help=True,
    )
    letters.command("list")(list_dead_letters)
    letters.command()(redrive)
    letters.command()(discard)
    app.add_typer(letters)
    app.add_typer(letters, name="dead", hidden=True)


def list_dead_letters(
    endpoint: Endpoint = None,
    group: Group = None,
    delayed: Delayed = False,
    topic: Topic = None,
    count: Annotated[int, typer.Option("--max", min=1)] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List dead letters; without a source, who has how many."""
    is_delayed = delayed or (topic is not None and not endpoint and not group)
    has_source = bool(endpoint or group or is_delayed)

    async def work(calls: "EndpointCalls") -> list[dict[str, Any]]:
        if not has_source:
            return await calls.dead_counts(count)
        query = {**_source(endpoint, group, is_delayed)}
        if topic is not None:
            query["topic"] = topic
        return await calls.dead_letters(query, count)

    found = _with(server, work, as_json)
    if as_json:
        for one in found:
            print_json(one)
    elif not found:
        typer.echo("no dead letters", err=True)
    elif has_source:
        print_dead_letters(found)
    else:
        print_dead_counts(found)


def redrive(
    ids: Ids = None,
    endpoint: Endpoint = None,
    group: Group = None,
    delayed: Delayed = False,
    topic: Topic = None,
    key: Key = None,
    tag: Tag = None,
    dead_after: After = None,
    dead_before: Before = None,
    every: Every = False,
    dry_run: DryRun = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Have dead letters tried again, as if for the first time."""
    delayed = delayed or (bool(ids) and not endpoint and not group)
    filters = _filters(ids, topic, key, tag, dead_after, dead_before)
    wish = {**filters, "all": every or None, "dry_run": dry_run or None}
    _settle("redrive", (endpoint, group, delayed), wish, server, as_json)


def discard(
    ids: Ids = None,
    endpoint: Endpoint = None,
    group: Group = None,
    delayed: Delayed = False,
    topic: Topic = None,
    key: Key = None,
    tag: Tag = None,
    dead_after: After = None,
    dead_before: Before = None,
    every: Every = False,
    dry_run: DryRun = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Give dead letters up for good."""
    filters = _filters(ids, topic, key, tag, dead_after, dead_before)
    wish = {**filters, "all": every or None, "dry_run": dry_run or None}
    _settle("discard", (endpoint, group, delayed), wish, server, as_json)


def _filters(
    ids: list[str] | None,
    topic: str | None,
    key: str | None,
    tag: str | None,
    dead_after: str | None,
    dead_before: str | None,
) -> dict[str, Any]:
    return {
        "ids": ids or None,
        "topic": topic,
        "key": key,
        "tag": tag,
        "dead_after": dead_after,
        "dead_before": dead_before,
    }


def _settle(
    verb: str,
    source: tuple[str | None, str | None, bool],
    wish: dict[str, Any],
    server: str,
    as_json: bool,
) -> None:
    async def work(calls: "EndpointCalls") -> dict[str, Any]:
        given = {**_source(*source), **wish}
        if all(value is None for name, value in wish.items() if name != "dry_run"):
            raise CommandFailed(
                "say which: ids, a filter, or --all",
                code=USAGE,
                hint=f"halfpast dead-letters {verb} --endpoint crm --all --dry-run",
            )
        return await calls.settle_dead(verb, given)

    found = _with(server, work, as_json)
    if as_json:
        print_json(found)
    else:
        print_line(
            f"{found['state']:<10} {found['action']}  {found['changed']:,} of "
            f"{found['matched']:,} that were meant, {found['scanned']:,} looked at"
        )
    if found.get("gone") and not as_json:
        typer.echo(f"{found['gone']:,} could not be had any more", err=True)
    if found["state"] == "failed":
        typer.echo(f"error: {found['error']}", err=True)
        raise typer.Exit(REFUSED)


def _source(endpoint: str | None, group: str | None, delayed: bool) -> dict[str, str]:
    given = [it for it in (endpoint, group, delayed) if it]
    if len(given) != 1:
        raise CommandFailed(
            "say whose dead letters: one of --endpoint, --group and --delayed",
            code=USAGE,
            hint="halfpast dead-letters list",
        )
    if endpoint:
        return {"source": "endpoint", "endpoint": endpoint}
    return {"source": "group", "group": group} if group else {"source": "delay"}


def _with(
    server: str,
    work: "Callable[[EndpointCalls], Coroutine[Any, Any, R]]",
    as_json: bool,
) -> R:
    from halfpast_api.push.endpoint_calls import EndpointCalls

    async def run() -> R:
        async with EndpointCalls(server, retry_policy()) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)

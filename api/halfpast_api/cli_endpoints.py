"""endpoints add, list, show, update, delete, pause, resume, test, attempts,
rotate-secret: where messages are pushed to."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_endpoints_view import (
    print_attempts,
    print_endpoint,
    print_endpoints,
    print_secret,
    print_test,
)
from halfpast_api.cli_names import EndpointName
from halfpast_api.cli_output import (
    REFUSED,
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy
from halfpast_api.cli_times import parse_span

if TYPE_CHECKING:
    from halfpast_api.push.endpoint_calls import EndpointCalls

R = TypeVar("R")
PATIENCE_S = 70.0

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", help="A topic, or a pattern such as 'orders-*'."),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Only events with this tag.")
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="Only events that have it."),
]
Mode = Annotated[
    str | None,
    typer.Option(help="webhook, cloudevents-binary or cloudevents-structured."),
]
Ordering = Annotated[str | None, typer.Option(help="parallel or per_key.")]
Rate = Annotated[float | None, typer.Option(help="Calls per second; 0 for no limit.")]
Concurrency = Annotated[int | None, typer.Option(help="Calls at once.")]
Timeout = Annotated[str | None, typer.Option(help="For one call: 15s.")]
Attempts = Annotated[
    int | None, typer.Option("--max-attempts", help="Then it is a dead letter.")
]
RetryAfter = Annotated[
    str | None, typer.Option("--retry-after", help="Before the second attempt: 5s.")
]
RetryMax = Annotated[
    str | None, typer.Option("--retry-max", help="The longest wait: 4h.")
]
Description = Annotated[str | None, typer.Option(help="For people.")]


def register(app: typer.Typer) -> None:
    """Add `endpoints` with its commands."""
    endpoints = typer.Typer(
        name="endpoints",
        help="Endpoints: where messages are pushed to (webhooks).",
        no_args_is_help=True,
    )
    endpoints.command("list")(list_endpoints)
    endpoints.command("rotate-secret")(rotate_secret)
    endpoints.command("test")(try_now)
    for command in (add, show, update, delete, pause, resume, attempts):
        endpoints.command()(command)
    app.add_typer(endpoints)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    url: Annotated[str, typer.Argument(metavar="URL")],
    topics: Topics = None,
    tags: Tags = None,
    properties: Properties = None,
    mode: Mode = None,
    ordering: Ordering = None,
    rate: Rate = None,
    concurrency: Concurrency = None,
    timeout: Timeout = None,
    max_attempts: Attempts = None,
    retry_after: RetryAfter = None,
    retry_max: RetryMax = None,
    earliest: Annotated[
        bool, typer.Option("--earliest", help="Also what is in the topics already.")
    ] = False,
    secret: Annotated[
        str | None, typer.Option(help="One of your own: whsec_… (else one is made).")
    ] = None,
    description: Description = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Push the messages of topics to a URL, signed."""
    settings = _settings(
        *(url, topics, tags, properties, mode, ordering, rate, concurrency, timeout),
        *(max_attempts, retry_after, retry_max, description),
    )
    if earliest:
        settings["start"] = "earliest"
    if secret:
        settings["secrets"] = [secret]

    async def work(calls: "EndpointCalls") -> dict[str, Any]:
        if not topics:
            hint = f"halfpast endpoints add {name} {url} --topic orders"
            raise CommandFailed("say which topics: --topic", code=USAGE, hint=hint)
        return await calls.put(name, settings, is_new=True)

    made = _with(server, work, as_json)
    if as_json:
        print_json(made)
        return
    print_endpoint(made)
    if not isinstance(made["secrets"], int):
        print_secret(made["secrets"][0])
    typer.echo(f"next:  halfpast endpoints test {name}", err=True)


def list_endpoints(
    count: Annotated[int, typer.Option("--max", min=1)] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List endpoints."""
    found = _with(server, lambda calls: calls.endpoints(count), as_json)
    if as_json:
        for endpoint in found:
            print_json(endpoint)
    elif found:
        print_endpoints(found)
    else:
        typer.echo("no endpoints; halfpast endpoints add makes one", err=True)


def show(
    name: EndpointName, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show an endpoint, and how it stands now."""
    found = _with(server, lambda calls: calls.get(name), as_json)
    print_json(found) if as_json else print_endpoint(found)


def update(
    name: EndpointName,
    url: Annotated[str | None, typer.Option(help="Where to post from now on.")] = None,
    topics: Topics = None,
    tags: Tags = None,
    properties: Properties = None,
    unfiltered: Annotated[
        bool, typer.Option("--unfiltered", help="All events, whatever their tags.")
    ] = False,
    mode: Mode = None,
    ordering: Ordering = None,
    rate: Rate = None,
    concurrency: Concurrency = None,
    timeout: Timeout = None,
    max_attempts: Attempts = None,
    retry_after: RetryAfter = None,
    retry_max: RetryMax = None,
    description: Description = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Change some settings; the rest stays."""
    settings = _settings(
        *(url, topics, tags, properties, mode, ordering, rate, concurrency, timeout),
        *(max_attempts, retry_after, retry_max, description),
    )
    if unfiltered:
        settings["filter"] = None

    async def work(calls: "EndpointCalls") -> dict[str, Any]:
        if not settings:
            hint = f"halfpast endpoints update {name} --concurrency 20"
            raise CommandFailed("nothing to change is given", code=USAGE, hint=hint)
        return await calls.patch(name, settings)

    found = _with(server, work, as_json)
    print_json(found) if as_json else print_endpoint(found)


def delete(
    name: EndpointName, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Deliver nothing there any more."""
    found = _with(server, lambda calls: calls.delete(name), as_json)
    print_json(found) if as_json else print_line(f"deleted    {name}")


def pause(
    name: EndpointName,
    reason: Annotated[str, typer.Option(help="Why; it is shown.")] = "",
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Let messages wait until it is resumed."""
    given = {"reason": reason} if reason else {}
    found = _with(server, lambda calls: calls.act(name, "pause", **given), as_json)
    print_json(found) if as_json else print_line(f"paused     {name}")


def resume(
    name: EndpointName, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Deliver again, also to one that was disabled because it answered 410."""
    found = _with(server, lambda calls: calls.act(name, "resume"), as_json)
    print_json(found) if as_json else print_line(f"enabled    {name}")


def try_now(
    name: EndpointName,
    topic: Annotated[str | None, typer.Option(help="As if of this topic.")] = None,
    data: Annotated[str | None, typer.Option(help="JSON to send.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Post a made-up event now, and show what comes back."""

    async def work(calls: "EndpointCalls") -> dict[str, Any]:
        import msgspec

        given: dict[str, Any] = {} if topic is None else {"topic": topic}
        if data is not None:
            given["data"] = msgspec.json.decode(data)
        return await calls.act(name, "test", **given)

    found = _with(server, work, as_json)
    print_json(found) if as_json else print_test(found)
    if not found["delivered"]:
        raise typer.Exit(REFUSED)


def attempts(
    name: EndpointName,
    event: Annotated[str | None, typer.Option(help="Of this event only.")] = None,
    state: Annotated[
        str | None, typer.Option(help="delivered, failed, retrying, dead or held.")
    ] = None,
    count: Annotated[int, typer.Option("--max", min=1)] = 20,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List what was tried lately, the newest first."""
    given = {"event_id": event, "state": state}
    query = {key: value for key, value in given.items() if value is not None}
    found = _with(server, lambda calls: calls.attempts(name, query, count), as_json)
    if as_json:
        for attempt in found:
            print_json(attempt)
    elif found:
        print_attempts(found)
    else:
        typer.echo("nothing was tried", err=True)


def rotate_secret(
    name: EndpointName,
    finish: Annotated[
        bool, typer.Option("--finish", help="The newest alone signs from now on.")
    ] = False,
    secret: Annotated[
        str | None, typer.Option(help="One of your own (else one is made).")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Sign with a new secret as well as with the one before, until --finish."""
    given: dict[str, Any] = {"finish": True} if finish else {}
    if secret:
        given["secret"] = secret
    found = _with(
        server, lambda calls: calls.act(name, "rotate-secret", **given), as_json
    )
    if as_json:
        print_json(found)
    elif found["secret"] is None:
        print_line(f"rotated    {name}: {found['secrets']} secret signs")
    else:
        print_secret(found["secret"])
        hint = f"next:  give it to the receiver, then rotate-secret {name} --finish"
        typer.echo(hint, err=True)


def _settings(
    url: str | None,
    topics: list[str] | None,
    tags: list[str] | None,
    properties: list[str] | None,
    mode: str | None,
    ordering: str | None,
    rate: float | None,
    concurrency: int | None,
    timeout: str | None,
    max_attempts: int | None,
    retry_after: str | None,
    retry_max: str | None,
    description: str | None,
) -> dict[str, Any]:
    """What was given, as the API has it."""
    retry = {
        "max_attempts": max_attempts,
        "initial_ms": _ms(retry_after),
        "max_ms": _ms(retry_max),
    }
    settings: dict[str, Any] = {
        "url": url,
        "topics": topics,
        "filter": _filter(tags, properties),
        "mode": mode,
        "ordering": ordering,
        "rate_per_s": rate,
        "concurrency": concurrency,
        "timeout_ms": _ms(timeout),
        "retry": {key: value for key, value in retry.items() if value is not None}
        or None,
        "description": description,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _filter(
    tags: list[str] | None, properties: list[str] | None
) -> dict[str, Any] | None:
    from halfpast_api.cli_events import read_property

    wanted: dict[str, list[str]] = {}
    for name, value in map(read_property, properties or []):
        wanted.setdefault(name, []).append(value)
    found: dict[str, Any] = {"tags": tags} if tags else {}
    if wanted:
        found["properties"] = wanted
    return found or None


def _ms(text: str | None) -> int | None:
    return None if text is None else round(parse_span(text).total_seconds() * 1000)


def _with(
    server: str,
    work: "Callable[[EndpointCalls], Coroutine[Any, Any, R]]",
    as_json: bool,
) -> R:
    from halfpast_api.push.endpoint_calls import EndpointCalls

    async def run() -> R:
        async with EndpointCalls(server, retry_policy(PATIENCE_S)) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)

"""limits show, list, set, clear."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy
from halfpast_api.cli_times import parse_span, show_span

if TYPE_CHECKING:
    from halfpast_api.limits.limit_bodies import LimitsView, OwnLimitsView, ShareView
    from halfpast_api.limits.limit_calls import LimitCalls

R = TypeVar("R")

Subject = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="key:ID, user:NAME, namespace:NAME, default-namespace, every-key, "
        "every-user or every-namespace.",
    ),
]
BURSTS = {"requests_per_s": "request_burst", "bytes_per_s": "byte_burst"}
_AS_KIND = "-"
_NONE = "none"


def register(app: typer.Typer) -> None:
    """Add `limits` with its commands."""
    limits = typer.Typer(
        name="limits",
        help="How much keys, users and namespaces may ask for.",
        no_args_is_help=True,
    )
    limits.command("list")(list_limits)
    limits.command("set")(set_limits)
    for command in (show, clear):
        limits.command()(command)
    app.add_typer(limits)


def show(
    subject: Annotated[
        str | None,
        typer.Argument(metavar="[SUBJECT]", help="Whose; without one, your own."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show your own limits and what is used of them, or those of somebody."""
    if subject is not None:
        _print(_with(server, lambda it: it.of(subject), as_json), as_json)
        return
    own = _with(server, lambda it: it.own(), as_json)
    if as_json:
        _print_json(own)
    else:
        _print_own(own)


def list_limits(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List who has limits."""
    found = _with(server, lambda it: it.all(), as_json)
    if as_json:
        for one in found:
            _print_json(one)
        return
    if not found:
        print_line("nobody has limits; give some, for example:")
        print_line("  halfpast limits set every-key --requests-per-s 100")
        return
    rows = [
        [
            it.subject,
            _rate(it.requests_per_s, it.request_burst),
            _rate(it.bytes_per_s, it.byte_burst),
            _count(it.max_pending),
            _span(it.max_delay_ms),
        ]
        for it in found
    ]
    print_table(["subject", "requests/s", "bytes/s", "pending", "delay"], rows)


def set_limits(
    subject: Subject,
    requests_per_s: Annotated[
        float | None, typer.Option(help="Requests a second; 0 is no limit.")
    ] = None,
    request_burst: Annotated[
        int | None, typer.Option(help="Requests at once; default: two seconds' worth.")
    ] = None,
    bytes_per_s: Annotated[
        float | None, typer.Option(help="Bytes of bodies a second; 0 is no limit.")
    ] = None,
    byte_burst: Annotated[
        int | None, typer.Option(help="Bytes at once; default: two seconds' worth.")
    ] = None,
    max_pending: Annotated[
        int | None, typer.Option(help="Pending events, for namespaces; 0 is no limit.")
    ] = None,
    max_delay: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="How far ahead, such as 30d; 0 is no limit."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Give limits; those that are not named stay as they are."""

    async def work(calls: "LimitCalls") -> "LimitsView":
        given: dict[str, float | None] = {
            "requests_per_s": requests_per_s,
            "request_burst": request_burst,
            "bytes_per_s": bytes_per_s,
            "byte_burst": byte_burst,
            "max_pending": max_pending,
            "max_delay_ms": _delay_ms(max_delay),
        }
        wanted = {name: value for name, value in given.items() if value is not None}
        if not wanted:
            raise CommandFailed(
                "say what to limit",
                code=USAGE,
                hint=f"halfpast limits set {subject} --requests-per-s 100",
            )
        before, version = await _before(calls, subject, list(given))
        for rate, burst in BURSTS.items():
            if wanted.get(rate) == 0:
                before.pop(burst, None)
        return await calls.put(subject, before | wanted, version)

    _print(_with(server, work, as_json), as_json)


def clear(
    subject: Subject, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Take all limits away from somebody; those for all of the kind apply then."""
    _with(server, lambda it: it.delete(subject), as_json)
    if as_json:
        print_json({"subject": subject, "outcome": "deleted"})
    else:
        print_line(f"{subject} has no limits of its own any more")


async def _before(
    calls: "LimitCalls", subject: str, names: list[str]
) -> tuple[dict[str, float], int]:
    """What it is, by name, and its version; nothing and 0 where nobody gave any."""
    import halfpast

    try:
        known = await calls.of(subject)
    except halfpast.ApiProblem as problem:
        if problem.code != "no_limits":
            raise
        return {}, 0
    values = {name: getattr(known, name) for name in names}
    return {name: it for name, it in values.items() if it is not None}, known.version


def _with(
    server: str, work: "Callable[[LimitCalls], Coroutine[Any, Any, R]]", as_json: bool
) -> R:
    from halfpast_api.limits.limit_calls import LimitCalls

    async def run() -> R:
        async with LimitCalls(server, retry_policy()) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)


def _print_json(value: Any) -> None:
    import msgspec

    print_json(msgspec.to_builtins(value))


def _print(one: "LimitsView", as_json: bool) -> None:
    if as_json:
        _print_json(one)
        return
    print_line(f"whose      {one.subject}")
    print_line(f"requests   {_rate(one.requests_per_s, one.request_burst)} a second")
    print_line(f"bytes      {_rate(one.bytes_per_s, one.byte_burst)} a second")
    print_line(f"pending    {_count(one.max_pending)}")
    print_line(f"delay      {_span(one.max_delay_ms)}")
    print_line(f"'{_AS_KIND}': as for all of the kind; they apply within a second")


def _print_own(own: "OwnLimitsView") -> None:
    if own.limits:
        names = ["limit", "set by", "requests/s", "left", "bytes/s", "left"]
        print_table([*names, "pending", "delay"], [_row(it) for it in own.limits])
    else:
        print_line("you have no limits but the server's own")
    if own.pending is not None:
        print_line(f"pending in the namespace: {own.pending}")
    server = own.server
    print_line(
        f"server: {server.event_bytes} bytes an event, {server.batch_events} events "
        f"and {server.batch_bytes} bytes a batch, {server.transaction_messages} "
        "messages a transaction"
    )


def _row(share: "ShareView") -> list[str]:
    return [
        share.subject,
        share.set_by,
        _rate(share.requests_per_s, share.request_burst),
        _count(share.requests_left),
        _rate(share.bytes_per_s, share.byte_burst),
        _count(share.bytes_left),
        _count(share.max_pending),
        _span(share.max_delay_ms),
    ]


def _rate(rate_per_s: float | None, burst: int | None) -> str:
    if rate_per_s is None:
        return _AS_KIND
    if not rate_per_s:
        return _NONE
    return f"{rate_per_s:g}" + (f" (burst {burst})" if burst else "")


def _count(value: int | None) -> str:
    return _AS_KIND if value is None else str(value)


def _span(ms: int | None) -> str:
    if ms is None:
        return _AS_KIND
    return show_span(timedelta(milliseconds=ms)) if ms else _NONE


def _delay_ms(text: str | None) -> int | None:
    if text is None or text == "0":
        return None if text is None else 0
    return round(parse_span(text) / timedelta(milliseconds=1))

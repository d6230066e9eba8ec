"""listen: forward what a topic gets to a local URL, for developing webhooks.

It reads the topic as `tail` does, so it disturbs no consumer and leaves no group
behind, and posts each message as an endpoint would be sent it, signed.
"""

import asyncio
import secrets
import signal
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from halfpast_api.cli_names import TopicName
from halfpast_api.cli_output import USAGE, AsJson, CommandFailed, print_json, print_line
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy
from halfpast_api.cli_times import parse_span

if TYPE_CHECKING:
    from halfpast_api.listen.forwarder import Forwarder, Target, Try

MODES = ("webhook", "cloudevents-binary", "cloudevents-structured")
EXAMPLE = "halfpast listen orders --forward http://localhost:3000/hook"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(listen)


def listen(
    topic: TopicName,
    forward: Annotated[
        str, typer.Option("--forward", metavar="URL", help="Where each message goes.")
    ],
    secret: Annotated[
        str | None,
        typer.Option(help="What signs: whsec_… (else one is made and shown)."),
    ] = None,
    mode: Annotated[str, typer.Option(help=", ".join(MODES) + ".")] = MODES[0],
    replay: Annotated[
        bool, typer.Option("--replay", help="Begin with the oldest that is kept.")
    ] = False,
    max_attempts: Annotated[
        int, typer.Option("--max-attempts", min=1, help="Then it is given up.")
    ] = 5,
    timeout: Annotated[str, typer.Option(help="For one call.")] = "15s",
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Forward each message of a topic to a local URL, signed. Ends with Ctrl-C."""

    def action() -> None:
        target = _target(forward, secret, mode, timeout, max_attempts)
        asyncio.run(_listen(server, topic, target, replay, as_json))

    guarded(action, server=server, as_json=as_json)


async def _listen(
    server: str, topic: str, target: "Target", replay: bool, as_json: bool
) -> None:
    from halfpast_api.listen.forwarder import Forwarder
    from halfpast_api.listen.topic_reader import TopicReader

    forwarder = Forwarder(
        _caller(target.url), target, lambda it: _show(it, as_json=as_json)
    )
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)

    def begun() -> None:
        _announce(topic, target, as_json=as_json)

    async with TopicReader(server, retry_policy(60.0)) as reader:
        reading = loop.create_task(
            reader.read(topic, forwarder.take, _tell, begun, replay=replay)
        )
        asking = loop.create_task(asked.wait())
        await asyncio.wait((reading, asking), return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        left = forwarder.waiting
        await forwarder.stop()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    if not reading.cancelled() and (error := reading.exception()) is not None:
        raise error
    _sum_up(forwarder, left, as_json=as_json)


def _target(
    url: str, secret: str | None, mode: str, timeout: str, max_attempts: int
) -> "Target":
    from halfpast_api.listen.forwarder import Target
    from halfpast_api.transactions.check_secrets import new_secret
    from halfpast_txn.signature import signed_headers

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandFailed(
            f"--forward {url!r} is no URL to post to", code=USAGE, hint=EXAMPLE
        )
    if mode not in MODES:
        raise CommandFailed(
            f"--mode {mode!r} is not known", code=USAGE, hint=f"--mode {MODES[0]}"
        )
    found = secret or new_secret(secrets.token_bytes)
    try:
        signed_headers((found,), "id", 0, b"")
    except ValueError as error:
        raise CommandFailed(
            f"--secret cannot sign: {error}", code=USAGE, hint="leave it out"
        ) from None
    return Target(
        url=url,
        secret=found,
        mode=mode,
        timeout_ms=round(parse_span(timeout).total_seconds() * 1000),
        attempts_max=max_attempts,
    )


def _caller(url: str) -> Any:
    """Whoever types a URL may call it: what guards servers guards nobody here."""
    from halfpast_api.push.caller import HttpCaller
    from halfpast_txn.address_rules import AllowList
    from halfpast_txn.http_request import HttpRequester
    from halfpast_txn.http_resolver import SystemLookup

    host = urlsplit(url).hostname or ""
    allow = AllowList.parse(f"[{host}]" if ":" in host else host)
    return HttpCaller(HttpRequester(allow, SystemLookup(), None))


def _announce(topic: str, target: "Target", *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "listening": topic,
                "forward": target.url,
                "mode": target.mode,
                "secret": target.secret,
            }
        )
        return
    print_line(f"forwarding {topic} to {target.url}; Ctrl-C ends it")
    print_line(f"signing secret: {target.secret}")
    print_line("")


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _show(one: "Try", *, as_json: bool) -> None:
    found, message = one.found, one.message
    if as_json:
        print_json(
            {
                "id": message.event_id,
                "topic": message.topic,
                "attempt": one.number,
                "state": one.state,
                "status": found.status,
                "duration_ms": found.duration_ms,
                "error": found.error,
                "response": found.response,
                "again_ms": one.again_ms,
            }
        )
        return
    print_line(try_line(one))


def try_line(one: "Try") -> str:
    """One attempt for people: status, duration, what came back, what is next."""
    found = one.found
    status = str(found.status) if found.status else "---"
    words = ["POST", status, f"{found.duration_ms:>5} ms", one.message.event_id]
    said = found.response or ("" if found.is_delivered else found.error)
    if said:
        words.append(said if len(said) <= 60 else said[:59] + "…")
    if one.again_ms is not None:
        again_s = one.again_ms / 1000
        words.append(f"attempt {one.number} failed, again in {again_s:.1f} s")
    elif not found.is_delivered:
        words.append(f"given up after {one.number}")
    return "  ".join(words)


def _sum_up(forwarder: "Forwarder", left: int, *, as_json: bool) -> None:
    counts = {
        "delivered": forwarder.delivered,
        "given_up": forwarder.given_up,
        "not_delivered": left,
    }
    if as_json:
        print_json(counts)
        return
    text = f"{forwarder.delivered} delivered, {forwarder.given_up} given up"
    typer.echo(text + (f", {left} waited for another try" if left else ""), err=True)

"""keys create, list, show, rotate, revoke; whoami.

With a server (--server, or a key in the environment) these ask that. Without, they
work on the metadata database of the data folder: so the first key can be made.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_credentials import API_KEY
from halfpast_api.cli_output import (
    REFUSED,
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_serve_options import DATA, Data, Metadata
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy

if TYPE_CHECKING:
    from halfpast_api.access.access_calls import AccessCalls
    from halfpast_api.access.key_bodies import KeyView, NewKeyView
    from halfpast_api.access.local_keys import LocalKeys

    Keys = AccessCalls | LocalKeys

R = TypeVar("R")

AnyServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Ask this server, instead of opening its metadata database.",
        show_default=False,
    ),
]
KeyId = Annotated[
    str, typer.Argument(metavar="ID", help="The 8 characters behind hp_.")
]


def register(app: typer.Typer) -> None:
    """Add `keys` with its commands, and `whoami`."""
    keys = typer.Typer(
        name="keys",
        help="API keys: who may do what. With --server, or HALFPAST_API_KEY, asks a "
        "server; otherwise works on the metadata database in --data.",
        no_args_is_help=True,
    )
    keys.command("list")(list_keys)
    for command in (create, show, rotate, revoke):
        keys.command()(command)
    app.add_typer(keys)
    app.command()(whoami)


def create(
    admin: Annotated[
        bool,
        typer.Option("--admin", help="May do everything, in all namespaces."),
    ] = False,
    role: Annotated[
        str | None, typer.Option(help="read-only, operator, or admin.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="publish:orders-*, consume, read, …; several are taken."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="The only namespace in which it counts.")
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", help="It counts in every namespace.")
    ] = False,
    view_payload: Annotated[
        bool, typer.Option("--view-payload", help="It may look at payload.")
    ] = False,
    expires_in: Annotated[
        str | None, typer.Option(help="30d, 12h, or ISO 8601; without, it stays.")
    ] = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. Its secret is shown this once."""

    def wanted() -> dict[str, Any]:
        from halfpast_api.cli_times import parse_span

        if admin and (role or scope or namespace):
            raise CommandFailed(
                "--admin says it all: it goes without --role, --scope and --namespace",
                code=USAGE,
            )
        if not (admin or role or scope):
            raise CommandFailed(
                "say what the key may do",
                code=USAGE,
                hint="--role operator, or --scope 'publish:orders-*' --scope consume, "
                "or --admin",
            )
        found: dict[str, Any] = {
            "description": description,
            "view_payload": view_payload or admin,
            "all_namespaces": all_namespaces or admin,
        }
        if admin or role:
            found["role"] = "admin" if admin else role
        if scope:
            found["scopes"] = scope
        if namespace is not None:
            found["namespace"] = namespace
        if expires_in is not None:
            seconds = parse_span(expires_in).total_seconds()
            found["expires_in"] = f"PT{seconds:.3f}S"
        return found

    async def work(keys: "Keys") -> "NewKeyView":
        return await keys.create(wanted())

    new = _with(work, server, data, metadata, as_json)
    _print_new(new, as_json)


def list_keys(
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """List all keys, without secrets."""

    async def work(keys: "Keys") -> "list[KeyView]":
        return await keys.keys()

    found = _with(work, server, data, metadata, as_json)
    if as_json:
        for key in found:
            _print_one(key)
        return
    if not found:
        print_line("no keys; make one with 'halfpast keys create --admin'")
        return
    rows = [
        [
            key.id,
            key.state,
            _place(key),
            key.role or " ".join(key.scopes),
            key.expires_at or "never",
            key.last_used_at or "never",
            key.description,
        ]
        for key in found
    ]
    columns = ["id", "state", "namespace", "may", "expires", "last used", "for"]
    print_table(columns, rows)


def show(
    key: KeyId,
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Show one key, without its secret."""

    async def work(keys: "Keys") -> "KeyView":
        return await keys.show(key)

    _print(_with(work, server, data, metadata, as_json), as_json)


def rotate(
    key: KeyId,
    keep_old: Annotated[
        str, typer.Option(help="How long the old secret still counts; 0s: not at all.")
    ] = "24h",
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Give a key a new secret, which is shown this once."""

    async def work(keys: "Keys") -> "NewKeyView":
        from halfpast_api.cli_times import parse_span

        keep_old_ms = round(parse_span(keep_old).total_seconds() * 1000)
        return await keys.rotate(key, keep_old_ms)

    _print_new(_with(work, server, data, metadata, as_json), as_json)


def revoke(
    key: KeyId,
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """End a key, at once and for good."""

    async def work(keys: "Keys") -> "KeyView":
        return await keys.revoke(key)

    revoked = _with(work, server, data, metadata, as_json)
    if as_json:
        _print_one(revoked)
    else:
        print_line(f"{revoked.id} is revoked; servers heed that within a second or two")


def whoami(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Show who you are to a server, and what that allows."""
    from halfpast_api.access.access_calls import AccessCalls

    async def ask() -> Any:
        async with AccessCalls(server, retry_policy()) as calls:
            return await calls.who()

    who = guarded(lambda: asyncio.run(ask()), server=server, as_json=as_json)
    if as_json:
        _print_one(who)
        return
    if who.mode == "open":
        print_line("anybody: this server asks nobody for a key")
        return
    place = "all namespaces" if who.all_namespaces else who.namespace or "default"
    print_line(f"who        {who.actor}")
    print_line(f"namespace  {place}")
    print_line(f"may        {who.role or ' '.join(who.scopes)}")
    print_line(f"payload    {'yes' if who.view_payload else 'no'}")


def _with(
    work: "Callable[[Keys], Coroutine[Any, Any, R]]",
    server: str | None,
    data: Path,
    metadata: str | None,
    as_json: bool,
) -> R:
    """Run `work` with whatever keeps the keys."""
    named = server or os.environ.get("HALFPAST_URL")
    if named is None and API_KEY in os.environ:
        named = DEFAULT_SERVER

    async def run() -> R:
        from halfpast_api.access.access_calls import AccessCalls
        from halfpast_api.access.local_keys import LocalKeys

        if named is not None:
            async with AccessCalls(named, retry_policy()) as calls:
                return await work(calls)
        from halfpast_api.places import Places

        places = Places.below(data, metadata=metadata)
        if metadata is None:
            places.prepare()
        async with LocalKeys(places.metadata) as keys:
            return await work(keys)

    return guarded(
        lambda: _explained(run), server=named or DEFAULT_SERVER, as_json=as_json
    )


def _explained(run: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """What the database or its rules refuse, as a failure of the command."""
    from halfpast_api.metadata.errors import MetadataError
    from halfpast_api.problems import Refusal

    try:
        return asyncio.run(run())
    except Refusal as refusal:
        raise CommandFailed(refusal.detail, code=REFUSED) from None
    except MetadataError as error:
        raise CommandFailed(str(error), code=REFUSED) from None


def _place(key: "KeyView") -> str:
    return "all" if key.all_namespaces else key.namespace or "default"


def _print_one(value: Any) -> None:
    import msgspec

    print_json(msgspec.to_builtins(value))


def _print_new(new: "NewKeyView", as_json: bool) -> None:
    if as_json:
        _print_one(new)
        return
    _print(new, False)
    print_line("")
    print_line(f"  {new.secret}")
    print_line("")
    print_line("This is the only time that it is shown. To use it:")
    print_line(f"  export {API_KEY}={new.secret}")


def _print(key: "KeyView", as_json: bool) -> None:
    if as_json:
        _print_one(key)
        return
    lines = {
        "id": key.id,
        "state": key.state,
        "for": key.description,
        "namespace": _place(key),
        "may": key.role or " ".join(key.scopes),
        "payload": "yes" if key.view_payload else "no",
        "secrets": ", ".join(
            it.prefix + (f" (until {it.expires_at})" if it.expires_at else "")
            for it in key.secrets
        ),
        "made": f"{key.created_at} by {key.created_by}",
        "expires": key.expires_at or "never",
        "last used": key.last_used_at or "never",
        "revoked": key.revoked_at or "",
    }
    for name, value in lines.items():
        if value:
            print_line(f"{name:<10} {value}")

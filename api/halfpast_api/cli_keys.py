"""keys create, list, show, rotate, revoke, rotate-signing, drop-signing; whoami.

With a server (--server, or a key in the environment) these ask that. Without, they
work on the metadata database of the data folder: so the first key can be made.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfpast_api.cli_key_source import AnyServer, KeyId, with_keys
from halfpast_api.cli_key_view import place_of, print_key, print_new, print_one
from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_line,
    print_table,
)
from halfpast_api.cli_serve_options import DATA, Data, Metadata
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy
from halfpast_api.cli_signing import KeepOld, drop_signing, keep_old_ms, rotate_signing

if TYPE_CHECKING:
    from halfpast_api.access.key_bodies import KeyView, NewKeyView
    from halfpast_api.cli_key_source import Keys


_RIGHTS_HINT = (
    "--role operator, or --scope 'publish:orders-*' --scope consume, or --admin"
)


def register(app: typer.Typer) -> None:
    """Add `keys` with its commands, and `whoami`."""
    keys = typer.Typer(
        name="keys",
        help="API keys: who may do what. With --server, or HALFPAST_API_KEY, asks a "
        "server; otherwise works on the metadata database in --data.",
        no_args_is_help=True,
    )
    keys.command("list")(list_keys)
    for command in (create, show, rotate, revoke, rotate_signing, drop_signing):
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
    signing: Annotated[
        bool,
        typer.Option("--signing", help="It also signs, for clients of RocketMQ."),
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
                "say what the key may do", code=USAGE, hint=_RIGHTS_HINT
            )
        found: dict[str, Any] = {
            "description": description,
            "view_payload": view_payload or admin,
            "all_namespaces": all_namespaces or admin,
            "signing": signing,
            "role": "admin" if admin else role,
            "scopes": scope or None,
            "namespace": namespace,
        }
        if expires_in is not None:
            seconds = parse_span(expires_in).total_seconds()
            found["expires_in"] = f"PT{seconds:.3f}S"
        return {name: it for name, it in found.items() if it is not None}

    async def work(keys: "Keys") -> "NewKeyView":
        return await keys.create(wanted())

    new = with_keys(work, server, data, metadata, as_json)
    print_new(new, as_json)


def list_keys(
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """List all keys, without secrets."""

    async def work(keys: "Keys") -> "list[KeyView]":
        return await keys.keys()

    found = with_keys(work, server, data, metadata, as_json)
    if as_json:
        for key in found:
            print_one(key)
        return
    if not found:
        print_line("no keys; make one with 'halfpast keys create --admin'")
        return
    rows = [
        [
            key.id,
            key.state,
            place_of(key),
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

    print_key(with_keys(work, server, data, metadata, as_json), as_json)


def rotate(
    key: KeyId,
    keep_old: KeepOld = "24h",
    server: AnyServer = None,
    data: Data = DATA,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Give a key a new secret, which is shown this once."""

    async def work(keys: "Keys") -> "NewKeyView":
        return await keys.rotate(key, keep_old_ms(keep_old))

    print_new(with_keys(work, server, data, metadata, as_json), as_json)


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

    revoked = with_keys(work, server, data, metadata, as_json)
    if as_json:
        print_one(revoked)
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
        print_one(who)
        return
    if who.mode == "open":
        print_line("anybody: this server asks nobody for a key")
        return
    place = "all namespaces" if who.all_namespaces else who.namespace or "default"
    print_line(f"who        {who.actor}")
    print_line(f"namespace  {place}")
    print_line(f"may        {who.role or ' '.join(who.scopes)}")
    print_line(f"payload    {'yes' if who.view_payload else 'no'}")

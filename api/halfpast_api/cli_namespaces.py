"""namespaces create, list, show, suspend, resume, delete."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from halfpast_api.cli_output import AsJson, print_json, print_line, print_table
from halfpast_api.cli_server import DEFAULT_SERVER, Server, guarded, retry_policy

if TYPE_CHECKING:
    from halfpast_api.access.access_calls import AccessCalls
    from halfpast_api.access.namespace_handlers import NamespaceView

R = TypeVar("R")

Name = Annotated[str, typer.Argument(metavar="NAMESPACE")]


def register(app: typer.Typer) -> None:
    """Add `namespaces` with its commands."""
    namespaces = typer.Typer(
        name="namespaces",
        help="Namespaces: tenants that cannot see each other.",
        no_args_is_help=True,
    )
    namespaces.command("list")(list_namespaces)
    for command in (create, show, suspend, resume, delete):
        namespaces.command()(command)
    app.add_typer(namespaces)


def create(
    name: Name,
    description: Annotated[str, typer.Option(help="Whose it is.")] = "",
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Make a namespace."""
    wanted = {"description": description}
    made = _with(
        server, lambda it: it.put_namespace(name, wanted, create=True), as_json
    )
    if as_json:
        _print_json(made)
        return
    print_line(f"the namespace {made.name} is there; a key for it:")
    print_line(f"  halfpast keys create --role operator --namespace {made.name}")


def list_namespaces(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List all namespaces but the default one."""
    found = _with(server, lambda it: it.namespaces(), as_json)
    if as_json:
        for one in found:
            _print_json(one)
        return
    if not found:
        print_line(
            "only the default one; make another: halfpast namespaces create NAME"
        )
        return
    rows = [
        [
            it.name,
            "suspended" if it.suspended else "open",
            it.created_at,
            it.description,
        ]
        for it in found
    ]
    print_table(["name", "state", "made", "for"], rows)


def show(name: Name, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Show one namespace."""
    _print(_with(server, lambda it: it.namespace(name), as_json), as_json)


def suspend(
    name: Name, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Let nobody in; what is scheduled is delivered all the same."""
    _print(_set(name, server, as_json, suspended=True), as_json)


def resume(
    name: Name, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Let its keys in again."""
    _print(_set(name, server, as_json, suspended=False), as_json)


def delete(
    name: Name, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Delete an empty namespace."""
    _with(server, lambda it: it.delete_namespace(name), as_json)
    if as_json:
        print_json({"name": name, "outcome": "deleted"})
    else:
        print_line(f"the namespace {name} is deleted")


def _set(name: str, server: str, as_json: bool, *, suspended: bool) -> "NamespaceView":
    async def work(calls: "AccessCalls") -> "NamespaceView":
        before = await calls.namespace(name)
        wanted = {"description": before.description, "suspended": suspended}
        return await calls.put_namespace(name, wanted)

    return _with(server, work, as_json)


def _with(
    server: str,
    work: "Callable[[AccessCalls], Coroutine[Any, Any, R]]",
    as_json: bool,
) -> R:
    from halfpast_api.access.access_calls import AccessCalls

    async def run() -> R:
        async with AccessCalls(server, retry_policy()) as calls:
            return await work(calls)

    return guarded(lambda: asyncio.run(run()), server=server, as_json=as_json)


def _print_json(value: Any) -> None:
    import msgspec

    print_json(msgspec.to_builtins(value))


def _print(one: "NamespaceView", as_json: bool) -> None:
    if as_json:
        _print_json(one)
        return
    print_line(f"name   {one.name}")
    print_line(f"state  {'suspended' if one.suspended else 'open'}")
    print_line(f"for    {one.description}")
    print_line(f"made   {one.created_at}")

"""context add, use, list, show, remove: servers by name."""

import os
from collections.abc import Callable
from typing import Annotated

import typer

from halfpast_api.cli_candidates import contexts as candidates
from halfpast_api.cli_output import (
    USAGE,
    AsJson,
    CommandFailed,
    print_json,
    print_line,
    print_table,
)
from halfpast_api.cli_server import guarded
from halfpast_api.contexts import (
    NAME,
    Context,
    ContextError,
    Contexts,
    contexts_path,
    find,
    load,
    save,
)

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=candidates)]
OptionalName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", autocompletion=candidates)
]


def register(app: typer.Typer) -> None:
    """Add `context` with its commands."""
    context = typer.Typer(
        name="context",
        help="Contexts: servers by name, with the key for each.",
        no_args_is_help=True,
    )
    context.command("list")(list_contexts)
    for command in (add, use, show, remove):
        context.command()(command)
    app.add_typer(context)


def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    server: Annotated[str, typer.Argument(metavar="URL", help="Where it listens.")],
    namespace: Annotated[
        str, typer.Option(help="Where to act, for keys of the whole suite.")
    ] = "",
    ask_key: Annotated[
        bool, typer.Option("--ask-key", help="Ask for the key, without showing it.")
    ] = False,
    use_it: Annotated[bool, typer.Option("--use", help="And use it.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of one of this name.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add a server. Its key: --ask-key, or --api-key, which others can see."""
    given = context.find_root().params.get("api_key")

    def action() -> None:
        key = typer.prompt("API key", hide_input=True) if ask_key else given or ""
        made = _checked(name, Context(server.rstrip("/"), key, namespace))
        path = contexts_path()
        known = load(path)
        if name in known.contexts and not replace:
            raise ContextError(
                f"there is a context {name!r} already, for "
                f"{known.contexts[name].server}",
                f"halfpast context add {name} {server} --replace",
            )
        current = name if use_it else known.current
        save(path, Contexts(current, {**known.contexts, name: made}))
        _print(name, made, as_json=as_json, is_current=current == name)

    _guarded(action, as_json)


def use(
    name: OptionalName = None,
    none: Annotated[
        bool, typer.Option("--none", help="Use none: the environment, or this machine.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Have all commands call this server, unless the environment names another."""

    def action() -> None:
        if none == (name is not None):
            raise ContextError("say which: a name, or --none", "halfpast context list")
        path = contexts_path()
        known = load(path)
        if name is not None:
            found = find(known, name)
            save(path, Contexts(name, known.contexts))
            _print(name, found, as_json=as_json, is_current=True)
        else:
            save(path, Contexts("", known.contexts))
            if as_json:
                print_json({"current": ""})
            else:
                print_line("no context is in use")
        _warn_of_environment()

    _guarded(action, as_json)


def list_contexts(as_json: AsJson = False) -> None:
    """List all contexts; * is the one in use."""

    def action() -> None:
        known = load(contexts_path())
        if as_json:
            for name, one in sorted(known.contexts.items()):
                _print(name, one, as_json=True, is_current=name == known.current)
        elif not known.contexts:
            typer.echo("no contexts", err=True)
            typer.echo("try:   halfpast context add NAME URL", err=True)
        else:
            rows = [
                [
                    "*" if name == known.current else "",
                    *(name, one.server, one.namespace, one.shown_key),
                ]
                for name, one in sorted(known.contexts.items())
            ]
            print_table(["", "name", "server", "namespace", "key"], rows)
            _warn_of_environment()

    _guarded(action, as_json)


def show(name: OptionalName = None, as_json: AsJson = False) -> None:
    """Show a context, or the one in use; of its key the beginning."""

    def action() -> None:
        known = load(contexts_path())
        wanted = name or known.current
        if not wanted:
            raise ContextError("no context is in use", "halfpast context list")
        found = find(known, wanted)
        _print(wanted, found, as_json=as_json, is_current=wanted == known.current)

    _guarded(action, as_json)


def remove(name: Name, as_json: AsJson = False) -> None:
    """Forget a server and its key."""

    def action() -> None:
        path = contexts_path()
        known = load(path)
        find(known, name)
        left = {it: one for it, one in known.contexts.items() if it != name}
        save(path, Contexts("" if known.current == name else known.current, left))
        if as_json:
            print_json({"removed": name})
        else:
            print_line(f"removed {name}")

    _guarded(action, as_json)


def _guarded(action: Callable[[], None], as_json: bool) -> None:
    def told() -> None:
        try:
            action()
        except ContextError as error:
            raise CommandFailed(error.text, code=USAGE, hint=error.hint) from None

    guarded(told, server="", as_json=as_json)


def _checked(name: str, context: Context) -> Context:
    """The context, if it can be used. Raises ContextError and ValueError."""
    import halfpast

    if not NAME.fullmatch(name):
        raise ContextError(
            f"{name!r} cannot name a context: letters, digits, - _ and .",
            "halfpast context add staging https://halfpast.example.org",
        )
    halfpast.Client(
        context.server, api_key=context.api_key, namespace=context.namespace
    )
    return context


def _print(name: str, one: Context, *, as_json: bool, is_current: bool) -> None:
    if as_json:
        print_json(
            {
                "name": name,
                "server": one.server,
                "namespace": one.namespace,
                "key": one.shown_key,
                "current": is_current,
            }
        )
        return
    words = [name, one.server]
    words += [f"namespace {one.namespace}"] if one.namespace else []
    words += [f"key {one.shown_key}"] if one.api_key else []
    words += ["(in use)"] if is_current else []
    print_line("  ".join(words))


def _warn_of_environment() -> None:
    """What is in use counts less than the environment, which is easily forgotten."""
    named = [it for it in ("HALFPAST_URL", "HALFPAST_CONTEXT") if os.environ.get(it)]
    if named:
        typer.echo(f"note: {named[0]} is set, and counts first", err=True)

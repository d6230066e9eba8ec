"""Which server commands call, with which key: options of all commands, wherever they
stand.

    halfpast --api-key hp_… list          halfpast list --api-key hp_…
    halfpast --context staging list       halfpast list --context staging

They become what the environment would say, so every client of every command has them.
A key in the environment is better: other users of the machine can see command lines.
"""

import os
from collections.abc import MutableMapping, Sequence

import typer
import typer.core
from typer import Context

from halfpast_api.cli_output import USAGE, CommandFailed, print_failure
from halfpast_api.contexts import ContextError, contexts_path, environment_of

API_KEY = "HALFPAST_API_KEY"
_OPTIONS = ("--api-key", "--context")
_SERVER = "--server"
_HAS_SERVER = "halfpast.has_server"
_LOCAL = frozenset(
    {
        *("dev", "up", "broker", "chronos", "txn", "push", "api"),
        *("context", "completion", "version"),
    }
)
"""Commands that call no server: contexts are nothing to them."""


class RootGroup(typer.core.TyperGroup):
    """The command `halfpast`: takes its options also behind the name of a command."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.meta[_HAS_SERVER] = any(
            it == _SERVER or it.startswith(_SERVER + "=") for it in args
        )
        return super().parse_args(ctx, hoisted(args))


def hoisted(words: Sequence[str]) -> list[str]:
    """The same command line with those options in front; not what is behind `--`."""
    end = words.index("--") if "--" in words else len(words)
    front: list[str] = []
    rest: list[str] = []
    at = 0
    while at < end:
        word = words[at]
        if word in _OPTIONS and at + 1 < end:
            front += [word, words[at + 1]]
            at += 1
        elif word.startswith(tuple(f"{it}=" for it in _OPTIONS)):
            front.append(word)
        else:
            rest.append(word)
        at += 1
    return [*front, *rest, *words[end:]]


def server_is_named(ctx: Context) -> bool:
    """Whether the command line says which server."""
    return bool(ctx.meta.get(_HAS_SERVER))


def use(
    api_key: str | None,
    context_name: str | None = None,
    *,
    command: str | None = None,
    has_server: bool = False,
    environment: MutableMapping[str, str] = os.environ,
) -> None:
    """Have all clients of this process call the server of the context, with this key.
    A failure of the command if there is no such context."""
    if command not in _LOCAL:
        try:
            environment.update(
                environment_of(
                    context_name,
                    has_server=has_server,
                    environment=environment,
                    path=contexts_path(environment),
                )
            )
        except ContextError as error:
            failed = CommandFailed(error.text, code=USAGE, hint=error.hint)
            print_failure(failed, as_json=False)
            raise typer.Exit(USAGE) from None
    if api_key is not None:
        environment[API_KEY] = api_key

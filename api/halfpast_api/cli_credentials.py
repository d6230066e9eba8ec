"""With which key commands call a server: options of all commands, wherever they stand.

    halfpast --api-key hp_… list          halfpast list --api-key hp_…

They become what the environment would say, so every client of every command has them.
A key in the environment is better: other users of the machine can see command lines.
"""

import os
from collections.abc import MutableMapping, Sequence

import typer
import typer.core
from typer import Context

API_KEY = "HALFPAST_API_KEY"
_OPTION = "--api-key"


class RootGroup(typer.core.TyperGroup):
    """The command `halfpast`: takes `--api-key` also behind the name of a command."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, hoisted(args))


def hoisted(words: Sequence[str]) -> list[str]:
    """The same command line with the option at its front. What is behind `--` stays."""
    end = words.index("--") if "--" in words else len(words)
    front: list[str] = []
    rest: list[str] = []
    at = 0
    while at < end:
        word = words[at]
        if word == _OPTION and at + 1 < end:
            front += [word, words[at + 1]]
            at += 1
        elif word.startswith(_OPTION + "="):
            front.append(word)
        else:
            rest.append(word)
        at += 1
    return [*front, *rest, *words[end:]]


def use(
    api_key: str | None, environment: MutableMapping[str, str] = os.environ
) -> None:
    """Have all clients of this process call with this key."""
    if api_key is not None:
        environment[API_KEY] = api_key

"""The command line as a page, out of its typer application."""

from collections.abc import Iterator
from typing import Any

import typer
from scripts.reference.tables import code, table

from halfpast_api.cli import app

_TEXT = """# Command line

Every command has `--help`. Those that talk to a server find it by `--server` or
`HALFPAST_URL`; `--json` prints one JSON object a line, for scripts. The exit status is
0 if it worked, 1 if what was asked for was refused or is not so, 2 for wrong options.
"""


def cli_page() -> str:
    """All commands."""
    root: Any = typer.main.get_command(app)
    return "\n\n".join([_TEXT, *_commands("halfpast", root, 2)]) + "\n"


def _commands(path: str, command: Any, level: int) -> Iterator[str]:
    for name, inner in command.commands.items():
        if inner.hidden:
            continue
        words = f"{path} {name}"
        yield f"{'#' * level} {words}"
        yield _prose(inner.help or "")
        if hasattr(inner, "commands"):
            yield from _commands(words, inner, level + 1)
        else:
            yield _usage(words, inner)
            yield _options(inner)


def _usage(words: str, command: Any) -> str:
    shown = [_argument(it) for it in command.params if it.param_type_name == "argument"]
    return "`" + " ".join([words, *shown, "[OPTIONS]"]) + "`"


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.required else f"[{name.strip('[]')}]"


def _options(command: Any) -> str:
    rows = [
        (
            code(", ".join([*it.opts, *it.secondary_opts])),
            _default(it),
            code(_variable(it)),
            _prose(getattr(it, "help", "") or ""),
        )
        for it in command.params
        if it.param_type_name == "option"
    ]
    return table(("Option", "Default", "Variable", "Meaning"), rows)


def _default(parameter: Any) -> str:
    default = parameter.default
    if callable(default) or default in (None, False, ()):
        return ""
    return code(str(default))


def _variable(parameter: Any) -> str:
    found = getattr(parameter, "envvar", None) or ""
    return found if isinstance(found, str) else ", ".join(found)


def _prose(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())

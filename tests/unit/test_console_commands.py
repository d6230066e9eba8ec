"""Commands that pages tell people to try are commands."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from halfpast_api.cli import app
from halfpast_api.console.page_names import TEMPLATES

SHOWN = re.compile(r"halfpast [a-z][^\n<]*")


def shown() -> list[str]:
    """All of them, up to what ends the text around them."""
    found: set[str] = set()
    for path in Path(TEMPLATES).rglob("*.html"):
        for text in SHOWN.findall(path.read_text("utf-8")):
            command = re.split(r'"(?=[,) ~>])|\)</', text.replace('\\"', "~"))[0]
            if command.count("'") % 2 == 0:
                found.add(command.strip())
    return sorted(found)


@pytest.mark.parametrize("text", shown())
def test_a_command_that_is_shown_is_one(text: str) -> None:
    words = shlex.split(text)[1:]
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, text
        command = command.commands[name]
    options = {it for param in command.params for it in param.opts}
    for word in words:
        if word.startswith("--"):
            assert word in options, text

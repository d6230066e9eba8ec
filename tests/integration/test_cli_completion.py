"""What shells are told: commands, options, and names from the server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import halfpast

PROGRAM = Path(sys.executable).parent / "halfpast"
# Completes each line of standard input, with real bash.
BASH = """
eval "$(halfpast completion bash)"
while IFS= read -r line; do
    IFS='|' read -r -a COMP_WORDS <<< "$line|"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _halfpast_completion halfpast
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with halfpast.embedded() as mq:
        mq.client.publish("hello", 1)
        mq.client.publish("orders", 1)
        mq.client.pop("mailers", "hello")
        yield mq.url


def environment(home: Path, **more: str) -> dict[str, str]:
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
    ours = {k: v for k, v in os.environ.items() if not k.startswith("HALFPAST_")}
    return {**ours, "PATH": path, "XDG_CONFIG_HOME": str(home), **more}


def asked(home: Path, *lines: str, **more: str) -> list[list[str]]:
    """What bash offers for each line; its words have | between them."""
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH],
        input="".join(f"halfpast|{line}\n" for line in lines),
        env=environment(home, **more),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


def test_bash_completes_commands_options_and_names(tmp_path: Path, server: str) -> None:
    found = asked(
        tmp_path,
        "dead-l",
        "clock|",
        "dev|--cl",
        "tail|o",
        "pop|",
        "list|--topic|",
        "completion|",
        HALFPAST_URL=server,
    )
    assert found == [
        ["dead-letters"],
        ["show", "advance", "set"],
        ["--clock"],
        ["orders"],
        ["mailers"],
        ["hello", "orders"],
        ["bash", "zsh", "fish"],
    ]


def test_names_come_from_the_server_that_the_line_names(
    tmp_path: Path, server: str
) -> None:
    add = [str(PROGRAM), "context", "add", "here", server]
    subprocess.run(add, env=environment(tmp_path), check=True, capture_output=True)
    found = asked(
        tmp_path,
        "tail|--context|here|h",
        "context|use|",
        "--context|",
        f"tail|--server|{server}|h",
    )
    assert found == [["hello"], ["here"], ["here"], ["hello"]]


def test_a_server_that_is_away_offers_nothing_and_says_nothing(tmp_path: Path) -> None:
    found = asked(tmp_path, "tail|h", "version|", HALFPAST_URL="http://127.0.0.1:9")
    assert found == [[], []]


@pytest.mark.parametrize(
    ("shell", "sign"), [("zsh", "#compdef halfpast"), ("fish", "complete --command")]
)
def test_other_shells_are_told_as_well(
    tmp_path: Path, server: str, shell: str, sign: str
) -> None:
    more = {"HALFPAST_URL": server}

    def said(*words: str, **asks: str) -> str:
        return subprocess.run(
            [str(PROGRAM), *words],
            env=environment(tmp_path, **more, **asks),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    assert sign in said("completion", shell)
    line = {
        "_HALFPAST_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "halfpast tail or",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    assert "orders" in said(**line)
    assert "hello" not in said(**line)

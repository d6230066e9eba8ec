"""completion: what makes a shell complete commands, options and names."""

import os
from typing import Annotated, Literal

import typer

VARIABLE = "_HALFPAST_COMPLETE"
"""By which the shell asks, and is told what to load."""


def register(app: typer.Typer) -> None:
    """Add the command of this module."""

    def completion(
        shell: Annotated[
            Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish")
        ],
    ) -> None:
        """Print what makes a shell complete our commands, options, topics and groups.

        bash, zsh: eval "$(halfpast completion bash)", or zsh, in ~/.bashrc or ~/.zshrc.
        fish: halfpast completion fish > ~/.config/fish/completions/halfpast.fish
        """
        os.environ[VARIABLE] = f"source_{shell}"
        app(args=[], prog_name="halfpast")

    app.command()(completion)

"""The command `halfpast`.

Each `cli_<noun>.py` holds the commands about one noun and registers them here. They
load what they need when they run, so that `halfpast --help` is quick.
"""

from typing import Annotated

import typer

from halfpast_api import (
    cli_audit,
    cli_backup,
    cli_bench,
    cli_bulk,
    cli_change,
    cli_clock,
    cli_completion,
    cli_context,
    cli_dead_letters,
    cli_doctor,
    cli_due,
    cli_endpoints,
    cli_events,
    cli_export,
    cli_group_settings,
    cli_groups,
    cli_import,
    cli_keys,
    cli_limits,
    cli_listen,
    cli_namespaces,
    cli_producer_groups,
    cli_schedule,
    cli_serve,
    cli_tail,
    cli_topic,
    cli_trail,
    cli_tx,
)
from halfpast_api.cli_candidates import contexts
from halfpast_api.cli_credentials import RootGroup, server_is_named, use
from halfpast_api.cli_output import AsJson, print_json, print_line

app = typer.Typer(
    name="halfpast",
    cls=RootGroup,
    help=(
        "Delayed and transactional messages, delivered to the millisecond and kept "
        "through every crash."
    ),
    epilog="Start with: halfpast dev",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback is for us: all of it, and plain
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Show which release this is."""
    import platform
    from importlib.metadata import version as version_of

    found = version_of("halfpast")
    if as_json:
        print_json({"version": found, "python": platform.python_version()})
    else:
        print_line(f"halfpast {found} (Python {platform.python_version()})")


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show which release this is.")
    ] = False,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            help="What to call the server with; better in HALFPAST_API_KEY.",
        ),
    ] = None,
    context_name: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="Which server to call: see 'halfpast context'.",
            autocompletion=contexts,
        ),
    ] = None,
) -> None:
    use(
        api_key,
        context_name,
        command=context.invoked_subcommand,
        has_server=server_is_named(context),
    )
    if show_version:
        version()
        raise typer.Exit


def main() -> None:
    """The entry point; `python -m halfpast_api.cli` is the same."""
    app()


for module in (
    cli_serve,
    cli_events,
    cli_change,
    cli_tail,
    cli_listen,
    cli_groups,
    cli_group_settings,
    cli_tx,
    cli_producer_groups,
    cli_topic,
    cli_endpoints,
    cli_dead_letters,
    cli_schedule,
    cli_due,
    cli_bulk,
    cli_import,
    cli_export,
    cli_doctor,
    cli_backup,
    cli_audit,
    cli_keys,
    cli_namespaces,
    cli_limits,
    cli_trail,
    cli_clock,
    cli_context,
    cli_completion,
    cli_bench,
):
    module.register(app)

if __name__ == "__main__":
    main()

"""What `halfpast NAME …` does for a service, without the other commands.

The nursery's forks begin so. To load and lay out all the other commands first takes as
long as to load what a service is made of.
"""

import sys
from importlib import import_module


def serve() -> None:
    """Run the service that the first argument names; see `load_structlog`."""
    import typer

    from halfpast_api import cli_serve

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    services = (
        cli_serve.broker,
        cli_serve.chronos,
        cli_serve.txn,
        cli_serve.push,
        cli_serve.api,
    )
    by_name = {service.__name__: service for service in services}
    app.command()(by_name[sys.argv.pop(1)])
    app()


def load_structlog() -> None:
    """Without rich, with which it could draw tracebacks that we do not want drawn."""
    was_loaded = "rich" in sys.modules
    if not was_loaded:
        sys.modules["rich"] = None  # type: ignore[assignment]  # not to be found
    import_module("structlog")
    if not was_loaded:
        del sys.modules["rich"]

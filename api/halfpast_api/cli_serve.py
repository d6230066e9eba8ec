"""dev, up, broker, chronos, api: the commands that run the suite.

What is rarely changed has no option but an environment variable, named after its
field in the config dataclasses: see `environment.py`.
"""

import ipaddress
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfpast_api.cli_output import (
    FOLDER_UNUSABLE,
    INTERRUPTED,
    REFUSED,
    STORE_FAILED,
    USAGE,
    AsJson,
    CommandFailed,
    print_failure,
    print_json,
    print_line,
)

if TYPE_CHECKING:
    from halfpast_api.config import ApiConfig
    from halfpast_api.processes import Places

Data = Annotated[
    Path, typer.Option("--data", envvar="HALFPAST_DATA", help="The data folder.")
]
Host = Annotated[
    str, typer.Option("--host", envvar="HALFPAST_HOST", help="Where HTTP listens.")
]
Port = Annotated[
    int,
    typer.Option("--port", envvar="HALFPAST_PORT", min=0, max=65535, help="0: any."),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "--broker",
        envvar="HALFPAST_BROKER",
        help="The broker's address: unix:PATH or tcp:HOST:PORT.",
        show_default="unix:DATA/run/broker.sock",
    ),
]
Chronos = Annotated[
    str | None,
    typer.Option(
        "--chronos",
        envvar="HALFPAST_CHRONOS",
        help="The Delay Server's address.",
        show_default="unix:DATA/run/chronos.sock",
    ),
]
Metadata = Annotated[
    str | None,
    typer.Option(
        "--metadata",
        envvar="HALFPAST_METADATA",
        help="The metadata database: sqlite:///PATH or postgresql://…",
        show_default="sqlite:///DATA/metadata.sqlite",
    ),
]
UnsafeOpen = Annotated[
    bool,
    typer.Option(
        "--unsafe-open",
        envvar="HALFPAST_UNSAFE_OPEN",
        help="Listen beyond this machine although nobody is asked for a key.",
    ),
]
DATA = Path(".halfpast")
HOST = "127.0.0.1"
PORT = 7080


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (dev, up, broker, chronos, api):
        app.command()(command)


def dev(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    unsafe_open: UnsafeOpen = False,
    as_json: AsJson = False,
) -> None:
    """Run everything in one process, to develop against."""

    def start() -> None:
        check_host(host, unsafe_open)
        from halfpast_api.environment import configured
        from halfpast_api.processes import Places, run_dev
        from halfpast_chronos.config import ChronosConfig
        from halfpast_core_store.config import StoreConfig

        places = Places.below(data)
        note = _OPEN_NOTE if unsafe_open else _DEV_NOTE
        run_dev(
            places,
            configured(StoreConfig, "HALFPAST_STORE_", os.environ),
            configured(ChronosConfig, "HALFPAST_CHRONOS_", os.environ),
            _api_config(host, port),
            lambda address: _announce(address, places, note, as_json=as_json),
        )

    _serve(start, as_json=as_json)


def up(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    metadata: Metadata = None,
    unsafe_open: UnsafeOpen = False,
    as_json: AsJson = False,
) -> None:
    """Run broker, chronos and api as processes of their own, and keep them running."""

    def start() -> None:
        check_host(host, unsafe_open)
        from halfpast_api.processes import Places
        from halfpast_api.suite import run_suite

        places = Places.below(data, metadata=metadata)
        note = _OPEN_NOTE if unsafe_open else _UP_NOTE
        run_suite(
            places,
            host,
            port,
            lambda address: _announce(address, places, note, as_json=as_json),
        )

    _serve(start, as_json=as_json)


def broker(data: Data = DATA, address: Broker = None, as_json: AsJson = False) -> None:
    """Run the store alone."""

    def start() -> None:
        from halfpast_api.environment import configured
        from halfpast_api.processes import Places, run_broker
        from halfpast_core_store.config import StoreConfig

        config = configured(StoreConfig, "HALFPAST_STORE_", os.environ)
        run_broker(
            Places.below(data, broker=address),
            config,
            lambda address: _ready("broker", address, as_json=as_json),
        )

    _serve(start, as_json=as_json)


def chronos(
    data: Data = DATA,
    broker: Broker = None,
    address: Chronos = None,
    as_json: AsJson = False,
) -> None:
    """Run the Delay Server alone."""

    def start() -> None:
        from halfpast_api.environment import configured
        from halfpast_api.processes import Places, run_chronos
        from halfpast_chronos.config import ChronosConfig

        config = configured(ChronosConfig, "HALFPAST_CHRONOS_", os.environ)
        run_chronos(
            Places.below(data, broker=broker, chronos=address),
            config,
            lambda address: _ready("chronos", address, as_json=as_json),
        )

    _serve(start, as_json=as_json)


def api(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    broker: Broker = None,
    chronos: Chronos = None,
    metadata: Metadata = None,
    unsafe_open: UnsafeOpen = False,
    as_json: AsJson = False,
) -> None:
    """Run the HTTP API alone; several may serve one broker."""

    def start() -> None:
        check_host(host, unsafe_open)
        from halfpast_api.processes import Places, run_api

        run_api(
            Places.below(data, broker=broker, chronos=chronos, metadata=metadata),
            _api_config(host, port),
            lambda address: _ready("api", address, as_json=as_json),
        )

    _serve(start, as_json=as_json)


def check_host(host: str, unsafe_open: bool) -> None:
    """Refuse to let strangers in while there are no keys to ask them for."""
    if unsafe_open or host == "localhost":
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise CommandFailed(
        f"{host} is open to other machines, and there is no authentication yet",
        code=USAGE,
        hint="--host 127.0.0.1, or --unsafe-open if your network keeps strangers out",
    )


def _api_config(host: str, port: int) -> "ApiConfig":
    from dataclasses import replace

    from halfpast_api.config import ApiConfig
    from halfpast_api.environment import configured

    config = configured(ApiConfig, "HALFPAST_API_", os.environ)
    return replace(config, host=host, port=port)


def _serve(start: Callable[[], None], *, as_json: bool) -> None:
    """Run a process to its end; what may go wrong becomes a message and a code."""
    from halfpast_api.deathwatch import die_with_supervisor
    from halfpast_api.environment import BadSetting
    from halfpast_api.log_output import LogFormat, LogLevel, configure_logging
    from halfpast_core_store.errors import CoreError, FolderInUse, StoreError
    from halfpast_core_store.errors import StoreFailed as Failed

    die_with_supervisor(os.environ)
    try:
        configure_logging(
            LogFormat(os.environ.get("HALFPAST_LOG_FORMAT", "text")),
            LogLevel(os.environ.get("HALFPAST_LOG_LEVEL", "info")),
        )
        start()
        return
    except CommandFailed as failure:
        failed = failure
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (BadSetting, ValueError) as error:
        failed = CommandFailed(str(error), code=USAGE)
    except Failed as error:
        failed = CommandFailed(str(error), code=STORE_FAILED)
    except FolderInUse as error:
        failed = CommandFailed(str(error), code=FOLDER_UNUSABLE)
    except StoreError as error:
        failed = CommandFailed(
            str(error), code=FOLDER_UNUSABLE, hint="halfpast doctor --data FOLDER"
        )
    except (CoreError, OSError) as error:
        failed = CommandFailed(str(error), code=REFUSED, hint=_hint(error))
    print_failure(failed, as_json=as_json)
    raise typer.Exit(failed.code)


def _hint(error: Exception) -> str:
    import errno

    if getattr(error, "errno", None) == errno.EADDRINUSE:
        return "another port: --port 7081, or stop what listens there"
    if getattr(error, "errno", None) == errno.ENOSPC:
        return "free space, or another folder: --data FOLDER"
    if isinstance(error, PermissionError):
        return "another folder: --data FOLDER"
    return ""


_DEV_NOTE = "for development: one process, no authentication, loopback only"
_UP_NOTE = "no authentication yet, so loopback only"
_OPEN_NOTE = "NO AUTHENTICATION: whoever reaches this address may do anything"


def _announce(address: str, places: "Places", note: str, *, as_json: bool) -> None:
    """What a newcomer sees: where it is, where data goes, what to try."""
    if as_json:
        print_json({"ready": True, "address": address, "data": places.data})
        return
    server = "" if address.endswith(f":{PORT}") else f" --server {address}"
    print_line(f"Halfpast  {address}   data {places.data} (kept)")
    print_line(f"          {note}")
    print_line("")
    print_line("Try, in another terminal:")
    print_line(
        f"  curl {address}/v1/topics/hello/events"
        """ -d '{"delay": "PT5S", "data": {"hi": 1}}'"""
    )
    print_line(f"  halfpast tail hello{server}")
    print_line("")
    sys.stdout.flush()


def _ready(name: str, address: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"ready": True, "service": name, "address": address})
    else:
        print_line(f"{name} is ready at {address}")

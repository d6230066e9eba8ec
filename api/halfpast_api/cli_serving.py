"""How a command that runs a service begins, tells that it is ready, and fails."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from halfpast_api.cli_output import (
    FOLDER_UNUSABLE,
    INTERRUPTED,
    REFUSED,
    STORE_FAILED,
    USAGE,
    CommandFailed,
    print_failure,
    print_json,
    print_line,
)
from halfpast_api.cli_serve_options import PORT

if TYPE_CHECKING:
    from halfpast_api.rocketmq.config import GrpcConfig


def serve(start: Callable[[], None], data: Path, *, as_json: bool) -> None:
    """Run a process to its end; what may go wrong becomes a message and a code."""
    from halfpast_api.clock.errors import ClockError
    from halfpast_api.deathwatch import die_with_supervisor
    from halfpast_api.environment import BadSetting
    from halfpast_api.log_output import LogFormat, LogLevel, configure_logging
    from halfpast_core_store.errors import (
        CoreError,
        FolderInUse,
        IndexFailed,
        StoreError,
        StoreFailed,
    )

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
    except (StoreFailed, IndexFailed) as error:
        failed = CommandFailed(str(error), code=STORE_FAILED)
    except (FolderInUse, ClockError) as error:
        failed = CommandFailed(str(error), code=FOLDER_UNUSABLE)
    except StoreError as error:
        doctor = f"halfpast doctor --data {shlex.quote(str(data))}"
        failed = CommandFailed(str(error), code=FOLDER_UNUSABLE, hint=doctor)
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


def announce(
    address: str,
    data: Path,
    note: str,
    *,
    as_json: bool,
    asks: bool = False,
    clock: str = "",
    front: "GrpcConfig | None" = None,
) -> None:
    """What a newcomer sees: where it is, where data goes, what to try; `asks`: that
    takes a key; `front`: where RocketMQ clients are served; `clock`: what is to be
    known of a virtual one."""
    if as_json:
        virtual = {"clock": "virtual"} if clock else {}
        told = {"ready": True, "address": address, "data": data, **virtual}
        print_json(told | _front_fields(front))
        return
    server = "" if address.endswith(f":{PORT}") else f" --server {address}"
    print_line(f"Halfpast  {address}   data {data} (kept)")
    if front is not None and front.is_on:
        tls = " (TLS)" if front.tls.is_on else ""
        print_line(f"          RocketMQ clients: {front.address}{tls}")
    print_line(f"          {note}")
    if clock:
        banner = f"*** {clock} ***"
        typer.secho(f"          {banner}", fg="yellow", bold=True)
    print_line("")
    print_line("Try, in another terminal:")
    key = ' -H "Authorization: Bearer $HALFPAST_API_KEY"' if asks else ""
    print_line(
        f"  curl {address}/v1/topics/hello/events{key}"
        """ -d '{"delay": "PT5S", "data": {"hi": 1}}'"""
    )
    print_line(f"  halfpast tail hello{server}")
    if clock:
        print_line(f"  halfpast clock advance 5s{server}")
    print_line(f"or in a browser: {address}/console")
    print_line("")
    sys.stdout.flush()


def tell_ready(
    name: str, address: str, *, as_json: bool, front: "GrpcConfig | None" = None
) -> None:
    """The one line of a service that runs alone."""
    if as_json:
        told = {"ready": True, "service": name, "address": address}
        print_json(told | _front_fields(front))
        return
    also = f", for RocketMQ at {front.address}" if front and front.is_on else ""
    print_line(f"{name} is ready at {address}{also}")


def _front_fields(front: "GrpcConfig | None") -> dict[str, str]:
    return {"grpc_address": front.address} if front and front.is_on else {}

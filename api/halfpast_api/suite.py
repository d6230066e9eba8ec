"""The whole suite on one host: which processes there are and how they begin."""

import asyncio
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from halfpast_api.line_output import print_as_json, print_at_once
from halfpast_api.places import Places
from halfpast_api.probes import (
    api_answers,
    broker_answers,
    delay_answers,
    exporter_holds,
    push_answers,
    transactions_answer,
)
from halfpast_api.shutdown import SIGNALS, ignore_echoes
from halfpast_api.supervisor import GaveUp, Service, Supervisor

R = TypeVar("R")

NOTHING: Mapping[str, str] = {}
PATIENCE_S = 2.0
"""How long processes of a killed predecessor may take to be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Where HTTP is served. `reuse_port`: others may serve there as well. What else
    the process is told that serves it is in `environment`."""

    host: str
    port: int
    reuse_port: bool = False
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def run_suite(
    places: Places,
    entrance: Entrance,
    check_allow: str,
    ready: Callable[[str], None],
    export: Path | None = None,
    push_allow: str = "",
    auth: str = "auto",
) -> None:
    """Run broker, chronos, txn, push and api under a supervisor until asked to stop;
    and what exports audit events to the folder `export`, if there is one.

    Calls `ready` with the address of the API. Raises FolderInUse, or OSError for a
    port that is taken, before anything is started; GaveUp, as SystemExit with the
    status of the service that cannot start.
    """
    places.prepare()
    deadline_s = time.monotonic() + PATIENCE_S
    _until_free(lambda: _check_folder(places), deadline_s)
    port = _until_free(lambda: _free_port(entrance), deadline_s)
    host = entrance.host

    async def main() -> None:
        kept = services(
            places, host, port, check_allow, push_allow, auth, entrance.environment
        )
        if export is not None:
            kept.append(exporter(places, export))
        supervisor = Supervisor(kept, _printer(os.environ))
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, supervisor.stop)
        await supervisor.run(lambda: ready(f"http://{_in_url(host)}:{port}"))
        ignore_echoes()

    try:
        asyncio.run(main())
    except GaveUp as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.status if error.status > 0 else 1) from None


def services(
    places: Places,
    host: str,
    port: int,
    check_allow: str = "",
    push_allow: str = "",
    auth: str = "auto",
    of_api: Mapping[str, str] = NOTHING,
) -> list[Service]:
    """In the order in which they need each other; they stop in reverse."""
    data = ("--data", str(places.data))
    broker = ("--broker", places.broker)
    chronos = ("--chronos", places.chronos)
    txn = ("--txn", places.transactions)
    push = ("--push", places.push)
    allow = ("--check-allow", check_allow)
    allow_push = ("--push-allow", push_allow)
    secrets = {"HALFPAST_METADATA": places.metadata}
    # Whoever started the supervisor has been asked already.
    listen = ("--host", host, "--port", str(port), "--auth", auth, "--unsafe-open")
    return [
        Service(
            name="broker",
            nursed=True,
            command=["broker", *data, *broker],
            is_ready=lambda: broker_answers(places.broker),
        ),
        Service(
            name="chronos",
            nursed=True,
            command=["chronos", *data, *broker, *chronos],
            environment=secrets,
            is_ready=lambda: delay_answers(places.chronos),
        ),
        Service(
            name="txn",
            nursed=True,
            command=["txn", *data, *broker, *txn, *allow],
            environment=secrets,
            is_ready=lambda: transactions_answer(places.transactions),
        ),
        Service(
            name="push",
            nursed=True,
            command=[
                *("push", *data),
                *(*broker, *chronos, *push, *allow_push),
            ],
            environment=secrets,
            is_ready=lambda: push_answers(places.push),
        ),
        Service(
            name="api",
            nursed=True,
            command=[
                *("api", *data),
                *(*broker, *chronos, *txn, *push, *allow, *allow_push, *listen),
            ],
            environment={**secrets, **of_api},
            is_ready=lambda: api_answers(host, port),
        ),
    ]


def exporter(places: Places, folder: Path) -> Service:
    """What exports audit events as the log closes its segments."""
    program = (sys.executable, "-m", "halfpast_api.cli", "audit", "export", "--follow")
    return Service(
        name="audit",
        command=[*program, "--data", str(places.data), "--export", str(folder)],
        is_ready=lambda: exporter_holds(folder),
    )


def _printer(environment: Mapping[str, str]) -> Callable[[str], None]:
    is_json = environment.get("HALFPAST_LOG_FORMAT") == "json"
    return print_as_json if is_json else print_at_once


def _until_free(take: Callable[[], R], deadline_s: float) -> R:
    """Try until nobody else has it; after the deadline raises what `take` raises."""
    from halfpast_core_store.errors import FolderInUse

    while True:
        try:
            return take()
        except (FolderInUse, OSError) as error:
            is_taken = getattr(error, "errno", errno.EADDRINUSE) == errno.EADDRINUSE
            if not is_taken or time.monotonic() >= deadline_s:
                raise
        time.sleep(0.05)


def _check_folder(places: Places) -> None:
    from halfpast_core_store.folder import FolderLock

    for service in ("broker", "chronos", "txn", "push"):
        FolderLock(places.data, service).close()


def _free_port(entrance: Entrance) -> int:
    """The port to be listened at, for which nobody listens now."""
    host, port = entrance.host, entrance.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if entrance.reuse_port:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            text = f"the port {port} of {host} is in use"
            raise OSError(errno.EADDRINUSE, text) from None
        free: int = probe.getsockname()[1]
        return free


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host

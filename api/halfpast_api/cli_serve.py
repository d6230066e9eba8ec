"""dev, up, broker, chronos, txn, push, api: the commands that run the suite.

What is rarely changed has no option but an environment variable, named after its
field in the config dataclasses: see `environment.py`.
"""

import importlib
import os
from typing import TYPE_CHECKING

import typer

from halfpast_api.cli_output import USAGE, AsJson, CommandFailed
from halfpast_api.cli_serve_auth import Auth, auth_mode, note_of
from halfpast_api.cli_serve_clock import (
    REAL,
    At,
    Clock,
    NoClock,
    clock_note,
    folder_of,
    open_clock,
    refuse_clock,
)
from halfpast_api.cli_serve_configs import (
    api_config,
    chronos_config,
    push_config,
    read_allow,
    store_config,
    txn_config,
)
from halfpast_api.cli_serve_grpc import (
    Advertise,
    DevGrpc,
    Grpc,
    SelfSigned,
    TlsCert,
    TlsKey,
    front_config,
    front_environment,
    outermost,
)
from halfpast_api.cli_serve_options import (
    DATA,
    DEV_CHECK_ALLOW,
    HOST,
    PORT,
    AuditExport,
    Broker,
    CheckAllow,
    Chronos,
    Data,
    Host,
    Metadata,
    Port,
    Push,
    PushAllow,
    Txn,
    UnsafeOpen,
)
from halfpast_api.cli_serving import announce, serve, tell_ready

if TYPE_CHECKING:
    from pathlib import Path


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (dev, up, broker, chronos, txn, push, api):
        app.command()(command)


def dev(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    check_allow: CheckAllow = DEV_CHECK_ALLOW,
    push_allow: PushAllow = DEV_CHECK_ALLOW,
    auth: Auth = None,
    unsafe_open: UnsafeOpen = False,
    grpc: DevGrpc = None,
    grpc_advertise: Advertise = None,
    grpc_tls_cert: TlsCert = None,
    grpc_tls_key: TlsKey = None,
    grpc_tls_self_signed: SelfSigned = False,
    clock: Clock = REAL,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Run everything in one process, to develop against.

    Check-backs and deliveries may go to this machine itself, unless --check-allow and
    --push-allow say otherwise.
    """
    data = folder_of(clock, data)

    def start() -> None:
        from halfpast_api.places import Places

        places = Places.below(data)
        front = front_config(
            *(grpc, grpc_advertise, grpc_tls_cert, grpc_tls_key),
            data / "tls" if grpc_tls_self_signed else None,
            is_dev=True,
        )
        outer = outermost(host, front)
        clock_file = open_clock(clock, at, data, outer)
        mode = auth_mode(auth, outer, unsafe_open, places, on_loopback="open")
        from halfpast_api.processes import run_dev

        note = note_of(mode, outer, places, _DEV_NOTE)
        run_dev(
            places,
            store_config(),
            chronos_config(),
            txn_config(),
            read_allow(check_allow),
            push_config(),
            read_allow(push_allow, "--push-allow"),
            api_config(host, port, check_allow, push_allow, mode, front),
            lambda address: announce(
                *(address, places.data, note),
                as_json=as_json,
                asks=mode == "keys",
                front=front,
                clock="" if clock_file is None else clock_note(clock_file),
            ),
            clock_file,
        )

    serve(start, data, as_json=as_json)


def up(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    metadata: Metadata = None,
    check_allow: CheckAllow = "",
    push_allow: PushAllow = "",
    audit_export: AuditExport = False,
    auth: Auth = None,
    unsafe_open: UnsafeOpen = False,
    grpc: Grpc = None,
    grpc_advertise: Advertise = None,
    grpc_tls_cert: TlsCert = None,
    grpc_tls_key: TlsKey = None,
    grpc_tls_self_signed: SelfSigned = False,
    clock: NoClock = REAL,
    as_json: AsJson = False,
) -> None:
    """Run each service as a process of its own, and keep them running.

    They are broker, chronos, txn, push and api.
    """

    def start() -> None:
        from halfpast_api.clock.clock_file import refuse_virtual
        from halfpast_api.places import Places

        refuse_clock(clock)
        refuse_virtual(data)
        places = Places.below(data, metadata=metadata)
        front = front_config(
            *(grpc, grpc_advertise, grpc_tls_cert, grpc_tls_key),
            data / "tls" if grpc_tls_self_signed else None,
        )
        outer = outermost(host, front)
        mode = auth_mode(auth, outer, unsafe_open, places, on_loopback="auto")
        export = _export_folder(data) if audit_export else None
        from halfpast_api.suite import Entrance, run_suite

        # The processes read these themselves; here a bad one is told once.
        configs = (store_config, chronos_config, txn_config, push_config)
        for read_config in configs:
            read_config()
        read_allow(check_allow)
        read_allow(push_allow, "--push-allow")
        config = api_config(host, port, check_allow, push_allow, mode, front)
        note = note_of(mode, outer, places, _DEV_NOTE)
        run_suite(
            places,
            Entrance(
                host=host,
                port=port,
                reuse_port=config.reuse_port,
                environment=front_environment(front),
            ),
            check_allow,
            lambda address: announce(
                *(address, places.data, note),
                as_json=as_json,
                asks=mode == "keys",
                front=front,
            ),
            export,
            push_allow,
            mode,
        )

    serve(start, data, as_json=as_json)


def broker(data: Data = DATA, address: Broker = None, as_json: AsJson = False) -> None:
    """Run the store alone."""

    def start() -> None:
        from halfpast_api.places import Places
        from halfpast_api.processes import run_broker

        run_broker(
            Places.below(data, broker=address),
            store_config(),
            lambda address: tell_ready("broker", address, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


def chronos(
    data: Data = DATA,
    broker: Broker = None,
    address: Chronos = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Run the Delay Server alone."""

    def start() -> None:
        from halfpast_api.places import Places
        from halfpast_api.processes import run_chronos

        run_chronos(
            Places.below(data, broker=broker, chronos=address, metadata=metadata),
            chronos_config(),
            lambda address: tell_ready("chronos", address, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


def txn(
    data: Data = DATA,
    broker: Broker = None,
    address: Txn = None,
    metadata: Metadata = None,
    check_allow: CheckAllow = "",
    as_json: AsJson = False,
) -> None:
    """Run the transaction service alone."""

    def start() -> None:
        from halfpast_api.places import Places
        from halfpast_api.processes import run_txn

        run_txn(
            Places.below(data, broker=broker, transactions=address, metadata=metadata),
            txn_config(),
            read_allow(check_allow),
            lambda address: tell_ready("txn", address, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


def push(
    data: Data = DATA,
    broker: Broker = None,
    chronos: Chronos = None,
    address: Push = None,
    metadata: Metadata = None,
    push_allow: PushAllow = "",
    as_json: AsJson = False,
) -> None:
    """Run the deliveries to endpoints alone. One process at a time does this work."""

    def start() -> None:
        from halfpast_api.places import Places
        from halfpast_api.processes import run_push

        places = Places.below(
            data, broker=broker, chronos=chronos, push=address, metadata=metadata
        )
        run_push(
            places,
            push_config(),
            read_allow(push_allow, "--push-allow"),
            lambda address: tell_ready("push", address, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


def api(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    broker: Broker = None,
    chronos: Chronos = None,
    txn: Txn = None,
    push: Push = None,
    metadata: Metadata = None,
    check_allow: CheckAllow = "",
    push_allow: PushAllow = "",
    auth: Auth = None,
    unsafe_open: UnsafeOpen = False,
    grpc: Grpc = None,
    grpc_advertise: Advertise = None,
    grpc_tls_cert: TlsCert = None,
    grpc_tls_key: TlsKey = None,
    grpc_tls_self_signed: SelfSigned = False,
    as_json: AsJson = False,
) -> None:
    """Run the HTTP API alone; several may serve one broker."""

    def start() -> None:
        from halfpast_api.places import Places
        from halfpast_api.processes import run_api

        read_allow(check_allow)
        read_allow(push_allow, "--push-allow")
        places = Places.below(
            data,
            broker=broker,
            chronos=chronos,
            transactions=txn,
            push=push,
            metadata=metadata,
        )
        front = front_config(
            *(grpc, grpc_advertise, grpc_tls_cert, grpc_tls_key),
            data / "tls" if grpc_tls_self_signed else None,
        )
        outer = outermost(host, front)
        mode = auth_mode(auth, outer, unsafe_open, places, on_loopback="auto")
        run_api(
            places,
            api_config(host, port, check_allow, push_allow, mode, front),
            lambda address: tell_ready("api", address, as_json=as_json, front=front),
        )

    serve(start, data, as_json=as_json)


def _export_folder(data: "Path") -> "Path":
    """Where audit events go; a failure of the command if they cannot be made."""
    from pathlib import Path

    from halfpast_api.audits.export import export_folder
    from halfpast_spark.errors import ArrowMissing

    try:
        importlib.import_module("halfpast_spark.arrow")
    except ArrowMissing as error:
        raise CommandFailed(str(error), code=USAGE) from None
    named = os.environ.get("HALFPAST_AUDIT_EXPORT")
    return export_folder(data, Path(named) if named else None)


_DEV_NOTE = "for development: one process, no authentication, loopback only"

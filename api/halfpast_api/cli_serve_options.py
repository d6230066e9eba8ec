"""The options of the commands that run the suite, and their defaults."""

from pathlib import Path
from typing import Annotated

import typer

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
Txn = Annotated[
    str | None,
    typer.Option(
        "--txn",
        envvar="HALFPAST_TXN",
        help="The transaction service's address.",
        show_default="unix:DATA/run/txn.sock",
    ),
]
Push = Annotated[
    str | None,
    typer.Option(
        "--push",
        envvar="HALFPAST_PUSH",
        help="The push process's address.",
        show_default="unix:DATA/run/push.sock",
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
CheckAllow = Annotated[
    str,
    typer.Option(
        "--check-allow",
        envvar="HALFPAST_CHECK_ALLOW",
        metavar="HOST,…",
        help=(
            "Where check-backs may go although it is no public address: names, "
            "addresses, networks (10.0.0.0/8), HOST:PORT."
        ),
    ),
]
PushAllow = Annotated[
    str,
    typer.Option(
        "--push-allow",
        envvar="HALFPAST_PUSH_ALLOW",
        metavar="HOST,…",
        help="The same for deliveries to endpoints.",
    ),
]
AuditExport = Annotated[
    bool,
    typer.Option(
        "--audit-export",
        help=(
            "Also export audit events as Parquet, into DATA/audit/events or the folder "
            "that HALFPAST_AUDIT_EXPORT names."
        ),
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
DEV_CHECK_ALLOW = "localhost,127.0.0.0/8,[::1]"

"""Where the commands that serve HTTP serve RocketMQ clients too: options, made into
the configuration of the front."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from halfpast_api.cli_output import REFUSED, USAGE, CommandFailed
from halfpast_api.rocketmq.config import (
    DEFAULT_ADDRESS,
    OFF,
    GrpcConfig,
    join_address,
    split_address,
)
from halfpast_api.rocketmq.extra import ExtraMissing, is_installed, require
from halfpast_api.rocketmq.tls import TlsConfig, UnusablePair, check_files

PATIENCE_S = 2.0
"""How long a process that was killed may take to be gone."""

_PREFIX = "HALFPAST_API_GRPC_"
_PANEL = "RocketMQ clients"

Grpc = Annotated[
    str | None,
    typer.Option(
        "--grpc",
        rich_help_panel=_PANEL,
        metavar="HOST:PORT",
        envvar=f"{_PREFIX}ADDRESS",
        help="Where RocketMQ clients are served; 'off': nowhere.",
        show_default="off",
    ),
]
DevGrpc = Annotated[
    str | None,
    typer.Option(
        "--grpc",
        rich_help_panel=_PANEL,
        metavar="HOST:PORT",
        envvar=f"{_PREFIX}ADDRESS",
        help="Where RocketMQ clients are served; 'off': nowhere.",
        show_default=f"{DEFAULT_ADDRESS}, if the extra [grpc] is installed",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--grpc-advertise",
        rich_help_panel=_PANEL,
        metavar="HOST:PORT",
        envvar=f"{_PREFIX}ADVERTISE",
        help="Where RocketMQ clients are told to go, behind a proxy that they do not "
        "know of.",
        show_default="how they have come",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        "--grpc-tls-cert",
        rich_help_panel=_PANEL,
        envvar=f"{_PREFIX}TLS_CERT",
        help="A certificate (PEM): RocketMQ clients are served with TLS.",
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        "--grpc-tls-key",
        rich_help_panel=_PANEL,
        envvar=f"{_PREFIX}TLS_KEY",
        help="Its key (PEM).",
    ),
]
SelfSigned = Annotated[
    bool,
    typer.Option(
        "--grpc-tls-self-signed",
        rich_help_panel=_PANEL,
        help="TLS with a certificate of our own, kept in DATA/tls.",
    ),
]


def front_config(
    address: str | None,
    advertise: str | None,
    cert: Path | None,
    key: Path | None,
    self_signed: Path | None,
    *,
    is_dev: bool = False,
) -> GrpcConfig:
    """What the options say, and for the rest what the environment has said. The port
    is a free one, and what is needed is installed; else CommandFailed."""
    from halfpast_api.environment import configured

    known = configured(GrpcConfig, _PREFIX, os.environ)
    by_default = address is None and not known.address and is_dev
    if by_default:
        address = DEFAULT_ADDRESS if is_installed() else OFF
    elif address is None:
        address = known.address
    if address in (OFF, ""):
        return replace(known, address=OFF)
    try:
        require()
        tls = known.tls
        if cert or key or self_signed:
            tls = TlsConfig(
                cert=str(cert or ""),
                key=str(key or ""),
                self_signed=str(self_signed or ""),
                names=tls.names,
            )
        if advertise is None:
            advertise = known.advertise
        check_files(tls)
        config = replace(
            known,
            address=address,
            optional=by_default,
            advertise=advertise,
            tls=replace(tls, names=_names(tls.names, address, advertise)),
        )
        patience_s = 0.0 if by_default else PATIENCE_S
        return replace(config, address=_free(address, patience_s))
    except UnusablePair as error:
        hint = "--grpc-tls-self-signed makes a pair, for development"
        raise CommandFailed(str(error), code=USAGE, hint=hint) from None
    except (ExtraMissing, ValueError) as error:
        hint = f"--grpc {DEFAULT_ADDRESS}" if isinstance(error, ValueError) else ""
        raise CommandFailed(str(error), code=USAGE, hint=hint) from None
    except OSError as error:
        if by_default:  # somebody else's: HTTP is served all the same
            return replace(known, address=OFF)
        raise CommandFailed(
            f"RocketMQ clients cannot be served at {address}: {error.strerror}",
            code=REFUSED,
            hint="another port: --grpc 127.0.0.1:8082, or --grpc off",
        ) from None


def _names(known: str, *addresses: str) -> str:
    """For whom a certificate of our own is: those, and how clients get here."""
    hosts = [split_address(address)[0] for address in addresses if address]
    return ",".join(dict.fromkeys([*known.split(","), *hosts]))


def front_environment(config: GrpcConfig) -> Mapping[str, str]:
    """The same, for a process of its own."""
    tls = config.tls
    given = {
        "ADDRESS": config.address if config.is_on else OFF,
        "ADVERTISE": config.advertise,
        "TLS_CERT": str(tls.cert or ""),
        "TLS_KEY": str(tls.key or ""),
        "TLS_SELF_SIGNED": str(tls.self_signed or ""),
        "TLS_NAMES": tls.names,
    }
    return {_PREFIX + name: value for name, value in given.items() if value}


def outermost(host: str, front: GrpcConfig) -> str:
    """Of the hosts that are listened at, one that others reach, if there is one."""
    if not front.is_on:
        return host
    front_host, _ = split_address(front.address)
    from halfpast_api.access.site_guard import is_loopback

    return host if is_loopback(front_host) else front_host


def _free(address: str, patience_s: float) -> str:
    """The address with a port that nobody listens at. Raises OSError, ValueError."""
    deadline_s = time.monotonic() + patience_s
    host, port = split_address(address)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, place = found[0]
    while True:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(place)
            except OSError:
                if time.monotonic() >= deadline_s:
                    raise
            else:
                free: int = probe.getsockname()[1]
                return join_address(host, free)
        time.sleep(0.05)

"""dev, up, broker, chronos, txn, api: the commands that run the suite.

What is rarely changed has no option but an environment variable, named after its
field in the config dataclasses: see `environment.py`.
"""

import ipaddress
import os
from typing import TYPE_CHECKING

import typer

from halfpast_api.cli_output import USAGE, AsJson, CommandFailed
from halfpast_api.cli_serve_options import (
    DATA,
    DEV_CHECK_ALLOW,
    HOST,
    PORT,
    Broker,
    CheckAllow,
    Chronos,
    Data,
    Host,
    Metadata,
    Port,
    Txn,
    UnsafeOpen,
)
from halfpast_api.cli_serving import announce, serve, tell_ready

if TYPE_CHECKING:
    from halfpast_api.config import ApiConfig
    from halfpast_chronos.config import ChronosConfig
    from halfpast_core_store.config import StoreConfig
    from halfpast_txn.address_rules import AllowList
    from halfpast_txn.config import TxnConfig


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (dev, up, broker, chronos, txn, api):
        app.command()(command)


def dev(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    check_allow: CheckAllow = DEV_CHECK_ALLOW,
    unsafe_open: UnsafeOpen = False,
    as_json: AsJson = False,
) -> None:
    """Run everything in one process, to develop against.

    Check-backs may go to this machine itself, unless --check-allow says otherwise.
    """

    def start() -> None:
        check_host(host, unsafe_open)
        from halfpast_api.places import Places
        from halfpast_api.processes import run_dev

        places = Places.below(data)
        note = _OPEN_NOTE if unsafe_open else _DEV_NOTE
        run_dev(
            places,
            _store_config(),
            _chronos_config(),
            _txn_config(),
            read_allow(check_allow),
            _api_config(host, port, check_allow),
            lambda address: announce(address, places.data, note, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


def up(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    metadata: Metadata = None,
    check_allow: CheckAllow = "",
    unsafe_open: UnsafeOpen = False,
    as_json: AsJson = False,
) -> None:
    """Run each service as a process of its own, and keep them running.

    They are broker, chronos, txn and api.
    """

    def start() -> None:
        check_host(host, unsafe_open)
        from halfpast_api.places import Places
        from halfpast_api.suite import Entrance, run_suite

        # The processes read these themselves; here a bad one is told once.
        for read_config in (_store_config, _chronos_config, _txn_config):
            read_config()
        read_allow(check_allow)
        config = _api_config(host, port, check_allow)
        places = Places.below(data, metadata=metadata)
        note = _OPEN_NOTE if unsafe_open else _UP_NOTE
        run_suite(
            places,
            Entrance(host=host, port=port, reuse_port=config.reuse_port),
            check_allow,
            lambda address: announce(address, places.data, note, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


def broker(data: Data = DATA, address: Broker = None, as_json: AsJson = False) -> None:
    """Run the store alone."""

    def start() -> None:
        from halfpast_api.places import Places
        from halfpast_api.processes import run_broker

        run_broker(
            Places.below(data, broker=address),
            _store_config(),
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
            _chronos_config(),
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
            _txn_config(),
            read_allow(check_allow),
            lambda address: tell_ready("txn", address, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


def api(
    data: Data = DATA,
    host: Host = HOST,
    port: Port = PORT,
    broker: Broker = None,
    chronos: Chronos = None,
    txn: Txn = None,
    metadata: Metadata = None,
    check_allow: CheckAllow = "",
    unsafe_open: UnsafeOpen = False,
    as_json: AsJson = False,
) -> None:
    """Run the HTTP API alone; several may serve one broker."""

    def start() -> None:
        check_host(host, unsafe_open)
        from halfpast_api.places import Places
        from halfpast_api.processes import run_api

        read_allow(check_allow)
        places = Places.below(
            data, broker=broker, chronos=chronos, transactions=txn, metadata=metadata
        )
        run_api(
            places,
            _api_config(host, port, check_allow),
            lambda address: tell_ready("api", address, as_json=as_json),
        )

    serve(start, data, as_json=as_json)


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


def read_allow(text: str) -> "AllowList":
    """--check-allow, understood; a failure of the command if it cannot be."""
    from halfpast_txn.address_rules import AllowList

    try:
        return AllowList.parse(text)
    except ValueError as error:
        raise CommandFailed(
            f"--check-allow {text!r} cannot be used: {error}",
            code=USAGE,
            hint="--check-allow localhost,10.0.0.0/8,checks.example.org:8443",
        ) from None


def _store_config() -> "StoreConfig":
    from halfpast_api.environment import configured
    from halfpast_core_store.config import StoreConfig

    return configured(StoreConfig, "HALFPAST_STORE_", os.environ)


def _chronos_config() -> "ChronosConfig":
    from halfpast_api.environment import configured
    from halfpast_chronos.config import ChronosConfig

    return configured(ChronosConfig, "HALFPAST_CHRONOS_", os.environ)


def _txn_config() -> "TxnConfig":
    from halfpast_api.environment import configured
    from halfpast_txn.config import TxnConfig

    return configured(TxnConfig, "HALFPAST_TXN_", os.environ)


def _api_config(host: str, port: int, check_allow: str) -> "ApiConfig":
    from dataclasses import replace

    from halfpast_api.config import ApiConfig
    from halfpast_api.environment import configured

    config = configured(ApiConfig, "HALFPAST_API_", os.environ)
    return replace(
        config, host=host, port=port, check_allow=check_allow or config.check_allow
    )


_DEV_NOTE = "for development: one process, no authentication, loopback only"
_UP_NOTE = "no authentication yet, so loopback only"
_OPEN_NOTE = "NO AUTHENTICATION: whoever reaches this address may do anything"

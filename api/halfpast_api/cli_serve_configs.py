"""What the commands that run the suite are configured with, by the environment."""

import os
from typing import TYPE_CHECKING

from halfpast_api.cli_output import USAGE, CommandFailed

if TYPE_CHECKING:
    from halfpast_api.access.config import AuthMode
    from halfpast_api.config import ApiConfig
    from halfpast_api.push.config import PushConfig
    from halfpast_api.rocketmq.config import GrpcConfig
    from halfpast_chronos.config import ChronosConfig
    from halfpast_core_store.config import StoreConfig
    from halfpast_txn.address_rules import AllowList
    from halfpast_txn.config import TxnConfig


def read_allow(text: str, option: str = "--check-allow") -> "AllowList":
    """Such an option, understood; a failure of the command if it cannot be."""
    from halfpast_txn.address_rules import AllowList

    try:
        return AllowList.parse(text)
    except ValueError as error:
        raise CommandFailed(
            f"{option} {text!r} cannot be used: {error}",
            code=USAGE,
            hint=f"{option} localhost,10.0.0.0/8,checks.example.org:8443",
        ) from None


def store_config() -> "StoreConfig":
    from halfpast_api.environment import configured
    from halfpast_core_store.config import StoreConfig

    return configured(StoreConfig, "HALFPAST_STORE_", os.environ)


def chronos_config() -> "ChronosConfig":
    from halfpast_api.environment import configured
    from halfpast_chronos.config import ChronosConfig

    return configured(ChronosConfig, "HALFPAST_CHRONOS_", os.environ)


def txn_config() -> "TxnConfig":
    from halfpast_api.environment import configured
    from halfpast_txn.config import TxnConfig

    return configured(TxnConfig, "HALFPAST_TXN_", os.environ)


def push_config() -> "PushConfig":
    from halfpast_api.environment import configured
    from halfpast_api.push.config import PushConfig

    return configured(PushConfig, "HALFPAST_PUSH_", os.environ)


def api_config(
    host: str,
    port: int,
    check_allow: str,
    push_allow: str,
    mode: "AuthMode",
    front: "GrpcConfig",
) -> "ApiConfig":
    from dataclasses import replace

    from halfpast_api.config import ApiConfig
    from halfpast_api.environment import configured

    config = configured(ApiConfig, "HALFPAST_API_", os.environ)
    return replace(
        config,
        host=host,
        port=port,
        auth=mode,
        grpc=front,
        check_allow=check_allow or config.check_allow,
        push_allow=push_allow or config.push_allow,
    )

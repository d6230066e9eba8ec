"""Options of the commands that serve: where RocketMQ clients are served."""

import socket
from collections.abc import Generator
from dataclasses import dataclass

import pytest

from halfpast_api import cli_serve_grpc
from halfpast_api.cli_output import CommandFailed
from halfpast_api.cli_serve_grpc import front_config, front_environment, outermost
from halfpast_api.environment import configured
from halfpast_api.rocketmq import extra
from halfpast_api.rocketmq.config import DEFAULT_ADDRESS, GrpcConfig
from halfpast_api.rocketmq.tls import TlsConfig


@dataclass(frozen=True)
class Taken:
    address: str


@pytest.fixture
def taken() -> Generator[Taken]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield Taken(f"127.0.0.1:{listener.getsockname()[1]}")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALFPAST_API_GRPC_ADDRESS", raising=False)
    monkeypatch.setattr(cli_serve_grpc, "PATIENCE_S", 0.0)


def front(address: str | None, *, is_dev: bool = False) -> GrpcConfig:
    return front_config(address, None, None, None, None, is_dev=is_dev)


def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "is_installed", lambda: False)
    monkeypatch.setattr(cli_serve_grpc, "is_installed", lambda: False)


def test_there_is_no_front_unless_it_is_wanted() -> None:
    assert not front(None).is_on
    assert not front("off", is_dev=True).is_on


def test_port_0_is_a_free_one() -> None:
    config = front("127.0.0.1:0")
    assert config.is_on
    assert not config.address.endswith(":0")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_extra(monkeypatch)
    with pytest.raises(CommandFailed, match=r"pip install 'halfpast\[grpc\]'"):
        front("127.0.0.1:0")


def test_dev_goes_without_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_extra(monkeypatch)
    assert not front(None, is_dev=True).is_on


def test_a_port_that_is_taken_is_told(taken: Taken) -> None:
    with pytest.raises(CommandFailed, match="cannot be served"):
        front(taken.address)


def test_dev_goes_without_a_port_that_is_taken(
    taken: Taken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a second one on this machine, say, which has another port for HTTP."""
    monkeypatch.setattr(cli_serve_grpc, "DEFAULT_ADDRESS", taken.address)
    assert not front(None, is_dev=True).is_on
    with pytest.raises(CommandFailed):
        front(taken.address, is_dev=True)


def test_dev_has_rocketmqs_port_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def free(address: str, patience_s: float) -> str:
        tried.append(address)
        return address

    monkeypatch.setattr(cli_serve_grpc, "_free", free)
    assert front(None, is_dev=True).address == DEFAULT_ADDRESS
    assert tried == [DEFAULT_ADDRESS]


@pytest.mark.parametrize("text", ["8081", "host", "host:99999"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(CommandFailed) as raised:
        front(text)
    assert raised.value.hint


def test_a_process_of_its_own_is_told_the_same() -> None:
    config = GrpcConfig(
        address="127.0.0.1:9000",
        advertise="mq.example.org:443",
        tls=TlsConfig(cert="/a", key="/b"),
    )
    environment = front_environment(config)
    assert configured(GrpcConfig, "HALFPAST_API_GRPC_", environment) == config
    off = configured(GrpcConfig, "HALFPAST_API_GRPC_", front_environment(GrpcConfig()))
    assert not off.is_on


def test_who_listens_for_others_is_told_from_who_does_not() -> None:
    """Where either does, callers need a key."""
    inside = GrpcConfig(address="127.0.0.1:1")
    outside = GrpcConfig(address="0.0.0.0:1")
    assert outermost("127.0.0.1", inside) == "127.0.0.1"
    assert outermost("127.0.0.1", outside) == "0.0.0.0"
    assert outermost("10.0.0.1", inside) == "10.0.0.1"
    assert outermost("127.0.0.1", GrpcConfig()) == "127.0.0.1"

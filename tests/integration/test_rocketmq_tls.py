"""TLS of the gRPC front: certificates of files, of our own making, replaced ones."""

import os
import shutil
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from cryptography import x509

from halfpast_api.cli_output import CommandFailed
from halfpast_api.cli_serve_grpc import front_config
from halfpast_api.rocketmq.self_signed import keep_pair
from halfpast_api.rocketmq.tls import TlsConfig, UnusablePair, server_credentials

NAMES = ["localhost", "127.0.0.1"]
METHOD = "/test.Echo/Say"


@asynccontextmanager
async def serving(config: TlsConfig) -> AsyncGenerator[int]:
    """A server that answers with what it is sent; its port."""

    async def say(request: bytes, _: object) -> bytes:
        return request

    handlers: dict[str, Any] = {"Say": grpc.unary_unary_rpc_method_handler(say)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Echo", handlers),)
    )
    credentials = server_credentials(config)
    assert credentials is not None
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


def trust(roots: Path) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(roots.read_bytes())


async def say(port: int, roots: Path) -> bytes:
    """A new connection by somebody who trusts these roots."""
    trusted = trust(roots)
    options = [("grpc.use_local_subchannel_pool", 1)]
    target = f"127.0.0.1:{port}"
    async with grpc.aio.secure_channel(target, trusted, options) as channel:
        call = cast(Callable[..., Awaitable[bytes]], channel.unary_unary(METHOD))
        return await call(b"hi", timeout=20)


def pair(folder: Path) -> TlsConfig:
    """Files as an authority would give them."""
    config = TlsConfig(cert=str(folder / "a.crt"), key=str(folder / "a.key"))
    keep_pair(Path(config.cert), Path(config.key), NAMES)
    return config


@pytest.mark.asyncio
async def test_a_pair_of_our_own_is_made_once_and_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    config = TlsConfig(self_signed=str(folder))
    async with serving(config) as port:
        assert await say(port, folder / "grpc.crt") == b"hi"
    made = (folder / "grpc.crt").read_bytes()
    async with serving(config) as port:
        assert await say(port, folder / "grpc.crt") == b"hi"
    assert (folder / "grpc.crt").read_bytes() == made
    assert (folder / "grpc.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.asyncio
async def test_somebody_who_trusts_another_does_not_come_in(tmp_path: Path) -> None:
    other = pair(tmp_path)
    async with serving(TlsConfig(self_signed=str(tmp_path / "tls"))) as port:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await say(port, Path(other.cert))
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.asyncio
async def test_files_may_be_replaced_while_it_runs(tmp_path: Path) -> None:
    config = pair(tmp_path)
    (tmp_path / "new").mkdir()
    new = pair(tmp_path / "new")
    async with serving(config) as port:
        assert await say(port, Path(config.cert)) == b"hi"
        shutil.copy(config.cert, tmp_path / "old.crt")
        os.replace(new.key, config.key)  # only one of the two: it goes on as before
        assert await say(port, tmp_path / "old.crt") == b"hi"
        os.replace(new.cert, config.cert)
        assert await say(port, Path(config.cert)) == b"hi"


def test_a_pair_for_other_names_is_made_anew(tmp_path: Path) -> None:
    files = tmp_path / "a.crt", tmp_path / "a.key"
    keep_pair(*files, ["localhost"])
    keep_pair(*files, ["localhost", "queue.internal", "::1"])
    made = x509.load_pem_x509_certificate(files[0].read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == [
        "localhost",
        "queue.internal",
    ]
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files)


def test_without_tls_there_are_no_credentials() -> None:
    assert server_credentials(TlsConfig()) is None


def lose_the_key(config: TlsConfig) -> None:
    Path(config.key).unlink()


def garble_the_certificate(config: TlsConfig) -> None:
    Path(config.cert).write_text("hello")


def take_the_key_of_another(config: TlsConfig) -> None:
    keep_pair(Path(config.cert).with_name("b.crt"), Path(config.key), NAMES)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lose_the_key, "No such file"),
        (garble_the_certificate, "PEM"),
        (take_the_key_of_another, "not that of"),
    ],
)
def test_files_that_cannot_be_used_are_named_at_the_start(
    spoil: Callable[[TlsConfig], None], why: str, tmp_path: Path
) -> None:
    config = pair(tmp_path)
    spoil(config)
    with pytest.raises(UnusablePair, match=why) as raised:
        server_credentials(config)
    assert config.cert in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        {"cert": "a.crt"},
        {"key": "a.key"},
        {"cert": "a.crt", "key": "a.key", "self_signed": "tls"},
    ],
)
def test_half_of_it_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="--grpc-tls"):
        TlsConfig(**given)


def test_a_pair_of_our_own_is_for_where_clients_are_told_to_go(tmp_path: Path) -> None:
    front = front_config("127.0.0.1:0", "mq.example.org:443", None, None, tmp_path)
    assert server_credentials(front.tls) is not None
    made = x509.load_pem_x509_certificate((tmp_path / "grpc.crt").read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert "mq.example.org" in names.value.get_values_for_type(x509.DNSName)


def test_a_command_does_not_start_with_files_that_are_no_pair(tmp_path: Path) -> None:
    cert, key = tmp_path / "a.crt", tmp_path / "a.key"
    with pytest.raises(CommandFailed, match="No such file") as raised:
        front_config("127.0.0.1:0", None, cert, key, None)
    assert "--grpc-tls-self-signed" in raised.value.hint

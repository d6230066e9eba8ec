"""Servers and clients over real sockets, on both event loops and both addresses."""

import asyncio
import os
import random
import socket
import stat
import struct
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import msgspec
import pytest
import structlog
import uvloop

from halfpast_core_store.errors import (
    CoreError,
    IndexFailed,
    OffsetOutOfRange,
    Overloaded,
)
from halfpast_core_store.rpc import Method
from halfpast_core_store.rpc_client import RpcClient, RpcClientConfig
from halfpast_core_store.rpc_errors import (
    AddressInUse,
    BadAddress,
    ConnectionLost,
    FrameTooLarge,
    ProtocolMismatch,
    RemoteFailure,
    Unavailable,
)
from halfpast_core_store.rpc_server import RpcServerConfig, Server, serve

HEADER = struct.Struct("<IQBB")
REQUEST, REPLY, ERROR, CANCEL = 1, 2, 3, 4


class Say(msgspec.Struct, array_like=True):
    text: str = ""
    data: bytes = b""


class Said(msgspec.Struct, array_like=True):
    text: str
    data: bytes = b""


class Size(msgspec.Struct, array_like=True):
    size: int


class Other(msgspec.Struct, array_like=True):
    number: int


TABLE = (
    Method("echo", 1, Say, Said),
    Method("wait", 2, Say, Said),
    Method("fail", 3, Say, Said),
    Method("fill", 4, Size, Said),
    Method("lie", 5, Say, Said),
)


class Speechless(Exception):
    """Cannot even say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError


class Laboratory:
    """A service that waits, fails and lies as it is told."""

    def __init__(self) -> None:
        self.bell = asyncio.Event()
        self.waiting = 0
        self.cancelled = 0
        self.filled = 0

    async def echo(self, request: Say) -> Said:
        return Said(request.text, request.data)

    async def wait(self, request: Say) -> Said:
        self.waiting += 1
        try:
            await self.bell.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return Said(request.text)

    async def fail(self, request: Say) -> Said:
        errors: dict[str, Exception] = {
            "core": OffsetOutOfRange(5, 7, 9),
            "foreign": KeyError("secret"),
            "unsendable": CoreError(object()),
            "endless": ValueError("x" * 1_000_000),
            "wordy": CoreError("x" * 1000),
            "garbled": ValueError("\ud800"),
            "speechless": Speechless(),
            "ending": IndexFailed("data/index", "pread"),
        }
        if request.text == "cancel":
            raise asyncio.CancelledError
        raise errors[request.text]

    async def fill(self, request: Size) -> Said:
        self.filled += 1
        return Said("", bytes(request.size))

    async def lie(self, request: Say) -> Other:
        if request.text == "impossible":
            return Other(2**70)
        return Other(1)


Run = Callable[[Coroutine[None, None, None]], None]


class Lab:
    """Starts servers and clients for one test."""

    def __init__(self, address: str) -> None:
        self.asked_address = address
        self.service = Laboratory()

    @asynccontextmanager
    async def server(
        self, config: RpcServerConfig | None = None, address: str = ""
    ) -> AsyncGenerator[Server]:
        server = await serve(
            TABLE,
            self.service,
            address or self.asked_address,
            service="lab",
            config=config,
        )
        try:
            yield server
        finally:
            await server.stop(0)

    @asynccontextmanager
    async def client(
        self, server: Server, config: RpcClientConfig | None = None
    ) -> AsyncGenerator[RpcClient]:
        async with RpcClient(
            str(server.address), TABLE, service="lab", config=config
        ) as client:
            yield client

    @asynccontextmanager
    async def pair(self) -> AsyncGenerator[RpcClient]:
        async with self.server() as server, self.client(server) as client:
            yield client


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on one kind of loop; it must leave nothing behind."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else None

    def runner(main: Coroutine[None, None, None]) -> None:
        async def bounded() -> None:
            problems: list[dict[str, object]] = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: problems.append(context))
            async with asyncio.timeout(20):
                await main
            await eventually(lambda: len(asyncio.all_tasks()) == 1)
            assert problems == []

        with asyncio.Runner(loop_factory=factory) as loop_runner:
            loop_runner.run(bounded())

    return runner


@pytest.fixture(params=["unix", "tcp"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"unix:{tmp_path}/s" if request.param == "unix" else "tcp:127.0.0.1:0"


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what other tasks bring about."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came about")


async def echo(client: RpcClient, text: str, data: bytes = b"") -> Said:
    return await client.call("echo", Say(text, data))


async def wait(client: RpcClient, text: str) -> Said:
    return await client.call("wait", Say(text))


async def fail(client: RpcClient, how: str) -> Said:
    return await client.call("fail", Say(how))


async def fill(client: RpcClient, size: int) -> Said:
    return await client.call("fill", Size(size))


def connect_raw(server: Server) -> socket.socket:
    """A peer that does as the test says, not as the protocol does."""
    text = str(server.address)
    if text.startswith("unix:"):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(text.removeprefix("unix:"))
    else:
        peer = socket.create_connection(("127.0.0.1", int(text.rpartition(":")[2])))
    peer.setblocking(False)
    return peer


def hello(service: str = "lab", version: int = 1, magic: bytes = b"HALFPAST") -> bytes:
    return magic + struct.pack("<HB", version, len(service)) + service.encode()


def frame(kind: int, call_id: int, method: int, message: object) -> bytes:
    payload = msgspec.msgpack.encode(message)
    return HEADER.pack(len(payload) + 10, call_id, kind, method) + payload


async def read_to_end(peer: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    with suppress(ConnectionResetError):
        while part := await loop.sock_recv(peer, 65536):
            data += part
    return data


def test_calls_are_answered(run: Run, address: str) -> None:
    async def main() -> None:
        async with Lab(address).pair() as client:
            assert await echo(client, "hello", b"\0\xff") == Said("hello", b"\0\xff")

    run(main())


@pytest.mark.parametrize("size", [0, 300, 47_000, 130_000, 300_000, 20_000_000])
def test_bodies_of_all_sizes(run: Run, address: str, size: int) -> None:
    async def main() -> None:
        body = os.urandom(size)
        async with Lab(address).pair() as client:
            replies = await asyncio.gather(*(echo(client, "", body) for _ in range(3)))
            assert all(reply.data == body for reply in replies)

    run(main())


def test_a_thousand_calls_at_once(run: Run, address: str) -> None:
    async def main() -> None:
        async with Lab(address).pair() as client:
            texts = [str(number) for number in range(1000)]
            replies = await asyncio.gather(*(echo(client, text) for text in texts))
            assert [reply.text for reply in replies] == texts

    run(main())


def test_a_slow_call_holds_up_no_other(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.pair() as client:
            slow = asyncio.create_task(wait(client, "slow"))
            await eventually(lambda: lab.service.waiting == 1)
            assert (await echo(client, "quick")).text == "quick"
            assert not slow.done()
            lab.service.bell.set()
            assert (await slow).text == "slow"

    run(main())


def test_known_errors_arrive_as_their_class(run: Run, address: str) -> None:
    async def main() -> None:
        async with Lab(address).pair() as client:
            with pytest.raises(OffsetOutOfRange) as caught:
                await fail(client, "core")
            assert caught.value.args == (5, 7, 9)
            assert (await echo(client, "next")).text == "next"

    run(main())


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("foreign", "fail failed: KeyError: 'secret'"),
        ("unsendable", "fail failed: CoreError: "),
        ("endless", "fail failed: ValueError: xxx"),
        ("garbled", "fail failed: ValueError: ?"),
        ("speechless", "fail failed: Speechless"),
    ],
)
def test_unknown_errors_are_told_and_logged_at_the_server(
    run: Run, address: str, how: str, text: str
) -> None:
    async def main() -> None:
        with structlog.testing.capture_logs() as logged:
            async with Lab(address).pair() as client:
                for _ in range(3):
                    with pytest.raises(RemoteFailure) as caught:
                        await fail(client, how)
                    assert str(caught.value).startswith(text)
                    assert len(str(caught.value)) < 20_000
        assert [entry["event"] for entry in logged] == ["call failed"]  # not thrice
        assert logged[0]["method"] == "fail"
        assert isinstance(logged[0]["exc_info"], Exception)

    run(main())


def test_a_service_that_is_about_to_end_leaves_the_outcome_open(
    run: Run, address: str
) -> None:
    async def main() -> None:
        with structlog.testing.capture_logs() as logged:
            async with Lab(address).pair() as client:
                with pytest.raises(ConnectionLost, match="has failed and must reopen"):
                    await fail(client, "ending")
        assert logged == []  # the end itself is told, once

    run(main())


def test_a_call_that_cancels_itself_is_answered(run: Run, address: str) -> None:
    async def main() -> None:
        async with Lab(address).pair() as client:
            with pytest.raises(RemoteFailure, match="cancelled"):
                await fail(client, "cancel")

    run(main())


@pytest.mark.parametrize("how", ["", "impossible"])
def test_a_reply_of_the_wrong_type_fails_its_call_only(
    run: Run, address: str, how: str
) -> None:
    async def main() -> None:
        with structlog.testing.capture_logs():
            async with Lab(address).pair() as client:
                with pytest.raises(RemoteFailure):
                    await client.call("lie", Say(how))
                assert (await echo(client, "next")).text == "next"

    run(main())


def test_a_cancelled_call_is_cancelled_at_the_server(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.pair() as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await wait(client, "for nothing")
            await eventually(lambda: lab.service.cancelled == 1)
            assert (await echo(client, "next")).text == "next"

    run(main())


def test_calls_cancelled_in_the_turn_of_their_start(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            await echo(client, "connect")
            tasks: list[asyncio.Task[Said]] = []
            for _ in range(100):
                tasks.append(asyncio.create_task(wait(client, "never")))
                await asyncio.sleep(0)
                tasks[-1].cancel()
            await asyncio.wait(tasks)
            await echo(client, "behind them")
            await eventually(lambda: server.call_count == 0)
            assert lab.service.waiting == 0

    run(main())


def test_closing_the_client_cancels_its_calls(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server:
            async with lab.client(server) as client:
                waiting = [asyncio.create_task(wait(client, "")) for _ in range(5)]
                await eventually(lambda: lab.service.waiting == 5)
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(result, ConnectionLost) for result in results)
            await eventually(lambda: lab.service.cancelled == 5)
            await eventually(lambda: not server.connections)
            with pytest.raises(Unavailable, match="the client is closed"):
                await echo(client, "too late")

    run(main())


def test_a_lost_connection_fails_calls_and_is_made_again(
    run: Run, address: str
) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            waiting = asyncio.create_task(wait(client, ""))
            await eventually(lambda: lab.service.waiting == 1)
            for connection in list(server.connections):
                connection.abort()
            with pytest.raises(ConnectionLost):
                await waiting
            await eventually(lambda: lab.service.cancelled == 1)
            assert (await echo(client, "again")).text == "again"

    run(main())


def test_calls_wait_for_a_server_that_restarts(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as first:
            bound = str(first.address)
            client = RpcClient(bound, TABLE, service="lab")
            assert (await echo(client, "first")).text == "first"
        calls = [asyncio.create_task(echo(client, "second")) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert not any(call.done() for call in calls)
        async with lab.server(address=bound) as second:
            replies = await asyncio.gather(*calls)
            assert [reply.text for reply in replies] == ["second"] * 10
            assert len(second.connections) == 1
            await client.close()

    run(main())


def test_calls_without_a_server_give_up_in_time(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server:
            pass
        config = RpcClientConfig(connect_timeout_s=0.1)
        async with lab.client(server, config) as client:
            for _ in range(2):
                with pytest.raises(Unavailable) as caught:
                    await echo(client, "hello?")
                assert str(server.address) in str(caught.value)
                assert caught.value.reason != "no connection yet"

    run(main())


def test_a_server_that_does_not_answer_is_unavailable(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        with closing(socket.socket(socket.AF_UNIX)) as deaf:
            deaf.bind(f"{tmp_path}/s")
            deaf.listen()
            config = RpcClientConfig(connect_timeout_s=0.1)
            client = RpcClient(
                f"unix:{tmp_path}/s", TABLE, service="lab", config=config
            )
            with pytest.raises(Unavailable):
                await echo(client, "hello?")
            await client.close()

    run(main())


def test_attempts_back_off(run: Run, tmp_path: Path) -> None:
    attempts = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    async def main() -> None:
        server = await asyncio.start_unix_server(hang_up, f"{tmp_path}/s")
        config = RpcClientConfig(connect_timeout_s=0.4, backoff_initial_s=0.02)
        client = RpcClient(f"unix:{tmp_path}/s", TABLE, service="lab", config=config)
        calls = [echo(client, "hello?") for _ in range(50)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results)
        assert 3 <= attempts <= 7  # with 20, 40, 80, 160 ms between them, +-50 %
        server.close()  # and the client stops by itself: nobody waits

    run(main())


@pytest.mark.parametrize("where", ["service", "version", "magic"])
def test_a_client_that_meets_another_service_says_so(
    run: Run, tmp_path: Path, where: str
) -> None:
    greeting, reason = {
        "service": (hello("chronos"), "'lab' was expected there, it is 'chronos'"),
        "version": (hello(version=7), "it speaks version 7 of the protocol"),
        "magic": (b"HTTP/1.1 400 Bad Request\r\n", "does not speak this protocol"),
    }[where]

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_unix_server(other, f"{tmp_path}/s")
        client = RpcClient(f"unix:{tmp_path}/s", TABLE, service="lab")
        with pytest.raises(ProtocolMismatch, match=reason):
            await echo(client, "hello?")
        await client.close()
        server.close()

    run(main())


@pytest.mark.parametrize("greeting", [hello("chronos"), hello(version=7)])
def test_a_server_tells_a_foreign_client_what_it_is(
    run: Run, address: str, greeting: bytes
) -> None:
    async def main() -> None:
        with structlog.testing.capture_logs() as logged:
            async with Lab(address).server() as server:
                peer = connect_raw(server)
                await asyncio.get_running_loop().sock_sendall(peer, greeting)
                assert await read_to_end(peer) == hello()
                peer.close()
                await eventually(lambda: not server.connections)
        assert [entry["event"] for entry in logged] == ["connection refused"]

    run(main())


def test_a_real_client_of_another_service_is_told(run: Run, address: str) -> None:
    async def main() -> None:
        with structlog.testing.capture_logs():
            async with Lab(address).server() as server:
                client = RpcClient(str(server.address), TABLE, service="chronos")
                with pytest.raises(ProtocolMismatch, match="it is 'lab'"):
                    await echo(client, "hello?")
                await client.close()

    run(main())


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        hello() + b"\0" * 100,
        hello() + b"\xff" * 100,
        hello() + HEADER.pack(64 * 1024 * 1024 + 1, 1, REQUEST, 1),
        hello() + frame(REPLY, 1, 1, None),
        hello() + frame(9, 1, 1, None),
        hello() + 2 * frame(REQUEST, 1, 2, Say()),
    ],
)
def test_peers_that_break_the_rules_are_dropped(
    run: Run, address: str, data: bytes
) -> None:
    async def main() -> None:
        lab = Lab(address)
        with structlog.testing.capture_logs() as logged:
            async with lab.server() as server, lab.client(server) as client:
                peer = connect_raw(server)
                await asyncio.get_running_loop().sock_sendall(peer, data)
                assert await read_to_end(peer) in (b"", hello())
                peer.close()
                assert (await echo(client, "still here")).text == "still here"
                await eventually(lambda: lab.service.waiting == 0)
        assert [entry["event"] for entry in logged] == ["connection dropped"]

    run(main())


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"\x93", b"\x92\x01\x02", b"\x91\xa1\xff"]
)
def test_unreadable_arguments_fail_their_call_only(
    run: Run, address: str, payload: bytes
) -> None:
    async def main() -> None:
        async with Lab(address).server() as server:
            loop = asyncio.get_running_loop()
            peer = connect_raw(server)
            bad = HEADER.pack(len(payload) + 10, 1, REQUEST, 1) + payload
            unknown = frame(REQUEST, 2, 77, Say())
            good = frame(REQUEST, 3, 1, Say("good"))
            await loop.sock_sendall(peer, hello() + bad + unknown + good)
            data = b""
            while frame(REPLY, 3, 1, Said("good")) not in data:
                data += await loop.sock_recv(peer, 65536)
            assert b"remote_failure" in data
            assert b"there is no such one" in data
            peer.close()

    run(main())


def test_a_peer_that_says_nothing_is_dropped(run: Run, address: str) -> None:
    async def main() -> None:
        config = RpcServerConfig(hello_timeout_s=0.05)
        with structlog.testing.capture_logs():
            async with Lab(address).server(config) as server:
                peer = connect_raw(server)
                await asyncio.get_running_loop().sock_sendall(peer, b"HALF")
                assert await read_to_end(peer) == b""
                peer.close()

    run(main())


def test_frames_over_the_limit_fail_their_call_only(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with (
            lab.server(RpcServerConfig(frame_size_max=1000)) as server,
            lab.client(server, RpcClientConfig(frame_size_max=1000)) as client,
        ):
            with pytest.raises(FrameTooLarge):
                await echo(client, "", bytes(1000))
            with pytest.raises(FrameTooLarge):
                await fill(client, 1000)
            with pytest.raises(FrameTooLarge):
                await fail(client, "wordy")
            assert len((await echo(client, "", bytes(900))).data) == 900

    run(main())


def test_calls_over_the_limit_are_refused(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with (
            lab.server(RpcServerConfig(calls_max=3)) as server,
            lab.client(server) as client,
        ):
            waiting = [asyncio.create_task(wait(client, "")) for _ in range(3)]
            await eventually(lambda: lab.service.waiting == 3)
            with pytest.raises(Overloaded):
                await echo(client, "one too many")
            lab.service.bell.set()
            await asyncio.gather(*waiting)
            assert (await echo(client, "room again")).text == "room again"

    run(main())


def test_the_bytes_of_requests_in_flight_are_bounded(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with (
            lab.server(RpcServerConfig(request_size_max=1_000_000)) as server,
            lab.client(server) as client,
        ):
            big = "x" * 300_000
            waiting = [asyncio.create_task(wait(client, big)) for _ in range(20)]
            await eventually(lambda: lab.service.waiting == 4)
            await asyncio.sleep(0.05)
            assert lab.service.waiting == 4
            lab.service.bell.set()
            replies = await asyncio.gather(*waiting)
            assert all(reply.text == big for reply in replies)

    run(main())


def test_a_reader_who_does_not_read_stops_the_work(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            loop = asyncio.get_running_loop()
            peer = connect_raw(server)
            asked = b"".join(frame(REQUEST, n, 4, Size(100_000)) for n in range(5000))
            sending = asyncio.create_task(loop.sock_sendall(peer, hello() + asked))
            await eventually(lambda: lab.service.filled > 10)
            for _ in range(5):
                assert (await echo(client, "others go on")).text == "others go on"
                await asyncio.sleep(0.02)
            unread = max(
                connection.transport.get_write_buffer_size()
                for connection in server.connections
            )
            assert 0 < unread < 20_000_000
            assert lab.service.filled < 500
            total, expected = 0, 5000 * 100_000
            while total < expected:
                total += len(await loop.sock_recv(peer, 1_000_000))
            await sending
            assert lab.service.filled == 5000
            peer.close()

    run(main())


def test_a_reader_far_behind_is_dropped(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        config = RpcServerConfig(unread_size_max=2_000_000)
        with structlog.testing.capture_logs() as logged:
            async with lab.server(config) as server:
                peer = connect_raw(server)
                asked = b"".join(frame(REQUEST, n, 4, Size(500_000)) for n in range(60))
                await asyncio.get_running_loop().sock_sendall(peer, hello() + asked)
                await eventually(lambda: lab.service.filled > 0)
                await eventually(lambda: not server.connections)
                peer.close()
        assert [entry["event"] for entry in logged] == ["connection dropped"]

    run(main())


def test_a_client_waits_for_a_server_that_does_not_read(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        reading = asyncio.Event()
        received = bytearray()

        async def slow(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            writer.write(hello())
            await reading.wait()
            while data := await reader.read(1_000_000):
                received.extend(data)
            writer.close()

        server = await asyncio.start_unix_server(slow, f"{tmp_path}/s")
        config = RpcClientConfig(connect_timeout_s=0.2)
        client = RpcClient(f"unix:{tmp_path}/s", TABLE, service="lab", config=config)
        body = bytes(500_000)
        calls = [asyncio.create_task(echo(client, "", body)) for _ in range(20)]
        done, pending = await asyncio.wait(calls, timeout=1)
        assert 10 < len(done) < 20  # the rest has been sent, at least in part
        for call in done:
            assert isinstance(call.exception(), Unavailable)
        with pytest.raises(Unavailable, match="it does not read what is sent"):
            await echo(client, "not sent")
        reading.set()
        await eventually(lambda: len(received) > len(pending) * len(body))
        last = asyncio.create_task(echo(client, "goes out again"))
        await eventually(lambda: b"goes out again" in received)
        await client.close()
        assert b"not sent" not in received
        results = await asyncio.gather(*pending, last, return_exceptions=True)
        assert all(isinstance(result, ConnectionLost) for result in results)
        server.close()

    run(main())


def test_stopping_lets_calls_finish(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            waiting = asyncio.create_task(wait(client, "nearly done"))
            await eventually(lambda: lab.service.waiting == 1)
            stopping = asyncio.create_task(server.stop(grace_s=10))
            await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="it is stopping"):
                await echo(client, "new")
            lab.service.bell.set()
            assert (await waiting).text == "nearly done"
            await stopping
            assert lab.service.cancelled == 0
            assert not server.connections

    run(main())


def test_stopping_cancels_what_does_not_finish(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            waiting = asyncio.create_task(wait(client, "for ever"))
            await eventually(lambda: lab.service.waiting == 1)
            await server.stop(grace_s=0.05)
            with pytest.raises(ConnectionLost):
                await waiting
            assert lab.service.cancelled == 1

    run(main())


def test_who_connects_while_it_stops_is_turned_away(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server:
            server.stopping = True
            peer = connect_raw(server)
            assert await read_to_end(peer) == b""
            peer.close()
            await eventually(lambda: not server.connections)

    run(main())


def test_a_reply_written_last_is_still_read(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            await echo(client, "connect")
            filling = asyncio.create_task(fill(client, 30_000_000))
            await eventually(lambda: lab.service.filled == 1)
            await server.stop(grace_s=1)
            assert len((await filling).data) == 30_000_000

    run(main())


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_mixed_up_or_left_behind(run: Run, address: str, seed: int) -> None:
    """Calls, cancels and broken connections in a random order."""
    rng = random.Random(seed)

    async def one_call(client: RpcClient, text: str) -> None:
        size = rng.choice([0, 10, 1000, 100_000])
        try:
            async with asyncio.timeout(rng.choice([None, None, 0, 0.001, 0.01])):
                if rng.random() < 0.3:
                    await wait(client, text)
                    raise AssertionError("the bell does not ring")
                reply = await echo(client, text, bytes(size))
        except (TimeoutError, ConnectionLost):
            return
        assert reply == Said(text, bytes(size))

    async def caller(client: RpcClient, name: int) -> None:
        for number in range(30):
            await one_call(client, f"{name}/{number}")

    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            callers = [asyncio.create_task(caller(client, n)) for n in range(20)]
            pending = set(callers)
            while pending:  # calls without a time-out wait until it breaks
                _, pending = await asyncio.wait(pending, timeout=0.02)
                for connection in list(server.connections):
                    connection.abort()
            await asyncio.gather(*callers)
            await eventually(lambda: server.call_count == 0)
            assert lab.service.waiting == 0

    run(main())


def test_the_socket_file_is_private_and_goes_away(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s"
        async with Lab(f"unix:{path}").server():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()

    run(main())


def test_a_stale_socket_file_is_replaced(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s"
        with closing(socket.socket(socket.AF_UNIX)) as killed:
            killed.bind(str(path))
        assert path.exists()
        async with Lab(f"unix:{path}").pair() as client:
            assert (await echo(client, "mine")).text == "mine"

    run(main())


def test_a_living_server_keeps_its_address(run: Run, address: str) -> None:
    async def main() -> None:
        lab = Lab(address)
        async with lab.server() as server, lab.client(server) as client:
            with pytest.raises(AddressInUse, match="another process is serving"):
                await serve(TABLE, lab.service, str(server.address), service="lab")
            assert (await echo(client, "unharmed")).text == "unharmed"

    run(main())


def test_a_successor_keeps_its_socket_file(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s"
        lab = Lab(f"unix:{path}")
        async with lab.server() as first:
            path.unlink()
            async with lab.server() as second:
                await first.stop(0)
                async with lab.client(second) as client:
                    assert (await echo(client, "mine")).text == "mine"

    run(main())


def test_addresses_that_cannot_be_bound_say_why(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "file").write_text("data")
        lab = Lab("")
        for address, reason in [
            (f"unix:{tmp_path}/file", "a file that is not a socket"),
            (f"unix:{tmp_path}/missing/s", "No such file or directory"),
            (f"unix:{tmp_path}/{'x' * 108}", "a unix socket allows 107"),
            ("tcp:192.0.2.1:0", "192.0.2.1"),
        ]:
            with pytest.raises(BadAddress, match=reason):
                await serve(TABLE, lab.service, address, service="lab")
        assert (tmp_path / "file").read_text() == "data"

    run(main())

"""Calls a service over one connection, many calls at a time.

The connection is made by the first call and made again by the first call after a
loss. A call that has been sent is never sent again by itself: what it did before
a loss is unknown, and only the caller knows whether it may be repeated.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import msgspec

from halfpast_core_store.rpc import (
    CANCEL,
    ERROR,
    FRAME_SIZE_MAX,
    PROTOCOL_VERSION,
    REPLY,
    REQUEST,
    FrameProtocol,
    Method,
    ServiceTable,
)
from halfpast_core_store.rpc_address import UnixAddress, parse_address
from halfpast_core_store.rpc_errors import (
    ConnectionLost,
    ErrorRegistry,
    ProtocolMismatch,
    RemoteFailure,
    Unavailable,
)

ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcClientConfig:
    """Patience, in seconds, and the largest frame, in bytes.

    After a failed attempt the next one waits for `backoff_initial_s`, then twice
    as long each time up to `backoff_max_s`, each a random half more or less.
    """

    connect_timeout_s: float = 5.0  # also how long a call waits for a connection
    backoff_initial_s: float = 0.02
    backoff_max_s: float = 1.0
    frame_size_max: int = FRAME_SIZE_MAX


class RpcClient:
    """One service at one address. Belongs to one event loop; close it at the end."""

    def __init__(
        self,
        address: str,
        table: ServiceTable,
        *,
        service: str,
        errors: ErrorRegistry | None = None,
        config: RpcClientConfig | None = None,
    ) -> None:
        self._address = parse_address(address)
        self._methods = {method.name: _CallableMethod(method) for method in table}
        self._service = service
        self._errors = errors or ErrorRegistry()
        self._config = config or RpcClientConfig()
        self._connection: _ClientConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._backoff_s = self._config.backoff_initial_s
        self._failure = "no connection yet"
        self._closed = False

    async def call(self, method: str, argument: msgspec.Struct) -> ReplyT:  # pyright: ignore[reportInvalidTypeVarUse]
        """Call `method`; its reply has the type that the table tells.

        A type checker takes that type from where the reply goes, so say it there.
        Raises what the implementation raises; Unavailable or ProtocolMismatch if
        nothing was sent; ConnectionLost or RemoteFailure if the outcome is unknown;
        FrameTooLarge. There is no time-out: cancel the call (`asyncio.timeout`),
        and the server's side of it is cancelled too.
        """
        bound = self._methods[method]
        connection = self._connection
        if connection is None or connection.write_paused:
            connection = await self._ready_connection()
        call_id, reply = connection.begin(bound, argument)
        try:
            answer: ReplyT = await reply
            return answer
        except asyncio.CancelledError:
            connection.cancel(call_id)
            raise

    async def close(self) -> None:
        """Close the connection. Calls in flight fail with ConnectionLost."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self._wake(Unavailable(str(self._address), "the client is closed"))
        if self._connection is not None:
            gone = self._connection.gone
            self._connection.abort()
            await asyncio.wait([gone])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ready_connection(self) -> "_ClientConnection":
        """A connection that takes a call now. Nothing has been sent if this raises."""
        try:
            async with asyncio.timeout(self._config.connect_timeout_s):
                while True:
                    if self._closed:
                        raise Unavailable(str(self._address), "the client is closed")
                    connection = self._connection
                    if connection is None:
                        await self._connected()
                    elif connection.write_paused:
                        self._failure = "it does not read what is sent"
                        await connection.writable()
                    else:
                        return connection
        except TimeoutError:
            raise Unavailable(str(self._address), self._failure) from None

    async def _connected(self) -> None:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def _connect(self) -> None:
        """Try until there is a connection, or nobody who waits for it."""
        try:
            while True:
                try:
                    self._connection = await self._attempt()
                except ProtocolMismatch as error:
                    self._wake(error)
                except TimeoutError:
                    self._failure = "it does not answer"
                except OSError as error:
                    self._failure = error.strerror or str(error)
                else:
                    self._backoff_s = self._config.backoff_initial_s
                    self._wake(None)
                    return
                jitter = random.uniform(0.5, 1.5)  # nosec B311 # no secret
                await asyncio.sleep(self._backoff_s * jitter)
                self._backoff_s = min(2 * self._backoff_s, self._config.backoff_max_s)
                if not self._waiters:
                    return
        finally:
            self._connecting = None

    async def _attempt(self) -> "_ClientConnection":
        loop = asyncio.get_running_loop()
        connection = _ClientConnection(
            str(self._address), self._service, self._errors, self._config, self._lost
        )
        address = self._address
        try:
            async with asyncio.timeout(self._config.connect_timeout_s):
                if isinstance(address, UnixAddress):
                    await loop.create_unix_connection(lambda: connection, address.path)
                else:
                    await loop.create_connection(
                        lambda: connection, address.host, address.port
                    )
                await connection.welcome
                if not connection.is_open:
                    raise ConnectionResetError("it hung up after its hello")
        except BaseException:
            connection.give_up()
            raise
        return connection

    def _lost(self, connection: "_ClientConnection") -> None:
        if self._connection is connection:
            self._connection = None

    def _wake(self, error: Exception | None) -> None:
        for waiter in self._waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(type(error)(*error.args))
        self._waiters.clear()


class _CallableMethod:
    """A method of the table, ready to be called."""

    def __init__(self, method: Method) -> None:
        self.name = method.name
        self.number = method.number
        self.decode: Callable[[bytes | bytearray], msgspec.Struct] = (
            msgspec.msgpack.Decoder(method.reply).decode
        )


class _ClientConnection(FrameProtocol):
    def __init__(
        self,
        address: str,
        service: str,
        errors: ErrorRegistry,
        config: RpcClientConfig,
        lost: "Callable[[_ClientConnection], None]",
    ) -> None:
        super().__init__(service, config.frame_size_max)
        self.welcome: asyncio.Future[None] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._address = address
        self._errors = errors
        self._lost = lost
        self._reason = ""
        self._next_id = 1
        self._calls: dict[int, tuple[asyncio.Future[Any], _CallableMethod]] = {}
        self._write_waiters: list[asyncio.Future[None]] = []

    def begin(
        self, method: _CallableMethod, argument: msgspec.Struct
    ) -> tuple[int, asyncio.Future[Any]]:
        """Send a request; the future gets its reply."""
        call_id = self._next_id
        self.send(REQUEST, call_id, method.number, argument)
        self._next_id = call_id + 1
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._calls[call_id] = (reply, method)
        return call_id, reply

    def cancel(self, call_id: int) -> None:
        """Nobody waits for this call any more."""
        if self._calls.pop(call_id, None) is not None:
            self.send(CANCEL, call_id, 0, None)

    async def writable(self) -> None:
        """Until the other end has read enough, or the connection is gone."""
        waiter = self._loop.create_future()
        self._write_waiters.append(waiter)
        await waiter

    def give_up(self) -> None:
        """Forget a connection that did not come about."""
        if self.is_open:
            self.abort()
        if not self.welcome.cancel() and not self.welcome.cancelled():
            self.welcome.exception()  # has been looked at, or need not be

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send_hello()

    def greeted(self, version: int, service: str) -> None:
        if service != self._service:
            self.fail(f"{self._service!r} was expected there, it is {service!r}")
        elif version != PROTOCOL_VERSION:
            self.fail(
                f"it speaks version {version} of the protocol, we speak "
                f"{PROTOCOL_VERSION}; run the same release of Halfpast on both sides"
            )
        elif not self.welcome.done():
            self.welcome.set_result(None)

    def frame_received(
        self, kind: int, call_id: int, method: int, payload: bytes | bytearray
    ) -> None:
        if kind != REPLY and kind != ERROR:
            self.fail(f"it sent a frame of type {kind}")
            return
        call = self._calls.pop(call_id, None)
        if call is None or call[0].done():
            return  # cancelled here while the reply was on its way
        reply, called = call
        if kind == ERROR:
            reply.set_exception(self._errors.from_wire(called.name, payload))
            return
        try:
            reply.set_result(called.decode(payload))
        except Exception as error:  # DecodeError, or UTF-8 that is none
            text = f"unreadable reply: {error}"
            reply.set_exception(RemoteFailure(called.name, text))

    def broken(self, reason: str) -> None:
        self._reason = reason
        if not self.welcome.done():
            self.welcome.set_exception(ProtocolMismatch(self._address, reason))

    def closed(self, reason: str) -> None:
        self._lost(self)
        reason = self._reason or reason
        if not self.welcome.done():
            self.welcome.set_exception(ConnectionResetError(reason))
        for reply, _ in self._calls.values():
            if not reply.done():
                reply.set_exception(ConnectionLost(self._address, reason))
        self._calls.clear()
        self.resume_writing()
        self.gone.set_result(None)

    def eof_received(self) -> None:
        self._lost(self)  # the next call makes a new connection

    def resume_writing(self) -> None:
        super().resume_writing()
        for waiter in self._write_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._write_waiters.clear()

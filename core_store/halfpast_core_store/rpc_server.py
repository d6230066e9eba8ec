"""Serves one service on a socket: decode, call, reply.

Each call runs as a task of its own. Calls of a connection that closes, and calls
whose caller has stopped waiting, are cancelled: an implementation that must
finish what it began shields that part.

Memory per connection is bounded: by the number of calls in flight (more are
refused as Overloaded), by the bytes of their requests and by the replies that the
peer has not read (reading stops; far beyond that the connection is dropped).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from halfpast_core_store.errors import IndexFailed, Overloaded
from halfpast_core_store.real_listener import Listener, listen
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
from halfpast_core_store.rpc_address import TcpAddress, UnixAddress, parse_address
from halfpast_core_store.rpc_errors import (
    ConnectionLost,
    ErrorRegistry,
    FrameTooLarge,
    RemoteFailure,
    Unavailable,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcServerConfig:
    """Bounds of one connection. Sizes in bytes, times in seconds."""

    frame_size_max: int = FRAME_SIZE_MAX
    calls_max: int = 10_000  # long polls count
    request_size_max: int = 64 * 1024 * 1024  # of all calls in flight together
    unread_size_max: int = 256 * 1024 * 1024  # replies; must exceed one frame
    hello_timeout_s: float = 5.0
    backlog: int = 1024


async def serve(
    table: ServiceTable,
    implementation: object,
    address: str,
    *,
    service: str,
    errors: ErrorRegistry | None = None,
    config: RpcServerConfig | None = None,
) -> "Server":
    """Offer `implementation`'s methods at `address` until the server is stopped.

    `service` is the name that clients expect. Raises BadAddress and AddressInUse;
    AttributeError if the implementation lacks a method of the table.
    """
    server = Server(
        table,
        implementation,
        parse_address(address),
        service,
        errors or ErrorRegistry(),
        config or RpcServerConfig(),
    )
    await server.start()
    return server


class Server:
    """A listening service. Made by `serve`; belongs to one event loop."""

    def __init__(
        self,
        table: ServiceTable,
        implementation: object,
        address: UnixAddress | TcpAddress,
        service: str,
        errors: ErrorRegistry,
        config: RpcServerConfig,
    ) -> None:
        self.address = address
        self.service = service
        self.errors = errors
        self.config = config
        self.stopping = False
        self.log: FilteringBoundLogger = structlog.get_logger().bind(service=service)
        self.connections: set[_ServerConnection] = set()  # until their calls end
        self.methods: list[_BoundMethod | None] = [None] * 256
        for method in table:
            assert self.methods[method.number] is None, f"{method} has a used number"
            self.methods[method.number] = _BoundMethod(method, implementation)
        self._listener: Listener | None = None

    @property
    def call_count(self) -> int:
        """Calls in flight, over all connections."""
        return sum(len(connection.calls) for connection in self.connections)

    async def start(self) -> None:
        """Listen. `address` then tells the port that was chosen."""
        self._listener = await listen(
            self.address, lambda: _ServerConnection(self), self.config.backlog
        )
        self.address = self._listener.address

    async def stop(self, grace_s: float = 5.0) -> None:
        """Stop accepting, let calls in flight finish for `grace_s`, then close.

        New calls on open connections are refused as Unavailable. Calls that are
        still running after the grace are cancelled, and their callers see
        ConnectionLost; so an implementation ends its long polls before this.
        """
        self.stopping = True
        if self._listener is not None:
            self._listener.close()
        await self._wait_for_calls(grace_s)
        for connection in self.connections:
            connection.cancel_calls()
        await self._wait_for_calls(_CANCEL_GRACE_S)
        gone = [connection.gone for connection in self.connections]
        for connection in self.connections:
            if connection.is_open:
                connection.close()
        if gone:
            await asyncio.wait(gone)  # `close` has a time-out

    async def _wait_for_calls(self, timeout_s: float) -> None:
        calls = [task for peer in self.connections for task in peer.calls.values()]
        if calls:
            await asyncio.wait(calls, timeout=timeout_s)


class _BoundMethod:
    """A method of the table, ready to be called."""

    def __init__(self, method: Method, implementation: object) -> None:
        self.name = method.name
        self.number = method.number
        self.handler: Callable[[Any], Awaitable[msgspec.Struct]] = getattr(
            implementation, method.name
        )
        self.decode: Callable[[bytes | bytearray], msgspec.Struct] = (
            msgspec.msgpack.Decoder(method.argument).decode
        )
        self._quiet_until = 0.0
        self._unlogged = 0

    def log_failure(
        self, log: FilteringBoundLogger, now: float, error: BaseException
    ) -> None:
        """Log with traceback, but a method that fails all the time once a second."""
        if now < self._quiet_until:
            self._unlogged += 1
            return
        log.error(
            "call failed", method=self.name, unlogged=self._unlogged, exc_info=error
        )
        self._quiet_until = now + 1.0
        self._unlogged = 0


class _ServerConnection(FrameProtocol):
    def __init__(self, server: Server) -> None:
        super().__init__(server.service, server.config.frame_size_max)
        self.calls: dict[int, asyncio.Task[None]] = {}
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._server = server
        self._errors = server.errors
        self._methods = server.methods
        self._calls_max = server.config.calls_max
        self._request_size = 0
        self._request_size_max = server.config.request_size_max

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)
        if self._server.stopping:
            self.abort()
        self._hello_timer = self._loop.call_later(
            self._server.config.hello_timeout_s, self.fail, "it did not say hello"
        )

    def greeted(self, version: int, service: str) -> None:
        self._hello_timer.cancel()
        self.send_hello()
        if version != PROTOCOL_VERSION or service != self._server.service:
            # Our hello tells the client what is wrong.
            reason = f"it wants {service!r}, protocol version {version}"
            self._server.log.warning("connection refused", reason=reason)
            self.close()

    def frame_received(
        self, kind: int, call_id: int, method: int, payload: bytes | bytearray
    ) -> None:
        if kind == REQUEST and call_id not in self.calls:
            self._begin(call_id, method, payload)
        elif kind == CANCEL:
            task = self.calls.get(call_id)
            if task is not None:
                # Not before its first step: that would skip `_answer` altogether.
                self._loop.call_soon(task.cancel)
        else:
            self.fail(f"a frame of type {kind} for call {call_id}")

    def broken(self, reason: str) -> None:
        self._server.log.warning("connection dropped", reason=reason)

    def closed(self, reason: str) -> None:
        self._hello_timer.cancel()
        self.cancel_calls()
        self.gone.set_result(None)
        self._forget_if_over()

    def cancel_calls(self) -> None:
        for task in self.calls.values():
            self._loop.call_soon(task.cancel)

    def flush(self) -> None:
        super().flush()
        if self.is_open:
            unread = self.transport.get_write_buffer_size()
            if unread > self._server.config.unread_size_max:
                self.fail(f"it has left {unread} bytes of replies unread")

    def pause_writing(self) -> None:
        super().pause_writing()
        self.hold()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._release_if_free()

    def _begin(self, call_id: int, number: int, payload: bytes | bytearray) -> None:
        method = self._methods[number]
        if method is None:
            error: Exception = RemoteFailure(f"method {number}", "there is no such one")
        elif self._server.stopping:
            error = Unavailable(str(self._server.address), "it is stopping")
        elif len(self.calls) >= self._calls_max:
            error = Overloaded("connection")
        else:
            try:
                argument = method.decode(payload)
            except Exception as cause:  # DecodeError, or UTF-8 that is none
                error = RemoteFailure(method.name, f"unreadable argument: {cause}")
            else:
                size = len(payload)
                self._request_size += size
                if self._request_size > self._request_size_max:
                    self.hold()
                self.calls[call_id] = self._loop.create_task(
                    self._answer(call_id, method, argument, size)
                )
                return
        self._send_error(call_id, number, error)

    async def _answer(
        self, call_id: int, method: _BoundMethod, argument: msgspec.Struct, size: int
    ) -> None:
        try:
            reply = await method.handler(argument)
            self.send(REPLY, call_id, method.number, reply)
        except asyncio.CancelledError:
            # Whoever cancelled it has forgotten its id and ignores this.
            if not self._server.stopping:
                error: Exception = RemoteFailure(method.name, "cancelled")
                self._send_error(call_id, method.number, error)
        except IndexFailed as failure:  # the process is about to end, and says why
            lost = ConnectionLost(self._server.service, str(failure))
            self._send_error(call_id, method.number, lost)
        except Exception as failure:
            error = failure
            if self._errors.to_wire(failure) is None:
                method.log_failure(self._server.log, self._loop.time(), failure)
                error = RemoteFailure(method.name, _text_of(failure))
            self._send_error(call_id, method.number, error)
        finally:
            del self.calls[call_id]
            self._request_size -= size
            self._release_if_free()
            self._forget_if_over()

    def _send_error(self, call_id: int, number: int, error: Exception) -> None:
        try:
            self.send(ERROR, call_id, number, self._errors.to_wire(error))
        except FrameTooLarge as too_large:
            self.send(ERROR, call_id, number, self._errors.to_wire(too_large))

    def _forget_if_over(self) -> None:
        if self.gone.done() and not self.calls:
            self._server.connections.discard(self)

    def _release_if_free(self) -> None:
        if not self.write_paused and self._request_size <= self._request_size_max:
            self.release()


def _text_of(error: Exception) -> str:
    """What an exception says, as far as it can be said in a frame."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return text[:_ERROR_TEXT_MAX].encode(errors="replace").decode()


_CANCEL_GRACE_S = 1.0
_ERROR_TEXT_MAX = 10_000

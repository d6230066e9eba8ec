"""Calls between processes: the table of a service and the bytes of a connection.

A service is a protocol class whose async methods take one struct and return one.
A `ServiceTable` numbers them; `rpc_server.serve` offers an implementation at an
address, `rpc_client.RpcClient` calls it from there, many calls at a time over one
connection. Exceptions arrive as what they are (`rpc_errors`).

Each end first sends a hello. Its layout never changes, so that ends of any two
versions can tell each other what they are; the server speaks second.

    | magic 8 B | version u16 | length u8 | service name |      little-endian

Then come frames. `length` counts all that follows it; payloads are MessagePack.

    | length u32 | call id u64 | type u8 | method u8 | payload |

    type        from      payload
    1 request   client    the argument of the method
    2 reply     server    the reply of the method
    3 error     server    [code, args] of the exception
    4 cancel    client    nil: the caller no longer waits

Call ids are the client's own; replies come in any order. There is no encryption
and no authentication: a unix socket is guarded by its file mode, and a TCP address
must be reachable for trusted hosts only.
"""

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from halfpast_core_store.rpc_errors import FrameTooLarge

PROTOCOL_VERSION: Final = 1
FRAME_SIZE_MAX: Final = 64 * 1024 * 1024

# Types of frames.
REQUEST: Final = 1
REPLY: Final = 2
ERROR: Final = 3
CANCEL: Final = 4


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service. Its number, 1 to 255, is its name on the wire."""

    name: str
    number: int
    argument: type[msgspec.Struct]
    reply: type[msgspec.Struct]

    def __post_init__(self) -> None:
        assert 1 <= self.number <= 255, self


ServiceTable = tuple[Method, ...]


class FrameProtocol(asyncio.BufferedProtocol):
    """One end of a connection: cuts bytes into frames, gathers frames into writes.

    Frames sent within one turn of the loop leave in one write. Payloads handed to
    `frame_received` are never overwritten, so views into them may be kept.
    """

    transport: asyncio.Transport

    def __init__(self, service: str, frame_size_max: int) -> None:
        self.write_paused = False
        self.is_open = False  # while it is not, nothing is sent and nothing cut
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._frame_size_max = frame_size_max
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._outgoing = bytearray()
        self._buffer = bytearray(_BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # what of the buffer has not been cut yet
        self._large: _LargeFrame | None = None
        self._greeted = False
        self._held = False

    # For the subclass to define.

    def greeted(self, version: int, service: str) -> None:
        """The other end's hello has come."""
        raise NotImplementedError

    def frame_received(
        self, kind: int, call_id: int, method: int, payload: bytes | bytearray
    ) -> None:
        raise NotImplementedError

    def broken(self, reason: str) -> None:
        """The other end breaks the rules; the connection is closed next."""
        raise NotImplementedError

    def closed(self, reason: str) -> None:
        """The connection is gone. Called once."""
        raise NotImplementedError

    # For the subclass to use.

    def send_hello(self) -> None:
        name = self._service.encode()
        hello = _HELLO.pack(_MAGIC, PROTOCOL_VERSION, len(name))
        self.transport.write(hello + name)

    def send(self, kind: int, call_id: int, method: int, message: object) -> None:
        """Send a frame at the end of this turn of the loop.

        Raises FrameTooLarge, or TypeError and the like for what MessagePack cannot
        hold; then nothing is sent. Does nothing on a closed connection.
        """
        if not self.is_open:
            return
        out = self._outgoing
        start = len(out)
        try:
            self._encode_into(message, out, start + _HEADER.size)
            size = len(out) - start - _LENGTH_SIZE
            if size > self._frame_size_max:
                raise FrameTooLarge(size, self._frame_size_max)
        except BaseException:
            del out[start:]
            raise
        _HEADER.pack_into(out, start, size, call_id, kind, method)
        if not start:
            self._loop.call_soon(self.flush)
        elif len(out) > _FLUSH_SIZE:
            self.flush()  # lets pause_writing speak before more is encoded

    def flush(self) -> None:
        """Write what has been sent so far."""
        if self._outgoing and self.is_open:
            out, self._outgoing = self._outgoing, bytearray()
            self.transport.write(out)

    def hold(self) -> None:
        """Hand over no more frames and read no more bytes, until `release`."""
        if not self._held:
            self._held = True
            self.transport.pause_reading()

    def release(self) -> None:
        if self._held and self.is_open:
            self._held = False
            self._loop.call_soon(self._resume)

    def fail(self, reason: str) -> None:
        """Close at once because the other end breaks the rules."""
        self.broken(reason)
        self.abort()

    def abort(self) -> None:
        """Close at once; what has not been written is dropped."""
        self.is_open = False
        self._held = True
        self.transport.abort()

    def close(self) -> None:
        """Take in nothing more, write what has been sent, and end the connection.

        The other end closes when it has read all; closing first could make the
        kernel drop replies that are still on their way.
        """
        self.flush()
        self.is_open = False
        self._held = True
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.transport.resume_reading()
            self._loop.call_later(_CLOSE_TIMEOUT_S, self.transport.abort)

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.is_open = True
        self.transport.set_write_buffer_limits(_WRITE_HIGH, _WRITE_LOW)
        _notice_dead_hosts(self.transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._held = True
        self._outgoing.clear()
        self.closed(str(exc) if exc else "it was closed")

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large.room()
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if not self.is_open:
            self._large, self._start, self._end = None, 0, 0
        elif self._large is None:
            self._end += nbytes
            self._cut()
        elif self._large.filled_by(nbytes):
            large, self._large = self._large, None
            self.frame_received(*large.header, large.payload)

    def _resume(self) -> None:
        if not self._held:
            self._cut()
        if not self._held:
            self.transport.resume_reading()

    def _cut(self) -> None:
        """Hand over every whole frame in the buffer, unless held."""
        if not self._greeted and not self._cut_hello():
            return
        start, end = self._start, self._end
        left = _FRAMES_PER_TURN
        while end - start >= _HEADER.size and not self._held:
            size, call_id, kind, method = _HEADER.unpack_from(self._buffer, start)
            if not _SIZE_MIN <= size <= self._frame_size_max:
                return self.fail(f"a frame of {size} bytes")
            stop = start + _LENGTH_SIZE + size
            body = start + _HEADER.size
            if stop <= end:
                self.frame_received(kind, call_id, method, bytes(self._view[body:stop]))
            elif size > _BUFFER_SIZE // 2:
                header = (kind, call_id, method)
                arrived = self._view[body:end]
                self._large = _LargeFrame(header, arrived, size - _SIZE_MIN)
                stop = end
            else:
                break
            start = stop
            left -= 1
            if not left and not self._held:
                # Let what these frames began answer, and other connections work.
                self.hold()
                self.release()
                break
        if start == end:
            start = end = 0
        elif end > _BUFFER_SIZE // 2:
            self._buffer[: end - start] = self._buffer[start:end]
            start, end = 0, end - start
        self._start, self._end = start, end

    def _cut_hello(self) -> bool:
        arrived = bytes(self._view[: self._end])
        if not _MAGIC.startswith(arrived[: len(_MAGIC)]):
            self.fail("it does not speak this protocol")
            return False
        if len(arrived) < _HELLO.size:
            return False
        _, version, length = _HELLO.unpack_from(arrived)
        if len(arrived) < _HELLO.size + length:
            return False
        self._start = _HELLO.size + length
        self._greeted = True
        name = arrived[_HELLO.size : self._start].decode(errors="replace")
        self.greeted(version, name)
        return True


class _LargeFrame:
    """A frame that does not fit into the buffer, read where it will stay.

    Its memory grows with what has arrived, not with what the header promises.
    """

    def __init__(
        self, header: tuple[int, int, int], arrived: memoryview, size: int
    ) -> None:
        self.header = header
        self.payload = bytearray(arrived)
        self._filled = len(arrived)
        self._size = size

    def room(self) -> memoryview:
        if self._filled == len(self.payload):
            grown = min(self._size, max(2 * self._filled, _BUFFER_SIZE))
            self.payload.extend(bytes(grown - self._filled))
        return memoryview(self.payload)[self._filled :]

    def filled_by(self, count: int) -> bool:
        self._filled += count
        return self._filled == self._size


def _notice_dead_hosts(connected: socket.socket) -> None:
    """Let the kernel give a TCP connection up when the other host is gone."""
    if connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, 10),  # s
            (socket.TCP_KEEPINTVL, 5),  # s
            (socket.TCP_KEEPCNT, 3),
            (socket.TCP_USER_TIMEOUT, 25_000),  # ms, for what is not acknowledged
        ):
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


_MAGIC = b"HALFPAST"
_HELLO = struct.Struct("<8sHB")
_HEADER = struct.Struct("<IQBB")
_LENGTH_SIZE = 4
_SIZE_MIN = _HEADER.size - _LENGTH_SIZE
_BUFFER_SIZE = 256 * 1024
_FLUSH_SIZE = 64 * 1024
_WRITE_HIGH = 1024 * 1024
_WRITE_LOW = 256 * 1024
_FRAMES_PER_TURN = 64
_CLOSE_TIMEOUT_S = 2.0

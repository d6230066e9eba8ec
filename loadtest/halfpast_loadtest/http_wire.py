"""HTTP/1.1 as a lean client speaks it: request bytes out, (status, body) in.

A general client library costs more CPU per request than the server under test,
and the two share the machine. So requests are built once, as bytes, and answers
are read by finding the end of the head and the Content-Length, no more. A
request through `Exchange` costs about 5 us beside the system calls.

Only answers with a Content-Length (or 204/304) are understood; Halfpast gives no
others on the routes used here.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import msgspec

from halfpast_loadtest.errors import BadResponse, NotSent, OutcomeUnknown

JSON = "application/json"
MSGPACK = "application/msgpack"


class Response(NamedTuple):
    """One answer. `head` is the status line with all headers, as received."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header, whatever its letters' case."""
        wanted = name.lower().encode()
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == wanted:
                return value.strip().decode("latin-1")
        return None


def request_bytes(
    method: str,
    path: str,
    body: bytes = b"",
    *,
    content_type: str = JSON,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """A whole request, ready to be written to any connection."""
    lines = [f"{method} {path} HTTP/1.1", "Host: halfpast"]
    if body or method != "GET":
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    for name, value in (headers or {}).items():
        lines.append(f"{name}: {value}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class ResponseReader:
    """Cuts a stream of bytes into answers, whatever the pieces it comes in."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of an answer that is not complete
        self._size = 0
        self._needed = 0  # bytes up to its end, 0 while the head is not complete

    def feed(self, data: bytes) -> list[Response]:
        """The answers that `data` completes. Raises BadResponse."""
        if self._pieces:
            self._pieces.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        answers: list[Response] = []
        at = 0
        while at < len(data):
            head_end = data.find(b"\r\n\r\n", at)
            if head_end < 0:
                self._keep(data[at:], 0)
                break
            body_at = head_end + 4
            head = data[at:head_end]
            status, length = _status_and_length(head)
            if len(data) - body_at < length:
                self._keep(data[at:], body_at + length - at)
                break
            answers.append(Response(status, head, data[body_at : body_at + length]))
            at = body_at + length
        return answers

    def _keep(self, rest: bytes, needed: int) -> None:
        self._pieces.append(rest)
        self._size = len(rest)
        self._needed = needed


class Exchange(asyncio.Protocol):
    """One connection: `send` a request, `on_response` is called with the answer.

    The caller keeps at most one request open. `on_lost` is called once, when the
    connection ends or the server's bytes make no sense.
    """

    def __init__(
        self,
        on_response: Callable[[Response], None],
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        self._on_response = on_response
        self._on_lost = on_lost
        self._reader = ResponseReader()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            answers = self._reader.feed(data)
        except BadResponse as error:
            self.close()
            self._on_lost(error)
            return
        for answer in answers:
            self._on_response(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost(exc)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class WireClient:
    """One caller with one connection, opened anew after the server has died.

    Not for concurrent use: one request at a time.
    """

    def __init__(self, host: str, port: int, *, timeout_s: float = 40.0) -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._line: _Line | None = None

    async def request(
        self,
        method: str,
        path: str,
        body: object = b"",
        *,
        headers: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Response:
        """The answer, whatever its status. `body`: bytes, or what becomes JSON.

        Raises NotSent (nothing happened) or OutcomeUnknown (it may have).
        """
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.roundtrip(
            request_bytes(
                method, path, data, content_type=content_type, headers=headers
            )
        )

    async def roundtrip(self, request: bytes) -> Response:
        """Send request bytes and wait for the answer. Raises as `request` does."""
        line = await self._connected()
        line.answer = asyncio.get_running_loop().create_future()
        line.exchange.send(request)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await line.answer
        except TimeoutError:
            raise OutcomeUnknown(f"no answer within {self._timeout_s} s") from None
        finally:
            if line.answer.cancelled():
                self.close()  # a late answer must not meet the next request

    def close(self) -> None:
        if self._line is not None:
            self._line.exchange.close()
            self._line = None

    async def _connected(self) -> "_Line":
        if self._line is not None and self._line.exchange.is_open:
            return self._line
        line = _Line()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: line.exchange, self._host, self._port)
        except OSError as error:
            raise NotSent(f"cannot connect: {error}") from error
        except asyncio.CancelledError:
            line.exchange.close()  # it may be connected already
            raise
        self._line = line
        return line


class _Line:
    """A connection of a WireClient with the answer that it waits for."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Response] | None = None
        self.exchange = Exchange(self._answered, self._lost)

    def _answered(self, response: Response) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(response)

    def _lost(self, error: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            reason = f"connection lost before the answer: {error or 'closed'}"
            self.answer.set_exception(OutcomeUnknown(reason))


def _status_and_length(head: bytes) -> tuple[int, int]:
    code = head[9:12]
    if not head.startswith(b"HTTP/1.1 ") or not code.isdigit():
        raise BadResponse(f"not an HTTP/1.1 answer: {head[:60]!r}")
    at = head.find(b"\r\nContent-Length: ")  # as nearly every server spells it
    if at < 0:
        at = head.lower().find(b"\r\ncontent-length:")
    if at < 0:
        if code in (b"204", b"304"):
            return int(code), 0
        raise BadResponse(f"an answer without Content-Length: {head[:200]!r}")
    end = head.find(b"\r\n", at + 17)
    value = head[at + 17 : end if end >= 0 else None].strip()
    if not value.isdigit():
        raise BadResponse(f"bad Content-Length {value!r}")
    return int(code), int(value)

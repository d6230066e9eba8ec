"""A part of a page, sent again whenever it has changed: server-sent events.

The answer stays open, so it counts as a request that waits: it ends when its reader
leaves and when the server stops. It also ends by itself after some minutes; browsers
come back, and by that are asked again who they are.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from halfpast_api.answer import Answer, Headers
from halfpast_api.connection import Connection
from halfpast_api.long_poll import LongPolls
from halfpast_api.problems import Refusal, as_refusal

STREAM_TYPE: Final = "text/event-stream"
COUNT_MAX: Final = 200
_LIFE_S: Final = 600.0
_SILENCE_S: Final = 15.0
_AGAIN_MS: Final = 2_000


class Sender(Protocol):
    """What is needed of a `Connection`."""

    async def send(self, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Part:
    """`is_last`: it will not change any more."""

    text: str
    is_last: bool = False


class LiveStreams:
    """Those of one server, of which there are not too many."""

    def __init__(self, polls: LongPolls, count_max: int = COUNT_MAX) -> None:
        self.polls: Final = polls
        self._count_max = count_max
        self.count = 0

    def open(
        self, make: Callable[[], Awaitable[Part]], every_ms: int, headers: Headers
    ) -> "LiveStream":
        """Raises Refusal."""
        if self.count >= self._count_max:
            raise Refusal(
                "overloaded",
                f"{self.count} pages are kept live already; reload this one to see "
                "how things stand",
                headers=[("Retry-After", "10")],
            )
        return LiveStream(self, make, every_ms, headers)


class LiveStream(Answer):
    """What `make` gives, every `every_ms` if it is another text than before."""

    def __init__(
        self,
        streams: LiveStreams,
        make: Callable[[], Awaitable[Part]],
        every_ms: int,
        headers: Headers,
    ) -> None:
        super().__init__(200, b"", headers, STREAM_TYPE, closes=True)
        self._streams = streams
        self._make = make
        self._every_s = every_ms / 1000

    goes_on = True

    def head(self, http_minor: int = 1) -> bytes:
        lines = super().head(http_minor).split(b"\r\n")
        return b"\r\n".join(it for it in lines if not it.startswith(b"Content-Length"))

    def whole(self, method: str) -> bytes:
        return self.head()

    async def write_eof(self, data: bytes = b"") -> None:
        request, self._to = self._to, None
        if request is None:
            return
        connection = request.protocol
        assert isinstance(connection, Connection)
        await connection.send(self.head(request.version.minor))
        await self.go_on(connection, request.method)

    async def go_on(self, connection: Connection, method: str) -> None:
        if method == "HEAD":
            return
        connection.begin()
        self._streams.count += 1
        try:
            await self._streams.polls.wait(connection, self.send_parts(connection))
        finally:
            self._streams.count -= 1
            connection.end()

    async def send_parts(self, connection: Sender) -> None:
        """Until there is nothing more to tell, or for some minutes."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _LIFE_S
        await connection.send(f"retry: {_AGAIN_MS}\n\n".encode())
        last, said_s = b"", loop.time()
        while loop.time() < end_s:
            block, is_last = await self._block()
            if block != last:
                await connection.send(block)
                last, said_s = block, loop.time()
            elif loop.time() - said_s > _SILENCE_S:
                await connection.send(b": still here\n\n")
                said_s = loop.time()
            if is_last:
                await connection.send(event("end", ""))
                return
            await asyncio.sleep(self._every_s)

    async def _block(self) -> tuple[bytes, bool]:
        try:
            part = await self._make()
            return event("part", part.text), part.is_last
        except Exception as error:
            refusal = as_refusal(error)
            if refusal is None:
                raise
            return event("problem", refusal.detail), False


def event(name: str, text: str) -> bytes:
    """One event; the text may have any lines."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    data = "".join(f"data: {line}\n" for line in lines)
    return f"event: {name}\n{data}\n".encode()

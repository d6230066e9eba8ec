"""Receiving the body of a request, bounded in size, time and memory.

Most bodies arrive together with their headers; only for the others is there any
waiting, and only those count for the memory that all bodies may take together.
"""

import asyncio
from typing import Final

from aiohttp import web
from multidict import istr

from halfpast_api.config import BodyLimits, ConnectionLimits
from halfpast_api.problems import Refusal

_TRANSFER_ENCODING: Final = istr("Transfer-Encoding")
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientGone(ConnectionError):
    """The client has hung up; there is nobody to answer."""


class BodyReceiver:
    """Receives bodies for one server. `held` is how many bytes are in memory."""

    def __init__(self, bodies: BodyLimits, connections: ConnectionLimits) -> None:
        self._bodies = bodies
        self._connections = connections
        self.held = 0

    async def receive(self, request: web.BaseRequest, size_max: int) -> bytes:
        """The body, decompressed. Raises Refusal, ClientGone."""
        content = request.content
        coding = request.headers.get(_TRANSFER_ENCODING)
        if coding is not None and coding.lower() != "chunked":
            raise Refusal(
                "malformed_body",
                f"the Transfer-Encoding {coding[:40]!r} is not understood; send "
                "chunked alone, and the compression as Content-Encoding",
                closes=True,
            )
        length = request.content_length
        if length is not None and length > size_max:
            raise _too_large(size_max)
        if content.is_eof() and content.exception() is None:
            body = content.read_nowait()
            if len(body) > size_max:
                raise _too_large(size_max)
            return body
        await self._expect(request)
        limits = self._connections
        time_max_s = limits.body_timeout_s + (length or 0) / limits.body_rate_min
        try:
            async with asyncio.timeout(time_max_s):
                return await self._gather(request, size_max)
        except TimeoutError:
            raise Refusal(
                "request_timeout",
                f"the body did not arrive within {time_max_s:.3g} s; send it faster, "
                "or in smaller requests",
                closes=True,
            ) from None

    async def _gather(self, request: web.BaseRequest, size_max: int) -> bytes:
        content = request.content
        body = bytearray()
        try:
            while chunk := await content.readany():
                self.held += len(chunk)
                body += chunk
                if len(body) > size_max:
                    raise _too_large(size_max)
                if self.held > self._bodies.held_max:
                    raise _too_busy(self._bodies.held_max)
            return bytes(body)
        except ConnectionError as error:
            raise ClientGone(str(error)) from error
        except (web.RequestPayloadError, web.HTTPException, ValueError) as error:
            raise Refusal(
                "malformed_body",
                f"the body cannot be read ({error}); check its Content-Encoding, "
                "Transfer-Encoding and length",
                closes=True,
            ) from None
        finally:
            self.held -= len(body)

    async def _expect(self, request: web.BaseRequest) -> None:
        """Clients with large bodies ask first, which spares them sending in vain."""
        expect = request.headers.get("Expect")
        if expect is None or request.version.minor == 0:
            return
        if expect.lower() != "100-continue":
            raise Refusal(
                "expectation_failed",
                "only Expect: 100-continue is understood; leave the header out",
                closes=True,
            )
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # this was no part of the answer


def _too_large(size_max: int) -> Refusal:
    return Refusal(
        "body_too_large",
        f"this resource takes bodies of up to {size_max} bytes, decompressed; send "
        "smaller or fewer events in one request",
        closes=True,
    )


def _too_busy(held_max: int) -> Refusal:
    return Refusal(
        "overloaded",
        f"bodies of {held_max} bytes in all are being received; nothing was stored, "
        "repeat this after a moment",
        headers=[("Retry-After", "1")],
        closes=True,
    )

"""Requests that came whole, head and body in one piece, as nearly all do.

For each request aiohttp wakes a task, makes another, and waits for it; and it makes a
request, a writer and a response that know far more than is asked of them. That costs
more than the parsing. When a request has come whole, and nothing else is under way on
its connection, then none of it is needed: the parser is aiohttp's, so what a request
is, and how large its head may be, stays aiohttp's business; but it is answered by one
task, with one write. Whatever is not as simple as that (parts, pipelining, HTTP/1.0,
compression, chunks, upgrades) goes through aiohttp as before.
"""

from typing import TYPE_CHECKING, TypeGuard

from aiohttp import HttpVersion11, StreamReader, hdrs
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDictProxy
from yarl import URL

if TYPE_CHECKING:
    from halfpast_api.connection import Connection


def comes_whole(message: object, payload: StreamReader) -> TypeGuard[RawRequestMessage]:
    """Whether a message that was just parsed is a request to be answered at once."""
    return (
        type(message) is RawRequestMessage
        and payload.is_eof()
        and payload.exception() is None
        and message.version == HttpVersion11
        and not (
            message.should_close
            or message.compression
            or message.upgrade
            or message.chunked
        )
    )


class WholeRequest:
    """What `Dispatcher` and `Call` ask of aiohttp's request, and no more."""

    __slots__ = ("_message", "content", "headers", "method", "protocol", "raw_path")

    def __init__(
        self,
        connection: "Connection",
        message: RawRequestMessage,
        payload: StreamReader,
    ) -> None:
        self._message = message
        self.content = payload
        self.protocol = connection
        self.method: str = message.method
        self.raw_path: str = message.path
        self.headers: CIMultiDictProxy[str] = message.headers

    @property
    def rel_url(self) -> URL:
        return self._message.url

    @property
    def content_length(self) -> int | None:
        length = self.headers.get(hdrs.CONTENT_LENGTH)
        return None if length is None else int(length)

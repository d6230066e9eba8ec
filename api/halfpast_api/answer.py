"""An answer, written in one piece.

aiohttp's own Response costs 10 us more, most of it for headers that never change.
This one keeps aiohttp's contract (`prepare`, `write_eof`, `keep_alive`), so that
connections, pipelining and shutdown stay aiohttp's business.
"""

import time
from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from halfpast_api.problems import PROBLEM_TYPE, Refusal, problem_of

if TYPE_CHECKING:
    from halfpast_api.connection import Connection

JSON: Final = "application/json"

Headers = Sequence[tuple[str, str]]

encode_json: Final = msgspec.json.Encoder().encode
_STATUS_TEXTS: Final = {
    status.value: f"{status.value} {status.phrase}" for status in HTTPStatus
}


class Answer(web.StreamResponse):
    """Status, body and a few headers, whose values are free of CR and LF.

    `closes`: the connection ends with this answer.
    """

    def __init__(
        self,
        status: int,
        content: bytes,
        headers: Headers = (),
        content_type: str = JSON,
        *,
        closes: bool = False,
    ) -> None:
        # The base class is not initialised: that would build what is not used.
        self._status = status
        self.content = content
        self.request_id = ""
        self._extra = headers
        self._type = content_type
        self._keep_alive = False if closes else None
        self._to: web.BaseRequest | None = None

    def extra(self, name: str) -> str:
        """One of the headers that its handler has given; empty without it."""
        return next((value for found, value in self._extra if found == name), "")

    def add(self, headers: Headers) -> None:
        """A few headers more."""
        self._extra = (*self._extra, *headers)

    goes_on: ClassVar[bool] = False
    """Whether more comes behind what `whole` gives, from `go_on`."""

    async def go_on(self, connection: "Connection", method: str) -> None:
        """Send the rest of an answer that has no end yet; see `LiveStream`."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        self._to = request
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        request, self._to = self._to, None
        if request is None:  # written already
            return
        head = self.head(request.version.minor)
        if self._has_body(request.method):
            head += self.content
        await request.writer.write_eof(head)

    def whole(self, method: str) -> bytes:
        """All of it, for a request of HTTP/1.1 whose connection stays open."""
        if self._keep_alive is None:
            self._keep_alive = True
        head = self.head()
        return head + self.content if self._has_body(method) else head

    def _has_body(self, method: str) -> bool:
        return method != "HEAD" and self._status != HTTPStatus.NOT_MODIFIED

    def head(self, http_minor: int = 1) -> bytes:
        """Status line and headers, with the empty line behind them."""
        extra = "".join([f"{name}: {value}\r\n" for name, value in self._extra])
        if self.request_id:
            extra += f"X-Request-Id: {self.request_id}\r\n"
        if not self._keep_alive:
            extra += "Connection: close\r\n"
        elif http_minor == 0:
            extra += "Connection: keep-alive\r\n"
        return (
            f"HTTP/1.1 {_STATUS_TEXTS[self._status]}\r\n"
            f"Content-Type: {self._type}\r\n"
            f"Content-Length: {len(self.content)}\r\n"
            f"Date: {_http_date(int(time.time()))}\r\n"
            f"Server: halfpast\r\n{extra}\r\n"
        ).encode("latin-1")


def problem_answer(
    refusal: Refusal, request_id: str, *, closes: bool = False
) -> Answer:
    """The answer that tells of a Refusal."""
    problem = problem_of(refusal, request_id)
    answer = Answer(
        problem.status,
        encode_json(problem),
        refusal.headers,
        PROBLEM_TYPE,
        closes=closes or refusal.closes,
    )
    answer.request_id = request_id
    return answer


@lru_cache(maxsize=2)
def _http_date(second: int) -> str:
    return formatdate(second, usegmt=True)

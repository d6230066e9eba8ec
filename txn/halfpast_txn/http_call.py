"""One POST to a producer's endpoint, and what came of it."""

import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp

from .address_rules import AllowList
from .check_answer import (
    ANSWER_SIZE_MAX,
    BAD_URL,
    NO_CONNECTION,
    NO_HOST,
    NO_TLS,
    REFUSED_ADDRESS,
    TOO_LONG,
    Outcome,
    read_answer,
    read_status,
)
from .http_request import Cause, HttpRequester, RequestFailed
from .http_resolver import Lookup

_WITHOUT_ANSWER: Final = {
    Cause.BAD_URL: BAD_URL,
    Cause.NO_HOST: NO_HOST,
    Cause.REFUSED_ADDRESS: REFUSED_ADDRESS,
    Cause.NO_TLS: NO_TLS,
    Cause.NO_CONNECTION: NO_CONNECTION,
}


class HttpCaller:
    """Makes calls to permitted addresses. Time limits are the caller's own."""

    def __init__(
        self, allow: AllowList, lookup: Lookup, ssl_context: ssl.SSLContext | None
    ) -> None:
        self._requester = HttpRequester(allow, lookup, ssl_context)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
        """Cancellable at any point; the connection is then cut."""
        try:
            async with self._requester.request("POST", url, body, headers) as response:
                return read_status(response.status) or await _read_body(response)
        except RequestFailed as failed:
            return _WITHOUT_ANSWER[failed.cause]


async def _read_body(response: aiohttp.ClientResponse) -> Outcome:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_SIZE_MAX:
            return TOO_LONG
    return read_answer(bytes(body))

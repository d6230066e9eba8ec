"""One POST to a producer's endpoint, and what came of it.

Each call has its own connection, to an address that was judged for this very call.
Nothing of the surroundings counts: no proxy, no cookie, no redirect, no `.netrc`.
"""

import ssl
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

import aiohttp
from yarl import URL

from .address_rules import Address, AllowList
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
from .http_resolver import Lookup, PinnedResolver

ADDRESS_COUNT_MAX = 4
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None)


class HttpCaller:
    """Makes calls to permitted addresses. Time limits are the caller's own."""

    def __init__(
        self, allow: AllowList, lookup: Lookup, ssl_context: ssl.SSLContext | None
    ) -> None:
        self._allow = allow
        self._lookup = lookup
        self._ssl: ssl.SSLContext | bool = ssl_context or True  # True: verify

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
        """Cancellable at any point; the connection is then cut."""
        try:
            target = _target(url)
        except ValueError:
            return BAD_URL
        try:
            found = await self._addresses(target)
        except OSError:
            return NO_HOST
        except ValueError:  # a name that cannot be encoded
            return BAD_URL
        host, port = target.raw_host or "", target.port or 0
        permitted = [
            address for address in found if self._allow.permits(host, port, address)
        ]
        if not permitted:
            return REFUSED_ADDRESS
        try:
            return await self._exchange(target, permitted, body, headers)
        except aiohttp.InvalidURL:
            return BAD_URL
        except (aiohttp.ClientSSLError, ssl.SSLError):
            return NO_TLS
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError):
            return NO_CONNECTION

    async def _addresses(self, target: URL) -> Sequence[Address]:
        host, port = target.raw_host or "", target.port or 0
        try:
            return [ip_address(host)]
        except ValueError:
            return await self._lookup.addresses(host, port)

    async def _exchange(
        self,
        target: URL,
        addresses: Sequence[Address],
        body: bytes,
        headers: Mapping[str, str],
    ) -> Outcome:
        connector = aiohttp.TCPConnector(
            resolver=PinnedResolver(addresses[:ADDRESS_COUNT_MAX]),
            use_dns_cache=False,
            force_close=True,
            ssl=self._ssl,
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_NO_TIMEOUT,
                trust_env=False,
                auto_decompress=False,
            ) as session,
            session.post(
                target, data=body, headers=headers, allow_redirects=False
            ) as response,
        ):
            return read_status(response.status) or await _read_body(response)


async def _read_body(response: aiohttp.ClientResponse) -> Outcome:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_SIZE_MAX:
            return TOO_LONG
    return read_answer(bytes(body))


def _target(url: str) -> URL:
    """Raises ValueError for what is no plain http or https URL."""
    target = URL(url)
    if target.scheme not in ("http", "https") or not target.raw_host or not target.port:
        raise ValueError
    if target.raw_user is not None or target.raw_password is not None:
        raise ValueError
    return target

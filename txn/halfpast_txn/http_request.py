"""One HTTP request from inside our network to an address that somebody else gave.

Each has its own connection, to an address that was judged for this very request.
Nothing of the surroundings counts: no proxy, no cookie, no redirect, no `.netrc`.
Whoever makes one sets its time limit.
"""

import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from ipaddress import ip_address

import aiohttp
from yarl import URL

from .address_rules import Address, AllowList
from .http_resolver import Lookup, PinnedResolver

ADDRESS_COUNT_MAX = 4
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None)


class Cause(StrEnum):
    """Why a request has no answer."""

    BAD_URL = "bad_url"
    NO_HOST = "host_not_found"
    REFUSED_ADDRESS = "refused_address"
    NO_TLS = "tls_failed"
    NO_CONNECTION = "connection_failed"


class RequestFailed(Exception):
    """There is no answer, or not a whole one; `cause` says why."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


class HttpRequester:
    """Makes requests to permitted addresses only."""

    def __init__(
        self, allow: AllowList, lookup: Lookup, ssl_context: ssl.SSLContext | None
    ) -> None:
        self._allow = allow
        self._lookup = lookup
        self._ssl: ssl.SSLContext | bool = ssl_context or True  # True: verify

    @asynccontextmanager
    async def request(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The answer, whose body is still to be read. Raises RequestFailed, also while
        that is done. Cancellable at any point; the connection is then cut."""
        target, addresses = await self._judged(url)
        try:
            async with (
                self._session(addresses) as session,
                session.request(
                    method, target, data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                yield response
        except aiohttp.InvalidURL:
            raise RequestFailed(Cause.BAD_URL) from None
        except (aiohttp.ClientSSLError, ssl.SSLError):
            raise RequestFailed(Cause.NO_TLS) from None
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError):
            raise RequestFailed(Cause.NO_CONNECTION) from None

    async def _judged(self, url: str) -> tuple[URL, Sequence[Address]]:
        """Where to go, and the addresses there that are permitted."""
        try:
            target = _target(url)
        except ValueError:
            raise RequestFailed(Cause.BAD_URL) from None
        host, port = target.raw_host or "", target.port or 0
        try:
            found = await self._addresses(host, port)
        except OSError:
            raise RequestFailed(Cause.NO_HOST) from None
        except ValueError:  # a name that cannot be encoded
            raise RequestFailed(Cause.BAD_URL) from None
        permitted = [
            address for address in found if self._allow.permits(host, port, address)
        ]
        if not permitted:
            raise RequestFailed(Cause.REFUSED_ADDRESS)
        return target, permitted

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            return await self._lookup.addresses(host, port)

    def _session(self, addresses: Sequence[Address]) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=PinnedResolver(addresses[:ADDRESS_COUNT_MAX]),
            use_dns_cache=False,
            force_close=True,
            ssl=self._ssl,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_NO_TIMEOUT,
            trust_env=False,
            auto_decompress=False,
        )


def _target(url: str) -> URL:
    """Raises ValueError for what is no plain http or https URL."""
    target = URL(url)
    if target.scheme not in ("http", "https") or not target.raw_host or not target.port:
        raise ValueError
    if target.raw_user is not None or target.raw_password is not None:
        raise ValueError
    return target

"""Calls to endpoints: one POST, with a limit of time for all of it."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

import aiohttp
import structlog

from halfpast_api.push.call_result import (
    EXCERPT_SIZE_MAX,
    CallResult,
    Result,
    excerpt,
    result_of_status,
)
from halfpast_api.push.retry_schedule import OBEYED, retry_after_ms
from halfpast_txn.http_request import Cause, HttpRequester, RequestFailed

BODY_PATIENCE_S: Final = 2.0
"""How long an answer may take after its status, which is all that counts."""
KEPT_HEADERS: Final = ("webhook-allowed-origin", "webhook-allowed-rate")

_ERRORS: Final = {
    Cause.BAD_URL: (Result.BAD_URL, "this is no URL that can be called"),
    Cause.NO_HOST: (Result.NO_HOST, "the host name is not known"),
    Cause.REFUSED_ADDRESS: (
        Result.REFUSED_ADDRESS,
        "the address is not public, and not allowed (--push-allow)",
    ),
    Cause.NO_TLS: (Result.NO_TLS, "no TLS connection: is the certificate valid?"),
    Cause.NO_CONNECTION: (Result.NO_CONNECTION, "the connection failed"),
}
log = structlog.get_logger("halfpast.push")


class Caller(Protocol):
    """How endpoints are called. Never raises for what the world does."""

    async def call(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_ms: int,
    ) -> CallResult: ...


class HttpCaller:
    """The real one. Cancellable at any point."""

    def __init__(self, requester: HttpRequester) -> None:
        self._requester = requester

    async def call(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_ms: int,
    ) -> CallResult:
        begun_s = time.monotonic()
        known: list[CallResult] = []  # as soon as there is a status
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._request(method, url, body, headers, known)
        except TimeoutError:
            error = f"no answer in {timeout_ms} ms"
            known = known or [CallResult(result=Result.TIMEOUT, error=error)]
        except RequestFailed as failed:  # perhaps behind the status
            result, error = _ERRORS[failed.cause]
            known = known or [CallResult(result=result, error=error)]
        except Exception as error:  # a mistake of ours must not stop the others
            log.error("delivery failed", error=repr(error), exc_info=True)
            shown = repr(error)[:200]
            known = [CallResult(result=Result.INTERNAL_ERROR, error=shown)]
        duration_ms = round((time.monotonic() - begun_s) * 1000)
        return replace(known[-1], duration_ms=duration_ms)

    async def _request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        known: list[CallResult],
    ) -> None:
        async with self._requester.request(method, url, body, headers) as response:
            result, error = result_of_status(response.status)
            found = CallResult(
                result=result,
                status=response.status,
                error=error,
                retry_after_ms=_retry_after_ms(response),
                headers=_kept(response),
            )
            known.append(found)
            known.append(replace(found, response=await _beginning(response)))


async def _beginning(response: aiohttp.ClientResponse) -> str:
    """As much of the body as is kept, and as comes in time."""
    body = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(BODY_PATIENCE_S):
            while len(body) < EXCERPT_SIZE_MAX:
                chunk = await response.content.read(EXCERPT_SIZE_MAX - len(body))
                if not chunk:
                    break
                body += chunk
    return excerpt(bytes(body))


def _retry_after_ms(response: aiohttp.ClientResponse) -> int:
    if response.status not in OBEYED:
        return 0
    return retry_after_ms(response.headers.get("Retry-After"), int(time.time() * 1000))


def _kept(response: aiohttp.ClientResponse) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, response.headers[name][:1000])
        for name in KEPT_HEADERS
        if name in response.headers
    )

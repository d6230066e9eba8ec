"""What the three parts of the client share: how a call is made."""

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import quote

from halfpast.request_body import JSON
from halfpast.transport import Answer, Call, Repeat, Transport

NOTHING = timedelta(0)


class ServerCalls:
    """Base of the client's parts. `_http` is the connection to one server."""

    def __init__(self, http: Transport) -> None:
        self._http = http

    async def _read(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        wait: timedelta = NOTHING,
    ) -> Answer:
        return await self._http.send(
            Call(
                method="GET",
                path=path,
                repeat=Repeat.READS,
                query=dict(query or {}),
                wait_s=wait.total_seconds(),
            )
        )

    async def _send(
        self,
        method: str,
        path: str,
        *,
        repeat: Repeat,
        body: bytes | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        wait: timedelta = NOTHING,
    ) -> Answer:
        return await self._http.send(
            Call(
                method=method,
                path=path,
                repeat=repeat,
                body=body,
                content_type=content_type,
                headers=headers or {},
                wait_s=wait.total_seconds(),
            )
        )


def escaped(segment: str) -> str:
    """A name as one segment of a path. Topics may hold a percent sign."""
    return quote(segment, safe="")


def if_match(version: int | None) -> dict[str, str]:
    """The header that makes a change conditional; none for no version."""
    return {} if version is None else {"If-Match": f'"{version}"'}

"""Calls of one server with a connection of their own, for a command."""

from types import TracebackType
from typing import Self

from halfpast import RetryPolicy
from halfpast.server_calls import ServerCalls
from halfpast.transport import Transport


class OpenCalls(ServerCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    def __init__(self, base_url: str, policy: RetryPolicy) -> None:
        super().__init__(Transport(base_url, policy))

    async def __aenter__(self) -> Self:
        await self._http.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()

"""Endpoints and dead letters over HTTP, as the command line needs them.

Answers stay the JSON that the server wrote, so that --json shows what it said.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from halfpast.request_body import json_body
from halfpast.server_calls import escaped
from halfpast.transport import Repeat
from halfpast_api.page_calls import Json, PageCalls, json_of

POLL_S = 0.1


class EndpointCalls(PageCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def get(self, name: str) -> Json:
        """An endpoint, and how it stands."""
        return json_of(await self._read(_path(name)))

    async def put(self, name: str, settings: Json, *, is_new: bool) -> Json:
        """Make it, or give it these settings and no others."""
        return json_of(
            await self._send(
                "PUT",
                _path(name),
                repeat=Repeat.MAY_CONFLICT,
                body=json_body(**settings),
                headers={"If-None-Match": "*"} if is_new else {},
            )
        )

    async def patch(self, name: str, settings: Json) -> Json:
        """Give it some settings; the others stay."""
        body = msgspec.json.encode(settings)
        repeat = Repeat.SAME_ANSWER
        return json_of(await self._send("PATCH", _path(name), repeat=repeat, body=body))

    async def delete(self, name: str) -> Json:
        """No more deliveries there."""
        repeat = Repeat.MAY_CONFLICT
        return json_of(await self._send("DELETE", _path(name), repeat=repeat))

    async def act(self, name: str, verb: str, **body: Any) -> Json:
        """pause, resume, test, rotate-secret."""
        packed = json_body(**body) if body else None
        repeat = Repeat.MAY_CONFLICT
        path = f"{_path(name)}:{verb}"
        return json_of(await self._send("POST", path, repeat=repeat, body=packed))

    async def endpoints(self, count: int) -> list[Json]:
        """The first ones, by name."""
        return await self.some("/v1/endpoints", "endpoints", count)

    async def attempts(
        self, name: str, query: Mapping[str, str], count: int
    ) -> list[Json]:
        """The newest first."""
        return await self.some(f"{_path(name)}/attempts", "attempts", count, query)

    async def dead_letters(self, query: Mapping[str, str], count: int) -> list[Json]:
        """The longest dead first."""
        return await self.some("/v1/dead-letters", "dead_letters", count, query)

    async def dead_counts(self, count: int) -> list[Json]:
        """Who has any."""
        return await self.some("/v1/dead-letters/counts", "counts", count)

    async def settle_dead(self, verb: str, wish: Json) -> Json:
        """Redrive or discard; the operation when it has ended."""
        path, repeat = f"/v1/dead-letters:{verb}", Repeat.MAY_CONFLICT
        found = json_of(
            await self._send("POST", path, repeat=repeat, body=json_body(**wish))
        )
        while found["state"] == "running":
            await asyncio.sleep(POLL_S)
            found = json_of(await self._read(f"/v1/operations/{found['id']}"))
        return found


def _path(name: str) -> str:
    return f"/v1/endpoints/{escaped(name)}"

"""Endpoints and dead letters over HTTP, as the command line needs them.

Answers stay the JSON that the server wrote, so that --json shows what it said.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from halfpast.request_body import json_body
from halfpast.server_calls import escaped
from halfpast.transport import Answer, Repeat
from halfpast_api.open_calls import OpenCalls

POLL_S = 0.1
Json = dict[str, Any]


class EndpointCalls(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def get(self, name: str) -> Json:
        """An endpoint, and how it stands."""
        return _json(await self._read(_path(name)))

    async def put(self, name: str, settings: Json, *, is_new: bool) -> Json:
        """Make it, or give it these settings and no others."""
        return _json(
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
        return _json(await self._send("PATCH", _path(name), repeat=repeat, body=body))

    async def delete(self, name: str) -> Json:
        """No more deliveries there."""
        repeat = Repeat.MAY_CONFLICT
        return _json(await self._send("DELETE", _path(name), repeat=repeat))

    async def act(self, name: str, verb: str, **body: Any) -> Json:
        """pause, resume, test, rotate-secret."""
        packed = json_body(**body) if body else None
        repeat = Repeat.MAY_CONFLICT
        path = f"{_path(name)}:{verb}"
        return _json(await self._send("POST", path, repeat=repeat, body=packed))

    async def endpoints(self, count: int) -> list[Json]:
        """The first ones, by name."""
        return await self._some("/v1/endpoints", "endpoints", {}, count)

    async def attempts(
        self, name: str, query: Mapping[str, str], count: int
    ) -> list[Json]:
        """The newest first."""
        return await self._some(f"{_path(name)}/attempts", "attempts", query, count)

    async def dead_letters(self, query: Mapping[str, str], count: int) -> list[Json]:
        """The longest dead first."""
        return await self._some("/v1/dead-letters", "dead_letters", query, count)

    async def dead_counts(self, count: int) -> list[Json]:
        """Who has any."""
        return await self._some("/v1/dead-letters/counts", "counts", {}, count)

    async def settle_dead(self, verb: str, wish: Json) -> Json:
        """Redrive or discard; the operation when it has ended."""
        path, repeat = f"/v1/dead-letters:{verb}", Repeat.MAY_CONFLICT
        found = _json(
            await self._send("POST", path, repeat=repeat, body=json_body(**wish))
        )
        while found["state"] == "running":
            await asyncio.sleep(POLL_S)
            found = _json(await self._read(f"/v1/operations/{found['id']}"))
        return found

    async def _some(
        self, path: str, member: str, query: Mapping[str, str], count: int
    ) -> list[Json]:
        found: list[Json] = []
        async for page in self._pages(path, member, query, min(count, 1000)):
            found += page
            if len(found) >= count:
                break
        return found[:count]

    async def _pages(
        self, path: str, member: str, query: Mapping[str, str], size: int
    ) -> AsyncIterator[list[Json]]:
        asked = {**query, "limit": str(size)}
        while True:
            page = _json(await self._read(path, asked))
            yield page[member]
            if not page.get("next_page_token"):
                return
            asked["page_token"] = page["next_page_token"]


def _path(name: str) -> str:
    return f"/v1/endpoints/{escaped(name)}"


def _json(answer: Answer) -> Json:
    found: Json = answer.read(Json)
    return found

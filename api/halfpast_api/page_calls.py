"""Calls whose answers stay the JSON that the server wrote, lists page by page."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from halfpast.transport import Answer
from halfpast_api.open_calls import OpenCalls

Json = dict[str, Any]
PAGE_SIZE = 1000


class PageCalls(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def some(
        self, path: str, member: str, count: int, query: Mapping[str, str] = {}
    ) -> list[Json]:
        """The first ones of a list, which is `member` of each page."""
        found: list[Json] = []
        async for page in self._pages(path, member, query, min(count, PAGE_SIZE)):
            found += page
            if len(found) >= count:
                break
        return found[:count]

    async def _pages(
        self, path: str, member: str, query: Mapping[str, str], size: int
    ) -> AsyncIterator[list[Json]]:
        asked = {**query, "limit": str(size)}
        while True:
            page = json_of(await self._read(path, asked))
            yield page[member]
            if not page.get("next_page_token"):
                return
            asked["page_token"] = page["next_page_token"]


def json_of(answer: Answer) -> Json:
    """What it says."""
    found: Json = answer.read(Json)
    return found

"""Limits over HTTP, as the command line needs them."""

from collections.abc import Mapping

import msgspec

from halfpast.server_calls import escaped
from halfpast.transport import Repeat
from halfpast_api.limits.limit_bodies import (
    LimitsPageView,
    LimitsView,
    OwnLimitsView,
)
from halfpast_api.open_calls import OpenCalls

_SUBJECTS = "/v1/limits/subjects"
_PAGE = "1000"


class LimitCalls(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def own(self) -> OwnLimitsView:
        """Ours, and how much of them is used."""
        return (await self._read("/v1/limits")).read(OwnLimitsView)

    async def all(self) -> list[LimitsView]:
        """Who has limits."""
        found: list[LimitsView] = []
        query = {"limit": _PAGE}
        while True:
            page = (await self._read(_SUBJECTS, query)).read(LimitsPageView)
            found += page.limits
            if not page.next_page_token:
                return found
            query["page_token"] = page.next_page_token

    async def of(self, subject: str) -> LimitsView:
        return (await self._read(_path(subject))).read(LimitsView)

    async def put(
        self, subject: str, wanted: Mapping[str, float], version: int
    ) -> LimitsView:
        """These and no others, if they are at this version (0: there are none)."""
        sent = {"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"}
        answer = await self._send(
            "PUT",
            _path(subject),
            repeat=Repeat.MAY_CONFLICT,
            body=msgspec.json.encode(wanted),
            headers=sent,
        )
        return answer.read(LimitsView)

    async def delete(self, subject: str) -> None:
        await self._send("DELETE", _path(subject), repeat=Repeat.MAY_CONFLICT)


def _path(subject: str) -> str:
    return f"{_SUBJECTS}/{escaped(subject)}"

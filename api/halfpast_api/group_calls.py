"""Consumer groups over HTTP, as the command line needs them."""

from typing import Any

import msgspec

from halfpast.errors import NotFound
from halfpast.request_body import json_body
from halfpast.server_calls import escaped, if_match
from halfpast.transport import Repeat
from halfpast_api.page_calls import Json, PageCalls


class GroupView(msgspec.Struct):
    """A group's settings; `version` 0 if nobody has given it any."""

    name: str
    max_attempts: int
    backoff_initial_ms: int
    backoff_max_ms: int
    invisible_ms: int
    ordered: bool
    version: int = 0


class LagView(msgspec.Struct):
    """Where a group stands in a topic."""

    group: str
    topic: str
    lag: int
    in_flight: int
    held_back: int


class GroupCalls(PageCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def get(self, group: str) -> GroupView:
        """Its settings. Raises NotFound for a group that was never used."""
        return (await self._read(f"/v1/groups/{escaped(group)}")).read(GroupView)

    async def list(self, count: int) -> list[Json]:
        """The first ones, by name."""
        return await self.some("/v1/groups", "groups", count)

    async def lag(self, group: str, topic: str) -> LagView:
        """How far it is behind in a topic."""
        path = f"/v1/groups/{escaped(group)}/lag"
        return (await self._read(path, {"topic": topic})).read(LagView)

    async def change(self, group: str, **settings: Any) -> GroupView:
        """Give it some settings; the others stay."""
        before: dict[str, Any] = {}
        version = 0
        try:
            found = await self.get(group)
        except NotFound:
            pass
        else:
            version, before = found.version, msgspec.structs.asdict(found)
            del before["version"], before["name"]
        answer = await self._send(
            "PUT",
            f"/v1/groups/{escaped(group)}",
            repeat=Repeat.MAY_CONFLICT,
            body=json_body(**(before | settings)),
            headers=if_match(version),
        )
        return answer.read(GroupView)

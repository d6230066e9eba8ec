"""Producer groups over HTTP, as the command line needs them."""

from typing import Any

from halfpast.errors import NotFound
from halfpast.request_body import json_body
from halfpast.server_calls import escaped, if_match
from halfpast.transport import Repeat
from halfpast_api.page_calls import Json, PageCalls, json_of

PATH = "/v1/producer-groups"
_OURS = frozenset(("name", "check_secrets", "version", "created_at", "updated_at"))
"""What the server tells of a group beside its settings; secrets stay as they are."""


class ProducerGroupCalls(PageCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def list(self, count: int) -> list[Json]:
        """The first ones, by name."""
        return await self.some(PATH, "producer_groups", count)

    async def get(self, group: str) -> Json:
        """Its settings. Raises NotFound where it has the defaults."""
        return json_of(await self._read(_path(group)))

    async def change(self, group: str, settings: dict[str, Any]) -> Json:
        """Give it some settings; the others stay."""
        version, before = 0, Json()
        try:
            found = await self.get(group)
        except NotFound:
            pass
        else:
            version = found["version"]
            before = {k: v for k, v in found.items() if k not in _OURS}
        return json_of(
            await self._send(
                "PUT",
                _path(group),
                repeat=Repeat.MAY_CONFLICT,
                body=json_body(**before | settings),
                headers=if_match(version) if version else {"If-None-Match": "*"},
            )
        )

    async def delete(self, group: str) -> Json:
        """From now on it has the defaults."""
        repeat = Repeat.MAY_CONFLICT
        return json_of(await self._send("DELETE", _path(group), repeat=repeat))


def _path(group: str) -> str:
    return f"{PATH}/{escaped(group)}"

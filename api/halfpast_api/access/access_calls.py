"""Keys, namespaces and the trail over HTTP, as the command line needs them."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from halfpast.server_calls import escaped
from halfpast.transport import Answer, Repeat
from halfpast_api.access.key_bodies import (
    KeyListView,
    KeyView,
    NewKeyView,
    NewSigningView,
)
from halfpast_api.access.namespace_handlers import NamespaceListView, NamespaceView
from halfpast_api.access.trail_handlers import TrailEntryView, TrailPageView, WhoView
from halfpast_api.open_calls import OpenCalls

_PAGE = "1000"


class AccessCalls(OpenCalls):
    """Calls of one server; used inside `async with`. Raises a `HalfpastError`."""

    async def who(self) -> WhoView:
        """Who we are."""
        return (await self._read("/v1/whoami")).read(WhoView)

    async def create(self, wanted: Mapping[str, Any]) -> NewKeyView:
        answer = await self._change("POST", "/v1/keys", wanted)
        return answer.read(NewKeyView)

    async def keys(self) -> list[KeyView]:
        found: list[KeyView] = []
        query = {"limit": _PAGE}
        while True:
            page = (await self._read("/v1/keys", query)).read(KeyListView)
            found += page.keys
            if not page.next_page_token:
                return found
            query["page_token"] = page.next_page_token

    async def show(self, key_id: str) -> KeyView:
        return (await self._read(f"/v1/keys/{escaped(key_id)}")).read(KeyView)

    async def rotate(self, key_id: str, keep_old_ms: int) -> NewKeyView:
        path = f"/v1/keys/{escaped(key_id)}:rotate"
        answer = await self._change("POST", path, {"keep_old_ms": keep_old_ms})
        return answer.read(NewKeyView)

    async def rotate_signing(self, key_id: str, keep_old_ms: int) -> NewSigningView:
        path = f"/v1/keys/{escaped(key_id)}:rotate-signing"
        answer = await self._change("POST", path, {"keep_old_ms": keep_old_ms})
        return answer.read(NewSigningView)

    async def drop_signing(self, key_id: str) -> KeyView:
        path = f"/v1/keys/{escaped(key_id)}:drop-signing"
        return (await self._change("POST", path)).read(KeyView)

    async def revoke(self, key_id: str) -> KeyView:
        answer = await self._change("POST", f"/v1/keys/{escaped(key_id)}:revoke")
        return answer.read(KeyView)

    async def namespaces(self) -> list[NamespaceView]:
        found: list[NamespaceView] = []
        query = {"limit": _PAGE}
        while True:
            answer = await self._read("/v1/namespaces", query)
            page = answer.read(NamespaceListView)
            found += page.namespaces
            if not page.next_page_token:
                return found
            query["page_token"] = page.next_page_token

    async def namespace(self, name: str) -> NamespaceView:
        answer = await self._read(f"/v1/namespaces/{escaped(name)}")
        return answer.read(NamespaceView)

    async def put_namespace(
        self, name: str, wanted: Mapping[str, Any], *, create: bool = False
    ) -> NamespaceView:
        """`create`: only if there is none."""
        sent = {"If-None-Match": "*"} if create else {}
        path = f"/v1/namespaces/{escaped(name)}"
        return (await self._change("PUT", path, wanted, sent)).read(NamespaceView)

    async def delete_namespace(self, name: str) -> None:
        await self._change("DELETE", f"/v1/namespaces/{escaped(name)}")

    async def trail(
        self, wanted: Mapping[str, str], page_size: int
    ) -> AsyncIterator[list[TrailEntryView]]:
        """Entries, the newest first, page by page."""
        query = {**wanted, "limit": str(page_size)}
        while True:
            page = (await self._read("/v1/trail", query)).read(TrailPageView)
            yield page.entries
            if not page.next_page_token:
                return
            query["page_token"] = page.next_page_token

    async def _change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return await self._send(
            method,
            path,
            repeat=Repeat.MAY_CONFLICT,
            body=None if body is None else msgspec.json.encode(body),
            headers=headers,
        )

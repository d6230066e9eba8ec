"""The description over HTTP, for programs and for people."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from halfpast_api.answer import Answer, Headers
from halfpast_api.call import Call
from halfpast_api.console.assets import Assets
from halfpast_api.console.rendering import HTML, PAGE_HEADERS
from halfpast_api.openapi.catalogue import OPERATIONS, TAGS, WEBHOOKS
from halfpast_api.openapi.document import build
from halfpast_api.openapi.page import page_values, pages
from halfpast_api.router import Route

PATH: Final = "/openapi.json"
_TYPE: Final = "application/json"
_KEPT: Final = "no-cache"  # kept, and asked about each time


def description(
    verbs: Mapping[tuple[str, str], str], *, asks: bool = False
) -> dict[str, Any]:
    """The OpenAPI document; `verbs` tells what a caller must be allowed, and `asks`
    whether nobody gets in without a key."""
    return build(OPERATIONS, WEBHOOKS, TAGS, verbs, asks=asks)


class DescriptionHandlers:
    """Document and page, built when they are first asked for, then kept."""

    def __init__(self, assets: Assets, *, asks: bool = False) -> None:
        self._assets = assets
        self._asks = asks
        self._verbs: dict[tuple[str, str], str] = {}
        self._document = b""
        self._page = b""

    def know(self, routes: Iterable[Route]) -> None:
        """Take from the table what callers must be allowed."""
        self._verbs = {(it.method, it.template): str(it.verb) for it in routes}

    async def document(self, call: Call) -> Answer:
        """GET /openapi.json"""
        if not self._document:
            self._document = msgspec.json.encode(
                description(self._verbs, asks=self._asks)
            )
        headers = (("X-Content-Type-Options", "nosniff"),)
        return _kept(call, self._document, headers, _TYPE)

    async def page(self, call: Call) -> Answer:
        """GET /docs"""
        if not self._page:
            found = description(self._verbs, asks=self._asks)
            values = page_values(found, OPERATIONS, WEBHOOKS, TAGS)
            values["asset"] = self._assets.url
            self._page = pages().render("docs.html", values).encode()
        return _kept(call, self._page, _PAGE_HEADERS, HTML)


_PAGE_HEADERS: Final = tuple(it for it in PAGE_HEADERS if it[0] != "Cache-Control")


def _kept(call: Call, content: bytes, headers: Headers, kind: str) -> Answer:
    """An answer that is sent again only if it has changed."""
    etag = f'"{sha256(content).hexdigest()[:16]}"'
    is_known = etag in call.headers.get("If-None-Match", "")
    extra = (("ETag", etag), ("Cache-Control", _KEPT), *headers)
    return Answer(304 if is_known else 200, content, extra, kind)

"""Pages of keys: all of them, one, a new one."""

from typing import Final

from halfpast_api.console.keys.reading import Key, KeyPage
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.visit import View, Visit

PATH: Final = "/console/keys"
ROLES: Final = (
    ("read-only", "read-only: look at everything but payloads"),
    ("operator", "operator: also publish, schedule, consume, manage"),
    ("admin", "admin: everything, keys too"),
    ("", "scopes of its own"),
)


async def show_keys(visit: Visit) -> View:
    """GET /console/keys"""
    query = visit.query(TOKEN)
    page = await visit.get(KeyPage, "keys", limit=LIMIT, page_token=query.text(TOKEN))
    pager = pager_of(PATH, query, page.next_page_token)
    return View("access/keys.html", {"keys": page.keys, "pager": pager})


async def show_key(visit: Visit) -> View:
    """GET /console/keys/{id}"""
    return key_view(visit, await visit.get(Key, "keys", visit.parameter))


async def show_new_key(visit: Visit) -> View:
    """GET /console/keys:new"""
    known: dict[str, object] = {"role": "read-only", "expires_in": "90d"}
    if visit.viewer.namespace:
        known["namespace"] = visit.viewer.namespace
    values = {"typed": visit.typed(known), "roles": ROLES}
    return View("access/new_key.html", values)


def key_view(visit: Visit, key: Key) -> View:
    """`key.secret` is shown where there is one, this once."""
    known: dict[str, object] = {
        "description": key.description,
        "role": key.role,
        "scopes": "\n".join(key.scopes),
        "view_payload": key.view_payload,
        "version": key.version,
    }
    values = {"key": key, "typed": visit.typed(known), "roles": ROLES}
    return View("access/key.html", values)

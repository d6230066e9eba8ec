"""Pages of who did what, and of namespaces."""

from typing import Final

from halfpast_api.console.form import Form
from halfpast_api.console.keys.reading import NamespacePage, Trail
from halfpast_api.console.pager import LIMIT, TOKEN, pager_of
from halfpast_api.console.said import Said
from halfpast_api.console.visit import Known, Redirect, View, Visit
from halfpast_api.problems import Refusal

TRAIL: Final = "/console/trail"
NAMESPACES: Final = "/console/namespaces"
_FILTER: Final = ("actor", "action", "object")


async def show_trail(visit: Visit) -> View:
    """GET /console/trail"""
    query = visit.query(*_FILTER, TOKEN)
    page = await visit.get(
        Trail,
        "trail",
        **{name: query.text(name) for name in _FILTER},
        limit=LIMIT,
        page_token=query.text(TOKEN),
    )
    values = {
        "acts": page.entries,
        "pager": pager_of(TRAIL, query, page.next_page_token),
        "typed": Known(None, dict(query.values)),
    }
    return View("access/trail.html", values)


async def show_namespaces(visit: Visit) -> View:
    """GET /console/namespaces"""
    query = visit.query(TOKEN)
    page = await visit.get(
        NamespacePage, "namespaces", limit=LIMIT, page_token=query.text(TOKEN)
    )
    pager = pager_of(NAMESPACES, query, page.next_page_token)
    values = {"namespaces": page.namespaces, "pager": pager, "typed": visit.typed()}
    return View("access/namespaces.html", values)


async def put_namespace(visit: Visit, form: Form) -> Redirect:
    """POST /console/namespaces"""
    name = form.text("name")
    if not name:
        raise Refusal("missing_field", "give the namespace a name")
    body = {
        "description": form.text("description"),
        "suspended": form.ticked("suspended"),
    }
    version = form.text("version")
    await visit.send("PUT", "namespaces", name, body=body, version=version)
    return Redirect(NAMESPACES, Said(f"The namespace {name} is as you said."))


async def delete_namespace(visit: Visit, form: Form) -> Redirect:
    """POST /console/namespaces/{name}:delete"""
    name, version = visit.parameter, form.text("version")
    await visit.send("DELETE", "namespaces", name, version=version)
    return Redirect(NAMESPACES, Said(f"The namespace {name} is gone.", "warn"))

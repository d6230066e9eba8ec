"""The page to log in at, and the one that tells who one is."""

from collections.abc import Callable
from typing import Final, Protocol

from halfpast_api.console.keys.reading import NamespacePage, Who
from halfpast_api.console.visit import Redirect, View, Visit
from halfpast_api.problems import Refusal, as_refusal

LOGIN: Final = "/console/login"
ME: Final = "/console/me"
_PROBLEMS: Final = {
    "unknown_key": "This key is not known. Check that you have copied all of it.",
    "key_expired": "This key has expired. Ask an administrator for a new one.",
    "key_revoked": "This key was revoked. Ask an administrator for a new one.",
    "login_failed": "Logging in has failed. Try it again, or use a key.",
    "provider_unavailable": "Your provider does not answer. Try again, or use a key.",
    "too_many_logins": "Too many attempts. Wait a minute, then try again.",
    "namespace_suspended": "The namespace of this key is suspended.",
}
_NAMESPACES: Final = 200


class Entrance(Protocol):
    """How one may come in."""

    @property
    def has_oidc(self) -> bool: ...

    @property
    def is_open(self) -> bool: ...


class LoginPages:
    """`safe_path`: makes a place of the console out of what an address says."""

    def __init__(self, entrance: Entrance, safe_path: Callable[[str], str]) -> None:
        self._entrance = entrance
        self._safe_path = safe_path

    async def login(self, visit: Visit) -> View | Redirect:
        """GET /console/login"""
        query = visit.query("next", "problem")
        wanted = self._safe_path(query.text("next") or "")
        if self._entrance.is_open or visit.call.access.session is not None:
            return Redirect(wanted)
        code = query.text("problem") or ""
        problem = _PROBLEMS.get(code, _PROBLEMS["login_failed"]) if code else ""
        values = {
            "next": wanted,
            "why": problem,
            "has_oidc": self._entrance.has_oidc,
        }
        return View("login.html", values)

    async def me(self, visit: Visit) -> View:
        """GET /console/me"""
        who = await visit.get(Who, "whoami")
        names: list[str] = []
        if who.all_namespaces and visit.viewer.can("admin"):
            names = await _names(visit)
        return View("access/me.html", {"who": who, "names": names})


async def _names(visit: Visit) -> list[str]:
    try:
        page = await visit.get(NamespacePage, "namespaces", limit=_NAMESPACES)
    except (Refusal, ConnectionError, TimeoutError) as error:
        if as_refusal(error) is None:
            raise
        return []
    return [it.name for it in page.namespaces]

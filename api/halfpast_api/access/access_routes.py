"""The routes about access itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from halfpast_api.access.key_handlers import KeyHandlers
from halfpast_api.access.namespace_handlers import NamespaceHandlers
from halfpast_api.access.session_handlers import HOME, LOGIN, SessionHandlers
from halfpast_api.access.trail_handlers import TrailHandlers
from halfpast_api.access.verbs import Reach, Verb
from halfpast_api.config import BodyLimits
from halfpast_api.router import Route

ADMIN: Final = Verb.ADMIN


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessHandlers:
    """The handlers, which all namespaces share: who calls tells what they show."""

    keys: KeyHandlers
    namespaces: NamespaceHandlers
    trail: TrailHandlers
    sessions: SessionHandlers


def access_routes(handlers: AccessHandlers, limits: BodyLimits) -> Iterable[Route]:
    """Who may come in, who is here, and who was."""
    yield from _key_routes(handlers.keys, limits)
    yield from _namespace_routes(handlers.namespaces, limits)
    trail = handlers.trail
    yield Route("GET", "/v1/whoami", trail.who, reach=Reach.CALLER)
    yield Route("GET", "/v1/trail", trail.list, verb=ADMIN)
    yield from _session_routes(handlers.sessions, limits)


def _key_routes(keys: KeyHandlers, limits: BodyLimits) -> Iterable[Route]:
    one, size = "/v1/keys/{id}", limits.admin_max
    yield Route("POST", "/v1/keys", keys.create, size, verb=ADMIN)
    yield Route("GET", "/v1/keys", keys.list, verb=ADMIN)
    yield Route("GET", one, keys.get, verb=ADMIN)
    yield Route("PATCH", one, keys.change, size, verb=ADMIN)
    yield Route("POST", one + ":rotate", keys.rotate, size, verb=ADMIN)
    yield Route("POST", one + ":revoke", keys.revoke, size, verb=ADMIN)
    for action, handler in (
        ("rotate-signing", keys.rotate_signing),
        ("drop-signing", keys.drop_signing),
    ):
        yield Route("POST", f"{one}:{action}", handler, size, verb=ADMIN)


def _namespace_routes(
    namespaces: NamespaceHandlers, limits: BodyLimits
) -> Iterable[Route]:
    one = "/v1/namespaces/{name}"
    yield Route("GET", "/v1/namespaces", namespaces.list, verb=ADMIN)
    yield Route("GET", one, namespaces.get, verb=ADMIN)
    yield Route("PUT", one, namespaces.put, limits.admin_max, verb=ADMIN)
    yield Route("DELETE", one, namespaces.delete, verb=ADMIN)


def _session_routes(sessions: SessionHandlers, limits: BodyLimits) -> Iterable[Route]:
    size = limits.admin_max
    for method, path, handler in (
        ("POST", LOGIN, sessions.login),
        ("GET", f"{LOGIN}/oidc", sessions.login_oidc),
        ("GET", f"{LOGIN}/callback", sessions.callback),
        ("POST", f"{HOME}/logout", sessions.logout),
        ("POST", f"{HOME}/namespace", sessions.move),
    ):
        body_max = size if method == "POST" else 0
        yield Route(method, path, handler, body_max, verb=Verb.OPEN, is_page=True)

"""Who comes in: asked for each request, before anything else is done for it.

    open    everybody is everybody; what a web page could do is kept out (site_guard)
    keys    a key, a token, or a session; else 401

Nothing is awaited for a key, so that it costs microseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol
from urllib.parse import parse_qs

from multidict import CIMultiDictProxy, istr

from halfpast_api.access.access import ANONYMOUS, OPEN_ACCESS, Access
from halfpast_api.access.config import AuthMode
from halfpast_api.access.cookies import cookie
from halfpast_api.access.key_ring import (
    KeyRing,
    check_namespace_is_open,
    unauthenticated,
)
from halfpast_api.access.key_text import PREFIX
from halfpast_api.access.oidc_errors import BadToken, ProviderUnavailable
from halfpast_api.access.sessions import COOKIE, Sessions, is_csrf_token
from halfpast_api.access.site_guard import SiteGuard
from halfpast_api.access.verbs import SAFE_METHODS, Reach, Verb
from halfpast_api.metadata.access_settings import NamespaceSettings
from halfpast_api.problems import Refusal

AUTHORIZATION: Final = istr("Authorization")
NAMESPACE: Final = istr("Halfpast-Namespace")
CSRF: Final = istr("X-CSRF-Token")
_LENGTH: Final = istr("Content-Length")
_ENCODING: Final = istr("Transfer-Encoding")
_CONTENT_TYPE: Final = istr("Content-Type")
_FORM: Final = "application/x-www-form-urlencoded"
_ALL: Final = "*"
_OUR_KEY: Final = f"Bearer {PREFIX}"
_OUR_KEY_AT: Final = len("Bearer ")

Headers = CIMultiDictProxy[str]


class Asked(Protocol):
    """What is asked of a `MetadataCache`."""

    def has_keys(self) -> bool: ...

    def namespaces(self) -> Mapping[str, NamespaceSettings]: ...


class Guarded(Protocol):
    """What is asked of a `Route`."""

    @property
    def verb(self) -> Verb: ...

    @property
    def reach(self) -> Reach: ...

    @property
    def is_page(self) -> bool: ...

    @property
    def topic_at(self) -> int: ...


class Tokens(Protocol):
    """What is asked of an `OidcTokens`."""

    async def access_of(self, token: str) -> Access: ...


class Door:
    """Lets requests in, or says what is missing."""

    def __init__(
        self,
        mode: AuthMode,
        cache: Asked,
        ring: KeyRing,
        sessions: Sessions,
        guard: SiteGuard,
        tokens: Tokens | None = None,
    ) -> None:
        self._mode = mode
        self._cache = cache
        self._ring = ring
        self._sessions = sessions
        self._guard = guard
        self._tokens = tokens

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        if self._mode == "auto":
            return self._tokens is None and not self._cache.has_keys()
        return self._mode == "open"

    async def admit(
        self,
        method: str,
        headers: Headers,
        route: Guarded,
        parameters: Sequence[str],
    ) -> Access:
        """Who it is, and that this may be done. Raises Refusal."""
        is_open = self.is_open
        if is_open and (route.is_page or route.verb is not Verb.OPEN):
            self._guard.check_host(headers)
        if method not in SAFE_METHODS and (
            route.is_page or (is_open and not _has_body(headers))
        ):
            self._guard.check_origin(headers)
        if route.verb is Verb.OPEN:
            return OPEN_ACCESS if is_open else await self._guest(headers, route)
        if is_open:
            access = OPEN_ACCESS
        elif (header := headers.get(AUTHORIZATION)) is None:
            access = await self._by_session(headers)
        elif header.startswith(_OUR_KEY):  # nearly all: nothing is awaited for them
            access = self._ring.verify(header[_OUR_KEY_AT:])
        else:
            access = await self._bearer(header)
        wanted = headers.get(NAMESPACE)
        if wanted is not None:
            access = self.moved(access, wanted)
        at = route.topic_at
        access.check_reach(route.verb, route.reach, parameters[at] if at >= 0 else None)
        return access

    def check_csrf(
        self, method: str, headers: Headers, access: Access, body: bytes
    ) -> None:
        """Raise Refusal for a change that comes by cookie alone: any page could have
        sent it."""
        session = access.session
        if session is None or method in SAFE_METHODS:
            return
        given = headers.get(CSRF)
        if given is None and headers.get(_CONTENT_TYPE, "").startswith(_FORM):
            given = parse_qs(body.decode("utf-8", "replace")).get("csrf_token", [""])[0]
        if not is_csrf_token(given or "", session):
            raise Refusal(
                "csrf",
                "the token of your session is missing, or old: load the page again "
                "(programs send it as X-CSRF-Token, or better a key instead of the "
                "cookie)",
            )

    async def _guest(self, headers: Headers, route: Guarded) -> Access:
        """Somebody who need not say who they are; of pages, who is logged in."""
        if not route.is_page:
            return ANONYMOUS
        token = cookie(headers, COOKIE)
        found = await self._sessions.find(token) if token else None
        return found or ANONYMOUS

    async def _by_session(self, headers: Headers) -> Access:
        token = cookie(headers, COOKIE)
        if token:
            access = await self._sessions.find(token)
            if access is None:
                raise unauthenticated("your session is over; log in again")
            if access.namespace:
                check_namespace_is_open(access.namespace, self._cache.namespaces())
            return access
        raise unauthenticated(
            "this server asks for a key: send the header 'Authorization: Bearer hp_…' "
            "(halfpast: --api-key or HALFPAST_API_KEY); an administrator makes keys "
            "with 'halfpast keys create'"
        )

    async def _bearer(self, header: str) -> Access:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise unauthenticated(
                f"the scheme {scheme[:20]!r} is not understood; send 'Authorization: "
                "Bearer hp_…'"
            )
        token = token.strip()
        if self._tokens is None or token.startswith(PREFIX):
            return self._ring.verify(token)
        try:
            access = await self._tokens.access_of(token)
        except BadToken as error:
            raise unauthenticated(f"this token does not count: {error}") from None
        except ProviderUnavailable as error:
            raise Refusal(
                "unavailable",
                f"the identity provider cannot be asked about this token: {error}; "
                "repeat it after a moment",
                headers=[("Retry-After", "5")],
            ) from None
        if access.namespace:
            check_namespace_is_open(access.namespace, self._cache.namespaces())
        return access

    def check_still_in(self, access: Access) -> None:
        """Raise Refusal for somebody whose key was revoked while a page was open."""
        if access.key_id:
            self._ring.access_of(access.key_id)

    def check_move(self, access: Access, wanted: str) -> None:
        """Raise Refusal unless the caller may act in this namespace."""
        self.moved(access, wanted)

    def moved(self, access: Access, wanted: str) -> Access:
        """The same caller, in the namespace that the request names. Raises Refusal."""
        if wanted == access.namespace:
            return access
        if wanted == _ALL and access.is_suite:
            return access
        if not access.is_suite or (wanted and wanted not in self._cache.namespaces()):
            raise unknown_namespace(wanted)
        return replace(access, namespace=wanted)


def _has_body(headers: Headers) -> bool:
    return headers.get(_LENGTH, "0") != "0" or _ENCODING in headers


def unknown_namespace(name: str) -> Refusal:
    """The same whether it is another's, or nobody's."""
    shown = name if len(name) <= 40 else name[:40] + "…"
    return Refusal(
        "unknown_namespace",
        f"there is no namespace {shown!r} for you; see who you are with GET /v1/whoami "
        "(halfpast whoami)",
    )

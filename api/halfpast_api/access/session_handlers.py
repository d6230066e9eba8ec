"""Logging in to the console, and out of it. Pages are the console's own."""

from typing import Final
from urllib.parse import parse_qs, quote

import structlog
from multidict import istr

from halfpast_api.access.access import Access
from halfpast_api.access.cookies import cookie
from halfpast_api.access.door import Door
from halfpast_api.access.key_ring import KeyRing
from halfpast_api.access.oidc_errors import BadToken, ProviderUnavailable
from halfpast_api.access.oidc_login import LOGIN_COOKIE, LOGIN_S, OidcLogin
from halfpast_api.access.sessions import COOKIE, Sessions
from halfpast_api.access.trail import Trail
from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.problems import Refusal

LOGIN: Final = "/console/login"
HOME: Final = "/console"
_HOST: Final = istr("Host")
_PROTOCOL: Final = istr("X-Forwarded-Proto")
_PATH_LENGTH_MAX: Final = 2000
_NO_STORE: Final = ("Cache-Control", "no-store")


class SessionHandlers:
    """Handlers around sessions."""

    def __init__(
        self,
        door: Door,
        ring: KeyRing,
        sessions: Sessions,
        trail: Trail,
        oidc: OidcLogin | None = None,
    ) -> None:
        self._door = door
        self._ring = ring
        self._sessions = sessions
        self._trail = trail
        self._oidc = oidc
        self._log = structlog.get_logger("halfpast.access")

    @property
    def has_oidc(self) -> bool:
        """Whether people can log in by a provider."""
        return self._oidc is not None

    @property
    def is_open(self) -> bool:
        """Whether nobody needs to log in."""
        return self._door.is_open

    async def login(self, call: Call) -> Answer:
        """POST /console/login"""
        form = _form(call)
        wanted = safe_path(form.get("next", ""))
        if self._door.is_open:
            return redirect(wanted)
        try:
            access = self._ring.verify(form.get("key", "").strip())
        except Refusal as refusal:
            code = refusal.code if refusal.code != "unauthenticated" else "unknown_key"
            self._log.warning("login_refused", reason=refusal.detail)
            return _back(code, wanted)
        return await self._let_in(call, access, wanted)

    async def login_oidc(self, call: Call) -> Answer:
        """GET /console/login/oidc"""
        wanted = safe_path(call.query("next").text("next") or "")
        if self._oidc is None:
            return _back("login_failed", wanted)
        scheme = "https" if is_https(call) else "http"
        here = f"{scheme}://{call.headers.get(_HOST, '')}{LOGIN}/callback"
        try:
            where, pending = await self._oidc.begin(wanted, here)
        except ProviderUnavailable as error:
            self._log.warning("provider_unavailable", reason=str(error))
            return _back("provider_unavailable", wanted)
        made = _cookie(call, LOGIN_COOKIE, pending, LOGIN, LOGIN_S)
        return redirect(where, [made])

    async def callback(self, call: Call) -> Answer:
        """GET /console/login/callback"""
        query = {
            name: values[-1]
            for name, values in parse_qs(call.path.partition("?")[2]).items()
        }
        gone = _cookie(call, LOGIN_COOKIE, "", LOGIN, 0)
        if self._oidc is None or "code" not in query:
            self._log.warning("login_refused", reason=query.get("error", "")[:100])
            return _back("login_failed", HOME, [gone])
        try:
            access, wanted = await self._oidc.finish(
                cookie(call.headers, LOGIN_COOKIE),
                query.get("state", ""),
                query["code"],
                query.get("iss"),
            )
        except BadToken as error:
            self._log.warning("login_refused", reason=str(error))
            return _back("login_failed", HOME, [gone])
        except ProviderUnavailable as error:
            self._log.warning("provider_unavailable", reason=str(error))
            return _back("provider_unavailable", HOME, [gone])
        return await self._let_in(call, access, safe_path(wanted), [gone])

    async def logout(self, call: Call) -> Answer:
        """POST /console/logout"""
        self._check_csrf(call)
        if call.access.session is not None:
            await self._sessions.end(cookie(call.headers, COOKIE))
            await self._trail.record(call.access, "log out", call.access.actor)
        return redirect(LOGIN, [_cookie(call, COOKIE, "", "/", 0)])

    async def move(self, call: Call) -> Answer:
        """POST /console/namespace"""
        self._check_csrf(call)
        form = _form(call)
        wanted = form.get("namespace", "")
        access = call.access
        if access.session is not None:
            self._door.check_move(access, wanted)
            await self._sessions.move(cookie(call.headers, COOKIE), wanted)
        return redirect(safe_path(form.get("next", "")))

    def _check_csrf(self, call: Call) -> None:
        self._door.check_csrf("POST", call.headers, call.access, call.body)

    async def _let_in(
        self,
        call: Call,
        access: Access,
        wanted: str,
        extra: list[tuple[str, str]] | None = None,
    ) -> Answer:
        """With a new session, whatever session there was before."""
        before = cookie(call.headers, COOKIE)
        if before:
            await self._sessions.end(before)
        token = await self._sessions.begin(access)
        await self._trail.record(access, "log in", access.actor)
        made = _cookie(call, COOKIE, token, "/", None)
        return redirect(wanted, [made, *(extra or [])])


def safe_path(text: str) -> str:
    """A place of the console to go to next; whatever else is asked for is not."""
    is_ours = text == HOME or text.startswith((HOME + "/", HOME + "?"))
    is_plain = text.isascii() and text.isprintable() and "\\" not in text
    if is_ours and is_plain and len(text) <= _PATH_LENGTH_MAX:
        return text
    return HOME


def login_first(path: str) -> Answer:
    """Go and log in, and then come back."""
    return redirect(f"{LOGIN}?next={quote(safe_path(path), safe='')}")


def is_https(call: Call) -> bool:
    """Whether the browser's own connection is encrypted, as the proxy says that does
    that."""
    return call.headers.get(_PROTOCOL, "") == "https"


def redirect(where: str, extra: list[tuple[str, str]] | None = None) -> Answer:
    """See there instead, by GET."""
    headers = [("Location", where), _NO_STORE, *(extra or [])]
    return Answer(303, b"", headers, "text/plain")


def _back(
    problem: str, wanted: str, extra: list[tuple[str, str]] | None = None
) -> Answer:
    target = f"{LOGIN}?problem={problem}&next={quote(wanted, safe='')}"
    return redirect(target, extra)


def _form(call: Call) -> dict[str, str]:
    parsed = parse_qs(call.body.decode("utf-8", "replace"), max_num_fields=20)
    return {name: values[-1] for name, values in parsed.items()}


def _cookie(
    call: Call, name: str, value: str, path: str, age_s: int | None
) -> tuple[str, str]:
    """Without an age it lives as long as the browser's session."""
    parts = [f"{name}={value}", f"Path={path}", "HttpOnly", "SameSite=Lax"]
    if age_s is not None:
        parts.append(f"Max-Age={age_s}")
    if is_https(call):
        parts.append("Secure")
    return "Set-Cookie", "; ".join(parts)

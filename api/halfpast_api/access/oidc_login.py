"""Logging in by an identity provider: the authorization code flow, with PKCE.

What has to be remembered until somebody comes back lies in a cookie of their own
browser, so that any process may receive them. It holds nothing that others could use:
the code is worthless without the verifier, and the verifier without the code.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from halfpast_api.access.access import Access
from halfpast_api.access.config import OidcConfig
from halfpast_api.access.oidc_errors import BadToken, ProviderUnavailable
from halfpast_api.access.oidc_provider import Provider
from halfpast_api.access.oidc_tokens import OidcTokens

LOGIN_COOKIE: Final = "halfpast_login"
LOGIN_S: Final = 600
_LENGTH_MAX: Final = 4000


class Pending(msgspec.Struct, forbid_unknown_fields=True):
    """A log-in that has begun."""

    state: str
    nonce: str
    verifier: str
    next: str
    redirect: str


class _Tokens(msgspec.Struct):
    id_token: str


class OidcLogin:
    """Sends people to the provider, and receives them."""

    def __init__(
        self, config: OidcConfig, provider: Provider, tokens: OidcTokens
    ) -> None:
        self._config = config
        self._provider = provider
        self._tokens = tokens

    async def begin(self, next_path: str, redirect: str) -> tuple[str, str]:
        """Where to send somebody, and their cookie. Raises ProviderUnavailable."""
        metadata = await self._provider.metadata()
        if not metadata.authorization_endpoint or not metadata.token_endpoint:
            raise ProviderUnavailable("it does not say where people log in")
        pending = Pending(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            next=next_path,
            redirect=self._config.redirect_url or redirect,
        )
        challenge = sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": pending.redirect,
            "scope": self._config.request_scopes,
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": _base64(challenge),
            "code_challenge_method": "S256",
        }
        where = metadata.authorization_endpoint
        sign = "&" if "?" in where else "?"
        return where + sign + urlencode(query), _base64(msgspec.json.encode(pending))

    async def finish(
        self, cookie: str, state: str, code: str, issuer: str | None
    ) -> tuple[Access, str]:
        """Who has come back, and where they wanted to go.

        Raises BadToken, ProviderUnavailable.
        """
        pending = _pending(cookie)
        if pending is None or not compare_digest(
            pending.state.encode(), state.encode("utf-8", "surrogateescape")
        ):
            raise BadToken("this log-in was not begun here, or too long ago")
        if issuer is not None and issuer != self._config.issuer:
            raise BadToken("another provider has sent this")
        token = await self._exchange(code, pending)
        claims = await self._tokens.claims(token, [self._config.client_id])
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not compare_digest(
            nonce.encode("utf-8", "surrogateescape"), pending.nonce.encode()
        ):
            raise BadToken("the token was made for another log-in")
        party = claims.get("azp")
        if party is not None and party != self._config.client_id:
            raise BadToken("the token was made for another program")
        return self._tokens.access(claims), pending.next

    async def _exchange(self, code: str, pending: Pending) -> str:
        metadata = await self._provider.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect,
            "code_verifier": pending.verifier,
        }
        headers = {"Accept": "application/json"}
        client_id, secret = self._config.client_id, self._config.client_secret
        if secret and "client_secret_basic" in (
            metadata.token_endpoint_auth_methods_supported
        ):
            pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
            encoded = urlsafe_b64encode(pair.encode()).decode()
            standard = encoded.replace("-", "+").replace("_", "/")
            headers["Authorization"] = f"Basic {standard}"
        else:
            form["client_id"] = client_id
            if secret:
                form["client_secret"] = secret
        options: dict[str, Any] = {"data": form, "headers": headers}
        content = await self._provider.fetch("POST", metadata.token_endpoint, **options)
        try:
            return msgspec.json.decode(content, type=_Tokens).id_token
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ProviderUnavailable("it has answered without an id_token") from None


def _pending(cookie: str) -> Pending | None:
    if not 0 < len(cookie) <= _LENGTH_MAX or not cookie.isascii():
        return None
    try:
        raw = urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        return msgspec.json.decode(raw, type=Pending)
    except (ValueError, msgspec.MsgspecError):
        return None


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()

"""A small identity provider: discovery, keys, and the authorization code flow.

It checks what a provider must check (PKCE, the client's secret, the redirect), so that
a client which leaves something out fails.
"""

import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from halfpast_api.access.config import OidcConfig

CLIENT, SECRET = "halfpast-console", "s3cret/ü"


class FakeProvider:
    """What it issues, and how often it was asked for its keys."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys: dict[str, Any] = {}
        self.asked = 0
        self.claims: dict[str, Any] = {"sub": "ann", "email": "ann@example.org"}
        self.id_claims: dict[str, Any] = {}
        """What is said of who logs in, beside what must be."""
        self.broken = False
        self._codes: dict[str, dict[str, str]] = {}
        self.add_key("first")

    def add_key(self, name: str, kind: str = "RSA") -> None:
        made: Any = (
            RSAKey.generate_key(2048) if kind == "RSA" else ECKey.generate_key("P-256")
        )
        self.keys[name] = made

    def token(
        self,
        key: str = "first",
        *,
        algorithm: str = "",
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """A token that is good for an hour, but for `claims`; None leaves one out."""
        now = int(time.time())
        whole = {
            "iss": self.issuer,
            "aud": "halfpast",
            "iat": now,
            "exp": now + 3600,
            **self.claims,
            **claims,
        }
        whole = {name: value for name, value in whole.items() if value is not None}
        signer = self.keys[key]
        algorithm = algorithm or ("RS256" if isinstance(signer, RSAKey) else "ES256")
        head = {"alg": algorithm, "kid": key, **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(head, whole, signer, algorithms=[algorithm])

    def published(self) -> list[dict[str, Any]]:
        keys = [
            {**key.as_dict(private=False), "kid": name, "use": "sig"}
            for name, key in self.keys.items()
        ]
        # What no token may be signed with, and what nobody understands.
        keys.append({**OctKey.generate_key(256).as_dict(), "kid": "shared"})
        keys.append({"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"})
        keys.append({"kty": "LATTICE", "kid": "later"})
        return keys

    async def discovery(self, _request: web.Request) -> web.Response:
        if self.broken:
            return web.Response(status=500)
        return web.json_response(
            {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
            }
        )

    async def jwks(self, _request: web.Request) -> web.Response:
        self.asked += 1
        if self.broken:
            return web.Response(status=500)
        return web.json_response({"keys": self.published()})

    def log_in(self, where: str, **changed: str) -> str:
        """What a browser does there, in short: where the provider sends it back."""
        query = {
            name: values[0] for name, values in parse_qs(urlsplit(where).query).items()
        }
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = f"code-{len(self._codes)}"
        self._codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.issuer, **changed}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    async def exchange(self, request: web.Request) -> web.Response:
        form = await request.post()
        wanted = self._codes.pop(str(form["code"]), None)
        name, _, secret = (
            b64decode(request.headers["Authorization"].removeprefix("Basic "))
            .decode()
            .partition(":")
        )
        digest = sha256(str(form["code_verifier"]).encode()).digest()
        challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_good = (
            wanted is not None
            and (name, secret) == (CLIENT, "s3cret%2F%C3%BC")
            and form["redirect_uri"] == wanted["redirect_uri"]
            and challenge == wanted["code_challenge"]
        )
        if not is_good or wanted is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        claims: dict[str, Any] = {"aud": CLIENT, "nonce": wanted["nonce"]}
        token = self.token(**claims | self.id_claims)
        return web.json_response({"id_token": token, "token_type": "Bearer"})

    def config(self, **changed: Any) -> OidcConfig:
        """How a server is told of it."""
        given: dict[str, Any] = {
            "issuer": self.issuer,
            "audience": "halfpast",
            "client_id": CLIENT,
            "client_secret": SECRET,
            "roles": "sre=admin,dev=read-only",
        }
        return OidcConfig(**given | changed)


@asynccontextmanager
async def fake_provider() -> AsyncGenerator[FakeProvider]:
    provider = FakeProvider()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", provider.discovery)
    app.router.add_get("/keys", provider.jwks)
    app.router.add_post("/token", provider.exchange)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        provider.issuer = f"http://127.0.0.1:{port}"
        yield provider
    finally:
        await runner.cleanup()

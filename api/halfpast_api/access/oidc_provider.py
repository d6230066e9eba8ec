"""What an identity provider publishes: where it answers, and with what it signs.

Whoever runs the server has named the provider, and all that is asked lies at https
addresses that it has published itself. Answers are bounded in size and time, redirects
are not followed, and however many tokens with unknown keys come, the keys are asked
for at most once in half a minute.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from halfpast_api.access.config import OidcConfig
from halfpast_api.access.oidc_errors import ProviderUnavailable

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    PublicKey = RSAKey | ECKey | OKPKey

_SIZE_MAX: Final = 1024 * 1024
_AGAIN_S: Final = 30.0
_KEYS_MAX: Final = 100
_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
T = TypeVar("T")

_LOCAL: Final = ("http://localhost", "http://127.0.0.1", "http://[::1]")


class Metadata(msgspec.Struct):
    """As much of a discovery document (OpenID Connect Discovery 1.0) as is needed."""

    issuer: str
    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _KeyList(msgspec.Struct):
    keys: list[dict[str, Any]]


class Provider:
    """One provider, asked when something about it must be known."""

    def __init__(
        self,
        config: OidcConfig,
        session: ClientSession,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._session = session
        self._monotonic_s = monotonic_s
        self._metadata: Metadata | None = None
        self._keys: dict[str, PublicKey] = {}
        self._unnamed: list[PublicKey] = []
        self._read_at_s = float("-inf")
        self._asked_at_s = float("-inf")
        self._lock = asyncio.Lock()

    async def metadata(self) -> Metadata:
        """Raises ProviderUnavailable."""
        if self._metadata is None:
            issuer = self._config.issuer
            url = issuer.rstrip("/") + "/.well-known/openid-configuration"
            found = _decoded(await self.fetch("GET", url), Metadata)
            if found.issuer != issuer:
                raise ProviderUnavailable(
                    f"{url} says that its issuer is {found.issuer[:200]!r}, and the "
                    f"configured one is {issuer!r}: they must be the same to the letter"
                )
            self._metadata = found
            return found
        return self._metadata

    async def keys(self, key_id: str | None) -> "list[PublicKey]":
        """The keys that may have signed what names this one; none if it is unknown.

        Raises ProviderUnavailable while no keys are known at all.
        """
        now_s = self._monotonic_s()
        is_old = now_s - self._read_at_s >= self._config.keys_refresh_s
        is_unknown = key_id is not None and key_id not in self._keys
        if is_old or is_unknown:
            await self._refresh()
        if key_id is None:
            return [*self._keys.values(), *self._unnamed]
        known = self._keys.get(key_id)
        return self._unnamed if known is None else [known]

    async def fetch(self, method: str, url: str, **options: Any) -> bytes:
        """The body of a 200. Raises ProviderUnavailable."""
        if not url.startswith(("https://", *_LOCAL)):
            raise ProviderUnavailable(f"{url[:200]!r} is no https:// address")
        try:
            async with self._session.request(
                method,
                url,
                allow_redirects=False,
                timeout=ClientTimeout(total=self._config.timeout_s),
                **options,
            ) as answer:
                if answer.status != 200:
                    raise ProviderUnavailable(f"{url} answers {answer.status}")
                content = b""
                async for some in answer.content.iter_any():
                    content += some
                    if len(content) > _SIZE_MAX:
                        raise ProviderUnavailable(f"{url} answers without an end")
        except (ClientError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise ProviderUnavailable(f"{url} does not answer: {reason}") from error
        return content

    async def _refresh(self) -> None:
        async with self._lock:
            now_s = self._monotonic_s()
            if now_s - self._asked_at_s < _AGAIN_S:
                if self._read_at_s == float("-inf"):
                    raise ProviderUnavailable("its keys are not known yet")
                return
            self._asked_at_s = now_s
            try:
                where = (await self.metadata()).jwks_uri
                found = _decoded(await self.fetch("GET", where), _KeyList)
            except ProviderUnavailable:
                if self._read_at_s == float("-inf"):
                    raise
                return  # the keys that are known stay good
            self._keys, self._unnamed = {}, []
            for one in found.keys[:_KEYS_MAX]:
                self._add(one)
            self._read_at_s = now_s

    def _add(self, published: dict[str, Any]) -> None:
        """Keys of other kinds, for other uses, and broken ones are not for us."""
        from joserfc.errors import JoseError
        from joserfc.jwk import import_key

        if published.get("kty") not in _KINDS or published.get("use", "sig") != "sig":
            return
        try:
            key: Any = import_key(published)
        except (JoseError, ValueError, TypeError, KeyError):
            return
        if isinstance(name := published.get("kid"), str):
            self._keys[name] = key
        else:
            self._unnamed.append(key)


def _decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProviderUnavailable(f"its answer cannot be read: {error}") from error

"""Tokens of an identity provider: who somebody is, and so what they may do."""

import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from halfpast_api.access.access import Access
from halfpast_api.access.config import OidcConfig
from halfpast_api.access.json_value import is_list, is_object
from halfpast_api.access.namespaced_names import is_namespace
from halfpast_api.access.oidc_errors import BadToken, OidcMissing
from halfpast_api.access.oidc_provider import Provider
from halfpast_api.access.roles import ROLES, strongest

_TOKEN_LENGTH_MAX: Final = 16_384
REMEMBERED_MAX: Final = 10_000
_BAD_S: Final = 10.0
_NAME_LENGTH_MAX: Final = 128
_ANY: Final = "*"


class Header(msgspec.Struct):
    """The head of a token; what else is in it is not for us, but for `crit`."""

    alg: str
    kid: str | None = None
    crit: list[str] | None = None


@dataclass(slots=True)
class _Verified:
    access: Access | None
    reason: str
    until_s: float


class OidcTokens:
    """Verifies tokens. What was found is remembered, for bad ones ten seconds long;
    both within bounds, so that nobody can fill the memory."""

    def __init__(
        self,
        config: OidcConfig,
        provider: Provider,
        now_s: Callable[[], float] = time.time,
        remembered_max: int = REMEMBERED_MAX,
    ) -> None:
        if find_spec("joserfc") is None:
            raise OidcMissing(
                "an oidc issuer is configured, and joserfc is missing: "
                "pip install 'halfpast[oidc]'"
            )
        self._config = config
        self._provider = provider
        self._now_s = now_s
        self._remembered_max = remembered_max
        self._algorithms = config.algorithm_list()
        self._roles = config.role_map()
        self._payload_words = frozenset(
            word.strip() for word in config.payload_words.split(",") if word.strip()
        )
        self._cache: dict[bytes, _Verified] = {}

    @property
    def remembered(self) -> int:
        """How many tokens are known, good and bad."""
        return len(self._cache)

    async def access_of(self, token: str) -> Access:
        """What the bearer may do. Raises BadToken, ProviderUnavailable."""
        key = sha256(token.encode("utf-8", "surrogateescape")).digest()
        now_s = self._now_s()
        known = self._cache.get(key)
        if known is None or known.until_s <= now_s:
            known = await self._verify(token, now_s)
            if len(self._cache) >= self._remembered_max:
                self._cache.pop(next(iter(self._cache)))
            self._cache[key] = known
        if known.access is None:
            raise BadToken(known.reason)
        return known.access

    async def claims(self, token: str, audiences: list[str]) -> dict[str, Any]:
        """The claims of a token that is good now, and for one of these audiences.

        Raises BadToken, ProviderUnavailable.
        """
        header = _header(token)
        if header.alg not in self._algorithms:
            raise BadToken(
                f"it is signed with {header.alg[:20]!r}, which is not among "
                f"{', '.join(self._algorithms)}"
            )
        if header.crit:
            raise BadToken("it asks for extensions that are not known here")
        for key in await self._provider.keys(header.kid):
            claims = _decode(token, key, header.alg)
            if claims is not None:
                break
        else:
            raise BadToken("none of the provider's keys has signed it")
        self._check(claims, audiences)
        return claims

    def access(self, claims: dict[str, Any]) -> Access:
        """What these claims allow. Raises BadToken where that is nothing."""
        words = _words(_claim(claims, self._config.role_claim))
        roles = [self._roles[word] for word in words if word in self._roles]
        if not roles and _ANY in self._roles:
            roles = [self._roles[_ANY]]
        role = strongest(roles)
        if not role:
            raise BadToken(
                f"its claim {self._config.role_claim!r} gives no role here; whoever "
                "runs the server maps words to roles with HALFPAST_API_OIDC_ROLES"
            )
        name = _claim(claims, self._config.name_claim) or claims.get("sub")
        namespace = _claim(claims, self._config.namespace_claim)
        namespace = self._config.namespace if namespace is None else namespace
        if not isinstance(namespace, str) or not (
            namespace in ("", _ANY) or is_namespace(namespace)
        ):
            raise BadToken(
                f"its claim {self._config.namespace_claim!r} is no namespace"
            )
        return Access(
            namespace="" if namespace == _ANY else namespace,
            actor=f"user:{_shown(name)}",
            kind="user",
            role=role,
            scopes=ROLES[role],
            may_view_payload=not self._payload_words.isdisjoint(words),
            is_suite=namespace == _ANY,
        )

    async def _verify(self, token: str, now_s: float) -> _Verified:
        try:
            claims = await self.claims(token, self._config.audiences())
            access = self.access(claims)
        except BadToken as error:
            return _Verified(None, error.reason, now_s + _BAD_S)
        until_s = float(claims["exp"]) + self._config.clock_skew_s
        refreshed_s = now_s + self._config.keys_refresh_s  # its key may be withdrawn
        return _Verified(access, "", min(until_s, refreshed_s))

    def _check(self, claims: dict[str, Any], audiences: list[str]) -> None:
        skew_s, now_s = self._config.clock_skew_s, self._now_s()
        if claims.get("iss") != self._config.issuer:
            raise BadToken("it is from another issuer")
        found = claims.get("aud")
        given = found if is_list(found) else [found]
        if not any(audience in given for audience in audiences):
            raise BadToken(f"it is not for {' or '.join(audiences)}")
        expires_s = claims.get("exp")
        if expires_s is None or not _is_number(expires_s):
            raise BadToken("it does not say when it expires")
        if expires_s + skew_s <= now_s:
            raise BadToken("it has expired; get a new one")
        for name in ("nbf", "iat"):
            at_s = claims.get(name)
            if at_s is not None and (not _is_number(at_s) or at_s - skew_s > now_s):
                raise BadToken("it is from the future; look at both clocks")


def _header(token: str) -> Header:
    if len(token) > _TOKEN_LENGTH_MAX or token.count(".") != 2 or not token.isascii():
        raise BadToken("it is neither a key nor a signed token (JWS)")
    text = token.partition(".")[0]
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=Header)
    except (ValueError, msgspec.MsgspecError):
        raise BadToken("its head cannot be read") from None


def _decode(token: str, key: Any, algorithm: str) -> dict[str, Any] | None:
    """The claims, if this key has signed them."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    try:
        return jwt.decode(token, key, algorithms=[algorithm]).claims
    except (JoseError, ValueError, TypeError):
        return None


def _claim(claims: dict[str, Any], name: str) -> Any:
    """A claim, or one inside of others: `realm_access.roles`."""
    if not name:
        return None
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not is_object(value):
            return None
        value = value.get(part)
    return value


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value, *value.split()]
    if is_list(value):
        return [it for it in value if isinstance(it, str)]
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(name: Any) -> str:
    text = name if isinstance(name, str) else "unknown"
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text[:_NAME_LENGTH_MAX]

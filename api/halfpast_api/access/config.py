"""What may be tuned about access."""

from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from halfpast_api.access.roles import ROLES

AuthMode = Literal["open", "auto", "keys"]
"""`open`: everybody may do everything. `keys`: everybody needs a key, or logs in.
`auto`: `keys`, as soon as there ever was a key."""

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
_ALGORITHMS: Final = frozenset(
    {
        *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """Sessions of the console."""

    idle_ms: int = 8 * HOUR_MS
    """A session ends when it was not used for that long."""

    absolute_ms: int = DAY_MS
    """And when it is that old."""

    cached_ms: int = 2_000
    """How long another process may not see that a session has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureConfig:
    """Requests that are signed, as clients of RocketMQ do."""

    skew_ms: int = 900_000
    """How far the time that was signed may be from ours."""

    local_time: bool = True
    """Whether clients in Python may sign the time of their own zone, as those of
    RocketMQ do; without it they must run in UTC."""

    def __post_init__(self) -> None:
        if self.skew_ms <= 0:
            raise ValueError("skew_ms must be more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailConfig:
    """How much of the trail is kept. What is older, or more, is deleted."""

    kept_ms: int = 400 * DAY_MS
    count_max: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """An identity provider. Without an `issuer` there is none.

    `client_id` and `client_secret` are for logging in to the console; without a
    client id only programs come, with tokens that name `audience`.
    """

    issuer: str = ""
    audience: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)

    redirect_url: str = ""
    """Where the provider sends people back, if the address that they use here is not
    it: https://queue.example.org/console/login/callback."""

    request_scopes: str = "openid profile email"
    """What a log-in asks the provider for."""

    algorithms: str = "RS256,ES256,EdDSA"
    """With which tokens may be signed, with commas between."""

    clock_skew_s: int = 60
    """How far the provider's clock may be from ours."""

    name_claim: str = "email"
    """What people are called; `sub` where it is missing."""

    role_claim: str = "groups"
    """Which claim tells the role: a word, or a list of words."""

    roles: str = ""
    """What its words mean: `halfpast-admins=admin,on-call=operator,*=read-only`."""

    namespace_claim: str = ""
    """Which claim names the namespace; without one, and where it is missing,
    `namespace` counts. `*` is the whole suite."""

    namespace: str = ""

    payload_words: str = ""
    """Words of the role claim whose bearers may see payload, with commas between."""

    timeout_s: float = 5.0
    """For each request to the provider."""

    keys_refresh_s: int = 600
    """How old the provider's signing keys may be."""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not self.issuer:
            return
        parts = urlsplit(self.issuer)
        is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
            raise ValueError(f"oidc issuer {self.issuer!r} must be an https:// address")
        if not self.audience and not self.client_id:
            raise ValueError(
                "oidc needs an audience or a client_id: whom tokens are for"
            )
        unknown = set(self.algorithm_list()) - _ALGORITHMS
        if unknown or not self.algorithms:
            raise ValueError(
                f"oidc algorithms {self.algorithms!r}: they must be signatures with "
                f"public keys, of {', '.join(sorted(_ALGORITHMS))}"
            )
        self.role_map()

    def algorithm_list(self) -> list[str]:
        return [word.strip() for word in self.algorithms.split(",") if word.strip()]

    def audiences(self) -> list[str]:
        """Whom a token may be for."""
        return [it for it in (self.audience, self.client_id) if it]

    def role_map(self) -> dict[str, str]:
        """Roles by the words of the claim. Raises ValueError."""
        found: dict[str, str] = {}
        for pair in filter(None, map(str.strip, self.roles.split(","))):
            word, equals, role = pair.rpartition("=")
            if not equals or role not in ROLES:
                raise ValueError(
                    f"oidc roles {pair!r}: write word=role, where a role is one of "
                    f"{', '.join(ROLES)}"
                )
            found[word] = role
        return found

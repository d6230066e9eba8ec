"""What is stored of API keys and of namespaces, and what is allowed.

A key has up to two live secrets, so that it can be rotated without a gap. Of each only
a digest is stored: see `halfpast_api.access.secret_digest`. It may have signing secrets
as well, up to two. Those are stored as they are: who verifies an HMAC must have the
secret itself, as the one who signs.
"""

from dataclasses import dataclass, field

from halfpast_api.metadata.errors import InvalidSettings

SECRETS_MAX = 2
KEY_SCOPES_MAX = 64
_DESCRIPTION_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySecret:
    """One secret of a key. `hint`: its first characters, for people. `expires_at_ms`
    of 0: as long as its key."""

    digest: str
    salt: str
    hint: str
    created_at_ms: int
    expires_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecret:
    """A secret with which the key's owner signs requests, itself and no digest.
    `expires_at_ms` of 0: as long as its key."""

    text: str = field(repr=False)
    created_at_ms: int
    expires_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySettings:
    """A key: for whom, what it may do, and until when (0: no end).

    With a `role` it has no scopes of its own. A key that is revoked stays known, so
    that the trail can name it; it never comes back.
    """

    namespace: str = ""
    all_namespaces: bool = False
    role: str = ""
    scopes: tuple[str, ...] = ()
    view_payload: bool = False
    description: str = ""
    created_by: str = ""
    expires_at_ms: int = 0
    revoked_at_ms: int = 0
    secrets: tuple[KeySecret, ...] = ()
    signing_secrets: tuple[SigningSecret, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSettings:
    """A namespace. `suspended`: nobody gets in; nothing is deleted."""

    description: str = ""
    suspended: bool = False


def check_access(settings: KeySettings | NamespaceSettings) -> None:
    """Raise InvalidSettings for the first value that is not allowed."""
    text = settings.description
    if len(text) > _DESCRIPTION_CHARS_MAX:
        detail = f"must have at most {_DESCRIPTION_CHARS_MAX} characters"
        raise InvalidSettings("description", f"{detail}, and has {len(text)}")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidSettings("description", "must be text without NUL or surrogates")
    if isinstance(settings, NamespaceSettings):
        return
    if len(settings.secrets) > SECRETS_MAX:
        raise InvalidSettings("secrets", f"must be at most {SECRETS_MAX}")
    if len(settings.signing_secrets) > SECRETS_MAX:
        raise InvalidSettings("signing_secrets", f"must be at most {SECRETS_MAX}")
    if len(settings.scopes) > KEY_SCOPES_MAX:
        raise InvalidSettings("scopes", f"must be at most {KEY_SCOPES_MAX}")
    if settings.role and settings.scopes:
        raise InvalidSettings("scopes", "cannot be given together with a role")
    if not settings.role and not settings.scopes:
        raise InvalidSettings("scopes", "are missing; give scopes, or a role")

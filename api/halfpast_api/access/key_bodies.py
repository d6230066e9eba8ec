"""Keys, as requests bring them and answers show them. No view holds a secret but
`NewKeyView` and `NewSigningView`, the answers to the requests that had it made."""

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from halfpast_api.access.access import Access
from halfpast_api.access.key_store import KeyEntry, NewKey
from halfpast_api.access.key_text import signing_hint
from halfpast_api.access.roles import ROLES
from halfpast_api.access.scope import ALL, BadScope, parse_scope
from halfpast_api.metadata.access_settings import (
    KeySecret,
    KeySettings,
    SigningSecret,
)
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.times import BadTime, parse_duration, parse_instant, render_instant

_NS_PER_MS: Final = 1_000_000
KEEP_OLD_MS: Final = 86_400_000
KEEP_OLD_MS_MAX: Final = 30 * KEEP_OLD_MS


class KeyChange(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be changed of a key. Null takes an expiry away."""

    description: str | UnsetType = UNSET
    role: str | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    view_payload: bool | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET
    expires_in: str | UnsetType | None = UNSET


class KeyBody(KeyChange, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A new key. Without a namespace it gets that of its maker."""

    namespace: str | None = None
    all_namespaces: bool = False
    signing: bool = False


class RotateBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How long the secret before the new one still counts."""

    keep_old_ms: int = KEEP_OLD_MS


class SecretView(msgspec.Struct):
    """A secret of a key, without the secret. `prefix`: how it begins."""

    prefix: str
    created_at: str
    expires_at: str | None


class KeyView(msgspec.Struct, kw_only=True):
    """A key. `state`: live | expired | revoked. `last_used_at` is true to within some
    minutes; null if it never was used."""

    id: str
    description: str
    namespace: str
    all_namespaces: bool
    role: str
    scopes: list[str]
    view_payload: bool
    state: str
    secrets: list[SecretView]
    signing_secrets: list[SecretView]
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    version: int


class NewKeyView(KeyView, kw_only=True):
    """A key with a new secret, which is shown this once; so is its signing secret if
    it was made with one."""

    secret: str
    signing_secret: str | UnsetType = UNSET


class NewSigningView(KeyView, kw_only=True):
    """A key with a new signing secret, which is shown this once. Clients of RocketMQ
    want the id as their access key and the signing secret as their secret key."""

    signing_secret: str


class KeyListView(msgspec.Struct):
    """A page of keys, by id."""

    keys: list[KeyView]
    next_page_token: str | None


def view_key(key: KeyEntry, now_ms: int) -> KeyView:
    return KeyView(**_fields(key, now_ms))


def view_new_key(new: NewKey, now_ms: int) -> NewKeyView:
    fields = _fields(new.key, now_ms)
    return NewKeyView(**fields, secret=new.text, signing_secret=new.signing or UNSET)


def view_new_signing(new: NewKey, now_ms: int) -> NewSigningView:
    return NewSigningView(**_fields(new.key, now_ms), signing_secret=new.text)


def state_of(settings: KeySettings, now_ms: int) -> str:
    if settings.revoked_at_ms:
        return "revoked"
    return "expired" if 0 < settings.expires_at_ms <= now_ms else "live"


def settings_of(body: KeyChange, before: KeySettings, now_ms: int) -> KeySettings:
    """What the request makes of a key. Raises Refusal."""
    given = {
        "description": body.description,
        "view_payload": body.view_payload,
        "role": body.role,
        "scopes": body.scopes if body.scopes is UNSET else tuple(body.scopes),
        "expires_at_ms": _expiry(body, now_ms),
    }
    new: dict[str, Any] = {
        name: value for name, value in given.items() if value is not UNSET
    }
    if new.get("scopes"):
        new.setdefault("role", "")
    elif new.get("role"):
        new.setdefault("scopes", ())
    return dataclasses.replace(before, **new)


def check_grant(access: Access, settings: KeySettings) -> None:
    """Raise Refusal for scopes that cannot be, and for what the caller has not and so
    cannot give."""
    if settings.role:
        scopes = ROLES.get(settings.role)
        if scopes is None:
            raise refuse_field(
                "invalid_settings", "/role", f"must be one of {', '.join(ROLES)}"
            )
        texts = scopes.texts
    else:
        texts = settings.scopes
    for index, text in enumerate(texts):
        pointer = "/role" if settings.role else f"/scopes/{index}"
        try:
            scope = parse_scope(text)
        except BadScope as error:
            raise refuse_field("invalid_scope", pointer, str(error)) from None
        topic = None if scope.pattern == ALL else scope.pattern
        if not access.allows(scope.verb, topic):
            raise Refusal(
                "forbidden",
                f"{access.actor} does not have the scope {text!r}, so it cannot make "
                "or take over a key that has it; use a key that may do more",
            )
    if settings.view_payload and not access.may_view_payload:
        raise Refusal(
            "forbidden",
            f"{access.actor} may not view payload, so it cannot give that to a key",
        )


def _expiry(body: KeyChange, now_ms: int) -> int | UnsetType:
    """Epoch ms, 0 for none."""
    if body.expires_at is UNSET and body.expires_in is UNSET:
        return UNSET
    if body.expires_at not in (UNSET, None) and body.expires_in not in (UNSET, None):
        raise refuse_field(
            "several_times", "/expires_in", "give expires_at or expires_in, not both"
        )
    if isinstance(body.expires_at, str):
        at_ms = _read(parse_instant, "expires_at", body.expires_at)
    elif isinstance(body.expires_in, str):
        span_ns = _read(parse_duration, "expires_in", body.expires_in)
        at_ms = now_ms + span_ns // _NS_PER_MS
    else:
        return 0
    if not now_ms < at_ms < 2**53:
        raise refuse_field(
            "invalid_time", "/expires_at", "a key must expire in the future"
        )
    return at_ms


def _read(parse: Callable[[str], int], name: str, text: str) -> int:
    try:
        return parse(text)
    except BadTime as error:
        raise refuse_field("invalid_time", f"/{name}", str(error)) from None


def _fields(key: KeyEntry, now_ms: int) -> dict[str, Any]:
    settings = key.settings
    return {
        "id": key.key_id,
        "description": settings.description,
        "namespace": settings.namespace,
        "all_namespaces": settings.all_namespaces,
        "role": settings.role,
        "scopes": list(settings.scopes),
        "view_payload": settings.view_payload,
        "state": state_of(settings, now_ms),
        "secrets": [
            _secret(it.hint, it) for it in settings.secrets if _is_live(it, now_ms)
        ],
        "signing_secrets": [
            _secret(signing_hint(it.text), it)
            for it in settings.signing_secrets
            if _is_live(it, now_ms)
        ],
        "created_at": render_instant(key.entry.created_at_ms),
        "created_by": settings.created_by,
        "expires_at": _time(settings.expires_at_ms),
        "revoked_at": _time(settings.revoked_at_ms),
        "last_used_at": _time(key.last_used_ms),
        "version": key.entry.version,
    }


def _is_live(secret: KeySecret | SigningSecret, now_ms: int) -> bool:
    return secret.expires_at_ms == 0 or secret.expires_at_ms > now_ms


def _secret(hint: str, secret: KeySecret | SigningSecret) -> SecretView:
    created_at = render_instant(secret.created_at_ms)
    return SecretView(f"{hint}…", created_at, _time(secret.expires_at_ms))


def _time(ms: int) -> str | None:
    return render_instant(ms) if ms else None

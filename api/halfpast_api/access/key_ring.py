"""Who a key belongs to, told from memory alone.

`verify` is on the path of every request: one look-up, one keyed hash of 60 bytes, one
comparison in constant time, and an `Access` that was made before: 3 µs, the same for
keys that do not exist. So nothing has to be remembered about keys that were shown,
good or bad, and nobody can fill the memory with made-up ones. What is kept is made
anew when the settings of its key change, and goes when the key goes.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from halfpast_api.access.access import Access
from halfpast_api.access.key_text import SIGNING_PREFIX, is_complete, key_id_of
from halfpast_api.access.roles import ROLES
from halfpast_api.access.scope import BadScope, Scope, Scopes, parse_scope
from halfpast_api.access.secret_digest import Lock
from halfpast_api.metadata.access_settings import (
    KeySecret,
    KeySettings,
    NamespaceSettings,
    SigningSecret,
)
from halfpast_api.problems import Refusal

_SIZE_MAX: Final = 100_000
_NOBODYS: Final = Lock(bytes(16), bytes(32))
_NOBODYS_SIGNING: Final = (
    SigningSecret(text=SIGNING_PREFIX + 57 * "0", created_at_ms=0),
)


class KeySource(Protocol):
    """What is asked of a `MetadataCache`."""

    def key_settings(self, key_id: str) -> KeySettings | None: ...

    def namespaces(self) -> Mapping[str, NamespaceSettings]: ...


@dataclass(slots=True)
class _Known:
    """A key as it was when its settings were `settings`."""

    settings: KeySettings
    access: Access
    locks: tuple[tuple[Lock, int], ...]


def system_now_ms() -> int:
    return time.time_ns() // 1_000_000


class KeyRing:
    """All keys. `used` holds when each was last used here, for whoever writes that
    down."""

    def __init__(
        self, source: KeySource, now_ms: Callable[[], int] = system_now_ms
    ) -> None:
        self._source = source
        self._now_ms = now_ms
        self._known: dict[str, _Known] = {}
        self.used: dict[str, int] = {}

    @property
    def remembered(self) -> int:
        """How many keys are made ready; those that exist at most."""
        return len(self._known)

    def verify(self, text: str) -> Access:
        """Who shows this key. Raises Refusal, which does not show it."""
        key_id = key_id_of(text)
        if not key_id:
            if text.startswith(SIGNING_PREFIX):
                raise unauthenticated(
                    "this is a signing secret, with which clients of RocketMQ sign; "
                    "what is asked for here is the key itself, which begins with hp_"
                )
            raise unauthenticated("what was sent is not a key; keys begin with hp_")
        known = self._find(key_id)
        secret = text.encode("utf-8", "surrogateescape")
        if known is None:
            _NOBODYS.opens(secret)  # takes as long as for somebody's
            raise _unknown(text)
        now_ms = self._now_ms()
        for lock, expires_at_ms in known.locks:
            if not lock.opens(secret):
                continue
            if 0 < expires_at_ms <= now_ms:
                raise unauthenticated(
                    f"this secret of the key {key_id} was replaced by another one, and "
                    "its time is over; use the new one"
                )
            self._check(key_id, known.settings, now_ms)
            self.used[key_id] = now_ms
            return known.access
        raise _unknown(text)

    def verify_signer(self, key_id: str, has_signed: Callable[[str], bool]) -> Access:
        """Who has signed a request in the name of this key; `has_signed` is told one
        secret at a time. Raises Refusal, the same for keys that do not exist, and
        after the same work."""
        known = self._find(key_id)
        secrets = known.settings.signing_secrets if known is not None else ()
        now_ms = self._now_ms()
        for secret in secrets or _NOBODYS_SIGNING:
            if not has_signed(secret.text) or known is None or not secrets:
                continue
            if 0 < secret.expires_at_ms <= now_ms:
                raise unauthenticated(
                    f"this signing secret of the key {key_id} was replaced by another "
                    "one, and its time is over; use the new one"
                )
            self._check(key_id, known.settings, now_ms)
            self.used[key_id] = now_ms
            return known.access
        raise unauthenticated(
            "no key has signed this: the access key is the key's id, such as k3x9q2mv, "
            "and the secret key its signing secret, which begins with hps_ (halfpast "
            "keys rotate-signing ID makes one)"
        )

    def access_of(self, key_id: str) -> Access:
        """What the key may do now. Raises Refusal if it is revoked, or has expired."""
        known = self._find(key_id)
        if known is None:
            raise unauthenticated(f"the key {key_id} does not exist any more")
        self._check(key_id, known.settings, self._now_ms())
        self.used[key_id] = self._now_ms()
        return known.access

    def _check(self, key_id: str, settings: KeySettings, now_ms: int) -> None:
        if settings.revoked_at_ms:
            raise unauthenticated(f"the key {key_id} is revoked; use another one")
        if 0 < settings.expires_at_ms <= now_ms:
            raise unauthenticated(
                f"the key {key_id} has expired; have an administrator make a new one",
                "key_expired",
            )
        if settings.namespace:
            check_namespace_is_open(settings.namespace, self._source.namespaces())

    def _find(self, key_id: str) -> _Known | None:
        settings = self._source.key_settings(key_id)
        if settings is None:
            self._known.pop(key_id, None)
            return None
        known = self._known.get(key_id)
        if known is None or known.settings is not settings:
            if len(self._known) >= _SIZE_MAX:
                self._known.clear()
            known = self._known[key_id] = _Known(
                settings,
                access_of_key(key_id, settings),
                tuple((_lock(it), it.expires_at_ms) for it in settings.secrets),
            )
        return known


def access_of_key(key_id: str, settings: KeySettings) -> Access:
    """What a key may do. A scope that this release does not know gives nothing."""
    scopes = ROLES.get(settings.role) if settings.role else _scopes(settings.scopes)
    return Access(
        namespace=settings.namespace,
        actor=f"key:{key_id}",
        kind="key",
        role=settings.role,
        key_id=key_id,
        scopes=scopes or Scopes(()),
        may_view_payload=settings.view_payload,
        is_suite=settings.all_namespaces,
    )


def check_namespace_is_open(
    name: str, namespaces: Mapping[str, NamespaceSettings]
) -> None:
    """Raise Refusal unless the namespace exists and lets people in."""
    settings = namespaces.get(name)
    if settings is None:
        raise unauthenticated(f"the namespace {name!r} does not exist any more")
    if settings.suspended:
        raise Refusal(
            "namespace_suspended",
            f"the namespace {name!r} is suspended; an administrator lets it go on with "
            f'PUT /v1/namespaces/{name} {{"suspended": false}}',
        )


def unauthenticated(detail: str, code: str = "unauthenticated") -> Refusal:
    """A 401."""
    return Refusal(
        code, detail, headers=[("WWW-Authenticate", 'Bearer realm="halfpast"')]
    )


def _lock(secret: KeySecret) -> Lock:
    return Lock(bytes.fromhex(secret.salt), bytes.fromhex(secret.digest))


def _unknown(text: str) -> Refusal:
    if not is_complete(text):
        return unauthenticated(
            "this is no whole key: letters are missing or wrong; copy it again"
        )
    return unauthenticated(
        "no key is like this one; it may belong to another server, or its secret was "
        "replaced"
    )


def _scopes(texts: tuple[str, ...]) -> Scopes:
    known: list[Scope] = []
    for text in texts:
        try:
            known.append(parse_scope(text))
        except BadScope:
            continue
    return Scopes(known)

"""Sessions of the console: who is logged in, told by a cookie.

The cookie holds 256 random bits, the database a hash of them, so that whoever reads
the database cannot take over a session. Each log-in makes new ones, whatever cookie
was there before; logging out ends the one that was. The token against forged requests
is made from the cookie's bits, and tells nothing about them.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import Final

from halfpast_api.access import session_rows
from halfpast_api.access.access import Access
from halfpast_api.access.config import SessionConfig
from halfpast_api.access.key_ring import KeyRing, system_now_ms
from halfpast_api.access.roles import ROLES
from halfpast_api.access.scope import Scopes
from halfpast_api.access.session import Session
from halfpast_api.access.session_rows import SessionRow
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.problems import Refusal

COOKIE: Final = "halfpast_session"
TOKEN_LENGTH: Final = 43
_SEEN_MS: Final = 60_000
_CACHE_MAX: Final = 10_000


@dataclass(slots=True)
class _Cached:
    row: SessionRow | None
    read_at_ms: int


class Sessions:
    """All sessions. What was looked up is known for `config.cached_ms`."""

    def __init__(
        self,
        store: MetadataStore,
        ring: KeyRing,
        config: SessionConfig,
        now_ms: Callable[[], int] = system_now_ms,
    ) -> None:
        self._store = store
        self._ring = ring
        self._config = config
        self._now_ms = now_ms
        self._cache: dict[str, _Cached] = {}

    @property
    def remembered(self) -> int:
        """How many sessions are known, also of those that do not exist."""
        return len(self._cache)

    async def begin(self, access: Access) -> str:
        """A new session for whoever has this access: what goes into the cookie."""
        token = secrets.token_urlsafe(32)
        now_ms = self._now_ms()
        row = SessionRow(
            id=_digest(token),
            key_id=access.key_id,
            actor=access.actor,
            role=access.role,
            namespace=access.namespace,
            all_namespaces=access.is_suite,
            view_payload=access.may_view_payload,
            created_at_ms=now_ms,
            seen_at_ms=now_ms,
            expires_at_ms=now_ms + self._config.absolute_ms,
        )
        await self._store.write(lambda connection: session_rows.add(connection, row))
        self._remember(row.id, row)
        return token

    async def find(self, token: str) -> Access | None:
        """Whose session it is; None if it is over, or there never was one.

        Raises MetadataUnavailable.
        """
        if len(token) != TOKEN_LENGTH:
            return None
        row = await self._row(_digest(token))
        now_ms = self._now_ms()
        if row is None or now_ms >= row.expires_at_ms:
            return None
        if now_ms - row.seen_at_ms >= self._config.idle_ms:
            return None
        if now_ms - row.seen_at_ms >= _SEEN_MS:
            row = replace(row, seen_at_ms=now_ms)
            self._remember(row.id, row)
            session_id = row.id
            await self._store.write(
                lambda connection: session_rows.seen(connection, session_id, now_ms)
            )
        session = Session(
            csrf_token=csrf_token(token),
            created_at_ms=row.created_at_ms,
            expires_at_ms=min(row.expires_at_ms, now_ms + self._config.idle_ms),
        )
        return self._access(row, session)

    async def end(self, token: str) -> None:
        """There is no such session any more."""
        session_id = _digest(token)
        self._cache.pop(session_id, None)
        await self._store.write(
            lambda connection: session_rows.end(connection, session_id)
        )

    async def move(self, token: str, namespace: str) -> None:
        """Look at another namespace from now on. The caller has checked that."""
        session_id = _digest(token)
        await self._store.write(
            lambda connection: session_rows.move(connection, session_id, namespace)
        )
        self._cache.pop(session_id, None)

    async def purge(self) -> int:
        """Delete those that are over. How many were."""
        now_ms = self._now_ms()
        idle_since_ms = now_ms - self._config.idle_ms
        return await self._store.write(
            lambda connection: session_rows.purge(connection, now_ms, idle_since_ms)
        )

    def _access(self, row: SessionRow, session: Session) -> Access | None:
        if row.key_id:
            try:
                access = self._ring.access_of(row.key_id)
            except Refusal:  # revoked, or expired
                return None
            namespace = row.namespace if access.is_suite else access.namespace
            return replace(access, namespace=namespace, session=session)
        return Access(
            namespace=row.namespace,
            actor=row.actor,
            kind="user",
            role=row.role,
            scopes=ROLES.get(row.role, Scopes(())),
            may_view_payload=row.view_payload,
            is_suite=row.all_namespaces,
            session=session,
        )

    async def _row(self, session_id: str) -> SessionRow | None:
        cached = self._cache.get(session_id)
        now_ms = self._now_ms()
        if cached is None or now_ms - cached.read_at_ms >= self._config.cached_ms:
            row = await self._store.read(
                lambda connection: session_rows.read(connection, session_id)
            )
            self._remember(session_id, row)
            return row
        return cached.row

    def _remember(self, session_id: str, row: SessionRow | None) -> None:
        if len(self._cache) >= _CACHE_MAX:
            self._cache.clear()
        self._cache[session_id] = _Cached(row, self._now_ms())


def csrf_token(token: str) -> str:
    """What a page must send along to change something in this session."""
    return blake2b(token.encode(), digest_size=20, person=b"halfpast.csrf").hexdigest()


def is_csrf_token(given: str, session: Session) -> bool:
    """Whether a request brings the token of its session; in constant time."""
    return compare_digest(
        given.encode("utf-8", "surrogateescape"), session.csrf_token.encode()
    )


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()

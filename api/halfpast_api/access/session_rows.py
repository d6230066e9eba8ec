"""The SQL of sessions. They have no versions: nobody follows them."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, or_, select, update

from halfpast_api.metadata.access_schema import sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session as it is stored; `id` is a digest of what the cookie holds."""

    id: str
    key_id: str
    actor: str
    role: str
    namespace: str
    all_namespaces: bool
    view_payload: bool
    created_at_ms: int
    seen_at_ms: int
    expires_at_ms: int


def add(connection: Connection, row: SessionRow) -> None:
    connection.execute(insert(sessions).values(asdict(row)))


def read(connection: Connection, session_id: str) -> SessionRow | None:
    found = select(sessions).where(sessions.c.id == session_id)
    row = connection.execute(found).mappings().one_or_none()
    return None if row is None else SessionRow(**row)


def seen(connection: Connection, session_id: str, at_ms: int) -> None:
    change = update(sessions).where(sessions.c.id == session_id)
    connection.execute(change.values(seen_at_ms=at_ms))


def move(connection: Connection, session_id: str, namespace: str) -> None:
    """Look at another namespace from now on."""
    change = update(sessions).where(sessions.c.id == session_id)
    connection.execute(change.values(namespace=namespace))


def end(connection: Connection, session_id: str) -> None:
    connection.execute(delete(sessions).where(sessions.c.id == session_id))


def purge(connection: Connection, now_ms: int, idle_since_ms: int) -> int:
    """Delete those that are over. How many were."""
    over = or_(
        sessions.c.expires_at_ms <= now_ms, sessions.c.seen_at_ms <= idle_since_ms
    )
    return connection.execute(delete(sessions).where(over)).rowcount

"""The SQL of the trail. Rows are added and forgotten, never changed."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from halfpast_api.metadata.access_schema import trail


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailEntry:
    """One administrative act. `id` is a UUIDv7 of `at_ms`: ids are in order of time;
    `before` and `after` are JSON, empty where there is nothing to tell."""

    id: str
    at_ms: int
    namespace: str
    actor: str
    action: str
    object: str
    request_id: str
    status: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailFilter:
    """Which entries; all that is given must be true. `namespace` None means any."""

    namespace: str | None = None
    actor: str | None = None
    action: str | None = None
    object: str | None = None
    after_ms: int | None = None
    before_ms: int | None = None


def add(connection: Connection, entries: list[TrailEntry]) -> None:
    connection.execute(insert(trail), [asdict(entry) for entry in entries])


def page(
    connection: Connection, wanted: TrailFilter, limit: int, behind: str
) -> list[TrailEntry]:
    """The newest first, those behind the id `behind` if it is given."""
    found = select(trail).order_by(trail.c.id.desc()).limit(limit)
    for name in ("namespace", "actor", "action", "object"):
        value = getattr(wanted, name)
        if value is not None:
            found = found.where(trail.c[name] == value)
    if wanted.after_ms is not None:
        found = found.where(trail.c.id >= _first_id(wanted.after_ms))
    if wanted.before_ms is not None:
        found = found.where(trail.c.id < _first_id(wanted.before_ms))
    if behind:
        found = found.where(trail.c.id < behind)
    return [TrailEntry(**row) for row in connection.execute(found).mappings()]


def trim(connection: Connection, oldest_ms: int, count_max: int) -> int:
    """Forget what is older, and what is too much. How many entries those were."""
    old = delete(trail).where(trail.c.id < _first_id(oldest_ms))
    gone = connection.execute(old).rowcount
    last = select(trail.c.id).order_by(trail.c.id.desc()).offset(count_max).limit(1)
    first_too_many = connection.execute(last).scalar_one_or_none()
    if first_too_many is not None:
        over = delete(trail).where(trail.c.id <= first_too_many)
        gone += connection.execute(over).rowcount
    return gone


def _first_id(ms: int) -> str:
    """Where ids of this moment begin: a UUIDv7 begins with its time."""
    digits = f"{max(ms, 0):012x}"
    return f"{digits[:8]}-{digits[8:]}"

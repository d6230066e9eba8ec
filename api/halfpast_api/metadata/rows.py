"""The SQL: read, page, put, delete and follow the rows of one kind.

Each function works within the transaction of its `connection`; those that change
something must be given one from `Database.writing`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Generic

from sqlalchemy import ColumnElement, Connection, Table, and_, select, tuple_, update
from sqlalchemy.engine import RowMapping

from halfpast_api.metadata import access_schema, schema
from halfpast_api.metadata.access_settings import KeySettings, NamespaceSettings
from halfpast_api.metadata.endpoint_settings import EndpointSettings
from halfpast_api.metadata.entry import (
    Changes,
    Entry,
    Key,
    Listing,
    Page,
    S,
    Written,
)
from halfpast_api.metadata.errors import StaleVersion
from halfpast_api.metadata.settings import (
    GroupSettings,
    Limit,
    ProducerGroupSettings,
    TopicSettings,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[S]):
    """One kind of entry: its table, and the columns that are its key.

    `at_delete`: what a deleted row, which stays, must not go on to hold.
    """

    label: str
    table: Table
    key: tuple[str, ...]
    settings: type[S]
    at_delete: Mapping[str, object] = field(default_factory=dict[str, object])

    def matches(self, key: Key) -> ColumnElement[bool]:
        pairs = zip(self.key, key, strict=True)
        return and_(*(self.table.c[column] == value for column, value in pairs))


TOPIC = Kind(label="topic", table=schema.topics, key=("name",), settings=TopicSettings)
GROUP = Kind(label="group", table=schema.groups, key=("name",), settings=GroupSettings)
PRODUCER_GROUP = Kind(
    label="producer group",
    table=schema.producer_groups,
    key=("name",),
    settings=ProducerGroupSettings,
    at_delete={"check_secrets": ()},
)
ENDPOINT = Kind(
    label="endpoint",
    table=schema.endpoints,
    key=("name",),
    settings=EndpointSettings,
    at_delete={"secrets": ()},
)
LIMIT = Kind(label="limit", table=schema.limits, key=("scope", "name"), settings=Limit)
KEY = Kind(
    label="key",
    table=access_schema.keys,
    key=("id",),
    settings=KeySettings,
    at_delete={"secrets": (), "signing_secrets": ()},
)
NAMESPACE = Kind(
    label="namespace",
    table=access_schema.namespaces,
    key=("name",),
    settings=NamespaceSettings,
)


def read(connection: Connection, kind: Kind[S], key: Key) -> Entry[S] | None:
    row = _row(connection, kind, key)
    return None if row is None or _is_deleted(row) else _entry(kind, row)


def page(connection: Connection, kind: Kind[S], page: Page) -> Listing[S]:
    key = tuple_(*(kind.table.c[column] for column in kind.key))
    found = select(kind.table).where(kind.table.c.deleted_at_ms.is_(None))
    if page.after is not None:
        found = found.where(key > page.after)
    found = found.order_by(*(kind.table.c[column] for column in kind.key))
    # One more than asked for tells whether there is a next page.
    rows = connection.execute(found.limit(page.limit + 1)).mappings().all()
    entries = tuple(_entry(kind, row) for row in rows[: page.limit])
    has_more = len(rows) > page.limit
    return Listing(entries=entries, next_after=entries[-1].key if has_more else None)


def put(
    connection: Connection,
    kind: Kind[S],
    key: Key,
    settings: S,
    *,
    expected: int | None,
    now_ms: int,
) -> Written[S]:
    """Write `settings`. What is so already stays as it is, version and all."""
    last = _lock(connection)
    row = _row(connection, kind, key)
    old = None if row is None or _is_deleted(row) else _entry(kind, row)
    _check_version(kind, key, old.version if old else None, expected)
    if old is not None and old.settings == settings:
        return Written(entry=old, created=False)
    entry = Entry(
        key=key,
        settings=settings,
        version=last + 1,
        created_at_ms=old.created_at_ms if old else now_ms,
        updated_at_ms=now_ms,
    )
    values = {it.name: getattr(settings, it.name) for it in fields(kind.settings)}
    values |= {
        "version": entry.version,
        "created_at_ms": entry.created_at_ms,
        "updated_at_ms": entry.updated_at_ms,
        "deleted_at_ms": None,
    }
    if row is None:
        values |= zip(kind.key, key, strict=True)
        connection.execute(kind.table.insert().values(values))
    else:
        connection.execute(update(kind.table).where(kind.matches(key)).values(values))
    _set_version(connection, entry.version)
    return Written(entry=entry, created=old is None)


def delete(
    connection: Connection,
    kind: Kind[S],
    key: Key,
    *,
    expected: int | None,
    now_ms: int,
) -> int | None:
    """Delete the entry; the number of this change, or None if it was not there."""
    last = _lock(connection)
    old = read(connection, kind, key)
    _check_version(kind, key, old.version if old else None, expected)
    if old is None:
        return None
    values: dict[str, object] = {
        "version": last + 1,
        "updated_at_ms": now_ms,
        "deleted_at_ms": now_ms,
        **kind.at_delete,
    }
    connection.execute(update(kind.table).where(kind.matches(key)).values(values))
    _set_version(connection, last + 1)
    return last + 1


def changes(connection: Connection, since: int | None) -> Changes:
    """What changed after version `since`, or everything.

    Everything also if the database has not reached `since` (it was restored).
    Rows may be newer than the version that is told, never older, since that is
    read first: a reader sees them again, and misses none.
    """
    version = connection.execute(select(schema.changes.c.version)).scalar_one()
    if since == version:
        return Changes(version=version)
    if since is not None and since > version:
        since = None
    return Changes(
        version=version,
        is_full=since is None,
        topics={key[0]: it for key, it in _changed(connection, TOPIC, since)},
        groups={key[0]: it for key, it in _changed(connection, GROUP, since)},
        producer_groups={
            key[0]: it for key, it in _changed(connection, PRODUCER_GROUP, since)
        },
        endpoints={key[0]: it for key, it in _changed(connection, ENDPOINT, since)},
        limits={
            (key[0], key[1]): None if it is None else it.value
            for key, it in _changed(connection, LIMIT, since)
        },
        keys={key[0]: it for key, it in _changed(connection, KEY, since)},
        namespaces={key[0]: it for key, it in _changed(connection, NAMESPACE, since)},
    )


def _changed(
    connection: Connection, kind: Kind[S], since: int | None
) -> list[tuple[Key, S | None]]:
    found = select(kind.table)
    if since is None:
        found = found.where(kind.table.c.deleted_at_ms.is_(None))
    else:
        found = found.where(kind.table.c.version > since)
    entries: list[tuple[Key, S | None]] = []
    for row in connection.execute(found).mappings():
        entry = _entry(kind, row)
        entries.append((entry.key, None if _is_deleted(row) else entry.settings))
    return entries


def _lock(connection: Connection) -> int:
    """The number of the last change; nobody else changes anything until commit."""
    numbers = select(schema.changes.c.version).with_for_update()
    version: int = connection.execute(numbers).scalar_one()
    return version


def _set_version(connection: Connection, version: int) -> None:
    connection.execute(update(schema.changes).values(version=version))


def _check_version(
    kind: Kind[S], key: Key, actual: int | None, expected: int | None
) -> None:
    if expected is not None and expected != (actual or 0):
        raise StaleVersion(f"{kind.label} {'/'.join(key)}", expected, actual)


def _row(connection: Connection, kind: Kind[S], key: Key) -> RowMapping | None:
    found = select(kind.table).where(kind.matches(key))
    return connection.execute(found).mappings().one_or_none()


def _is_deleted(row: RowMapping) -> bool:
    return row["deleted_at_ms"] is not None


def _entry(kind: Kind[S], row: RowMapping) -> Entry[S]:
    return Entry(
        key=tuple(row[column] for column in kind.key),
        settings=kind.settings(
            **{it.name: row[it.name] for it in fields(kind.settings)}
        ),
        version=row["version"],
        created_at_ms=row["created_at_ms"],
        updated_at_ms=row["updated_at_ms"],
    )

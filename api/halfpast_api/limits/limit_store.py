"""Limits in the metadata database: one row for each, all of a subject as one thing."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from halfpast_api.limits.caller_limits import CallerLimits, check_limits
from halfpast_api.limits.subject import Subject
from halfpast_api.metadata import rows, schema
from halfpast_api.metadata.entry import Changes
from halfpast_api.metadata.errors import StaleVersion
from halfpast_api.metadata.rows import LIMIT
from halfpast_api.metadata.settings import Limit
from halfpast_api.metadata.store import MetadataStore

_table = schema.limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEntry:
    """The limits of one subject. `version` changes with any of them."""

    subject: str
    limits: CallerLimits
    version: int
    updated_at_ms: int


class LimitStore:
    """Every method may raise MetadataUnavailable; those that change something raise
    StaleVersion if the limits are not at version `expected` (0: there are none)."""

    def __init__(
        self,
        store: MetadataStore,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._now_ms = now_ms

    async def get(self, subject: Subject) -> LimitEntry | None:
        text = str(subject)
        return await self._store.read(lambda connection: _read(connection, text))

    async def page(self, after: str, limit: int) -> tuple[list[LimitEntry], str]:
        """By subject; where to go on, empty at the end."""

        def read(connection: Connection) -> list[LimitEntry]:
            scopes = (
                select(_table.c.scope)
                .where(_table.c.scope > after, _table.c.deleted_at_ms.is_(None))
                .distinct()
                .order_by(_table.c.scope)
                .limit(limit + 1)
            )
            found = [
                _read(connection, it) for it in connection.execute(scopes).scalars()
            ]
            return [it for it in found if it is not None]

        found = await self._store.read(read)
        has_more = len(found) > limit
        return found[:limit], found[limit - 1].subject if has_more else ""

    async def put(
        self, subject: Subject, limits: CallerLimits, *, expected: int | None = None
    ) -> tuple[LimitEntry, bool]:
        """These and no others, at least one; whether there were none before. Raises
        InvalidSettings."""
        check_limits(limits, is_namespace=subject.kind == "namespace")
        scope, wanted, now_ms = str(subject), limits.values(), self._now_ms()
        assert wanted

        def write(connection: Connection) -> tuple[LimitEntry | None, LimitEntry]:
            before = _locked(connection, scope, expected)
            gone = before.limits.values().keys() - wanted if before else ()
            for name in gone:
                _delete(connection, scope, name, now_ms)
            for name, value in wanted.items():
                rows.put(
                    connection,
                    LIMIT,
                    (scope, name),
                    Limit(value=value),
                    expected=None,
                    now_ms=now_ms,
                )
            after = _read(connection, scope)
            assert after is not None
            return before, after

        before, after = await self._store.write(write)
        given = dict.fromkeys(before.limits.values()) if before else {}
        self._tell(scope, {**given, **wanted}, after)
        return after, before is None

    async def delete(self, subject: Subject, *, expected: int | None = None) -> bool:
        """False if it had none."""
        scope, now_ms = str(subject), self._now_ms()

        def write(connection: Connection) -> LimitEntry | None:
            before = _locked(connection, scope, expected)
            for name in before.limits.values() if before else ():
                _delete(connection, scope, name, now_ms)
            return before

        before = await self._store.write(write)
        if before is not None:
            self._tell(scope, dict.fromkeys(before.limits.values()), before)
        return before is not None

    def _tell(
        self, scope: str, values: Mapping[str, float | None], entry: LimitEntry
    ) -> None:
        changed = {(scope, name): value for name, value in values.items()}
        self._store.tell(Changes(version=entry.version, limits=changed))


def _delete(connection: Connection, scope: str, name: str, now_ms: int) -> None:
    rows.delete(connection, LIMIT, (scope, name), expected=None, now_ms=now_ms)


def _locked(
    connection: Connection, scope: str, expected: int | None
) -> LimitEntry | None:
    """As it is, and stays until the end of the transaction. Raises StaleVersion."""
    connection.execute(select(schema.changes.c.version).with_for_update())
    before = _read(connection, scope)
    actual = before.version if before else None
    if expected is not None and expected != (actual or 0):
        raise StaleVersion(f"limits of {scope}", expected, actual)
    return before


def _read(connection: Connection, scope: str) -> LimitEntry | None:
    found = select(_table).where(_table.c.scope == scope)
    live = [
        row
        for row in connection.execute(found).mappings()
        if row["deleted_at_ms"] is None
    ]
    if not live:
        return None
    # Also of those that were taken away: no two states may have the same version.
    newest = select(func.max(_table.c.version), func.max(_table.c.updated_at_ms))
    version, at_ms = connection.execute(newest.where(_table.c.scope == scope)).one()
    values = {row["name"]: row["value"] for row in live}
    return LimitEntry(
        subject=scope,
        limits=CallerLimits.of(values),
        version=version,
        updated_at_ms=at_ms,
    )

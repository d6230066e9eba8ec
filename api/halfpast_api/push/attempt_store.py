"""Attempts in the metadata database, as many for each endpoint as are to be kept.

Delivered and failed ones are kept apart, so that many good ones do not wash away the
few that somebody will ask for.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select

from halfpast_api.push.attempt import FAILED, Attempt, AttemptState
from halfpast_api.push.schema import attempts

_IS_DELIVERED = attempts.c.state == AttemptState.DELIVERED.value
_FIELDS = [field.name for field in dataclasses.fields(Attempt)]


def add(connection: Connection, some: Sequence[Attempt]) -> None:
    """Keep these."""
    rows = [{name: getattr(it, name) for name in _FIELDS} for it in some]
    connection.execute(attempts.insert(), rows)


def trim(connection: Connection, endpoint: str, kept_max: int) -> None:
    """Forget the oldest of an endpoint."""
    for is_delivered in (_IS_DELIVERED, ~_IS_DELIVERED):
        mine = and_(attempts.c.endpoint == endpoint, is_delivered)
        behind = (
            select(attempts.c.number)
            .where(mine)
            .order_by(attempts.c.number.desc())
            .offset(kept_max)
            .limit(1)
        )
        last = connection.execute(behind).scalar()
        if last is not None:
            gone = delete(attempts).where(mine, attempts.c.number <= last)
            connection.execute(gone)


def forget(connection: Connection, endpoint: str) -> None:
    """Forget all of an endpoint."""
    connection.execute(delete(attempts).where(attempts.c.endpoint == endpoint))


def forget_others(connection: Connection, endpoints: Iterable[str]) -> None:
    """Forget those of endpoints that are not among these."""
    known = set(endpoints)
    there = connection.execute(select(attempts.c.endpoint).distinct()).scalars()
    for endpoint in [it for it in there if it not in known]:
        forget(connection, endpoint)


def page(
    connection: Connection,
    endpoint: str,
    *,
    event_id: str | None = None,
    state: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Attempt]:
    """The newest first, beginning behind the number `before`."""
    wanted: list[ColumnElement[bool]] = [attempts.c.endpoint == endpoint]
    if event_id is not None:
        wanted.append(attempts.c.event_id == event_id)
    if state == FAILED:
        wanted.append(~_IS_DELIVERED)
    elif state is not None:
        wanted.append(attempts.c.state == state)
    if before is not None:
        wanted.append(attempts.c.number < before)
    newest = attempts.c.number.desc()
    found = select(attempts).where(*wanted).order_by(newest).limit(limit)
    rows = connection.execute(found).mappings().all()
    return [Attempt(**{name: row[name] for name in _FIELDS}) for row in rows]


def count(connection: Connection, endpoint: str) -> int:
    """How many of an endpoint are kept."""
    mine = select(func.count()).where(attempts.c.endpoint == endpoint)
    return connection.execute(mine).scalar_one()

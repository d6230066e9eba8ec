"""Operations on dead letters in the metadata database."""

from typing import Final

import msgspec
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.engine import RowMapping

from halfpast_api.push.operation import Operation, State, Wish
from halfpast_api.push.schema import operations

RUNNING_MAX: Final = 16
KEPT_MS: Final = 7 * 86_400_000
ONCE_MS: Final = 86_400_000
_wish: Final = msgspec.json.Decoder(Wish)


def begin(connection: Connection, operation: Operation) -> Operation | None:
    """Keep a new one, and give it; or the one that was begun by the same idempotency
    key within a day. None if too many of its namespace are running."""
    first = _first(connection, operation)
    if first is not None:
        return first
    c = operations.c
    running = select(func.count()).where(
        c.namespace == operation.namespace, c.state == State.RUNNING.value
    )
    if connection.execute(running).scalar_one() >= RUNNING_MAX:
        return None
    old_ms = operation.created_at_ms - KEPT_MS
    is_old = (c.state != State.RUNNING.value) & (c.finished_at_ms < old_ms)
    connection.execute(delete(operations).where(is_old))
    connection.execute(operations.insert().values(_values(operation)))
    return operation


def _first(connection: Connection, operation: Operation) -> Operation | None:
    once = operation.wish.once
    if not once:
        return None
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        lock = func.pg_advisory_xact_lock(int(once[:15], 16))
        connection.execute(select(lock))
    c = operations.c
    found = (
        select(operations)
        .where(
            c.namespace == operation.namespace,
            c.created_at_ms > operation.created_at_ms - ONCE_MS,
            c.wish.contains(f'"once":"{once}"'),
        )
        .limit(1)
    )
    row = connection.execute(found).mappings().one_or_none()
    return None if row is None else _operation(row)


def get(connection: Connection, operation_id: str) -> Operation | None:
    found = select(operations).where(operations.c.id == operation_id)
    row = connection.execute(found).mappings().one_or_none()
    return None if row is None else _operation(row)


def newest(
    connection: Connection, namespace: str, state: str, limit: int
) -> list[Operation]:
    """Of one namespace, the newest first; `state` empty for any."""
    found = select(operations).where(operations.c.namespace == namespace)
    if state:
        found = found.where(operations.c.state == state)
    found = found.order_by(operations.c.id.desc()).limit(limit)
    return [_operation(row) for row in connection.execute(found).mappings()]


def running(connection: Connection) -> list[Operation]:
    """Of all namespaces, the oldest first."""
    is_running = operations.c.state == State.RUNNING.value
    found = select(operations).where(is_running).order_by(operations.c.id)
    return [_operation(row) for row in connection.execute(found).mappings()]


def progress(connection: Connection, operation: Operation) -> bool:
    """Write how far it has come. False if it does not run any more."""
    is_it = operations.c.id == operation.id
    is_running = operations.c.state == State.RUNNING.value
    change = update(operations).where(is_it, is_running).values(_values(operation))
    return bool(connection.execute(change).rowcount)


def stop(connection: Connection, operation: Operation) -> bool:
    """End one that runs, wherever it is. False if it does not run any more."""
    c = operations.c
    is_it = (c.id == operation.id) & (c.state == State.RUNNING.value)
    change = update(operations).where(is_it)
    change = change.values(
        state=operation.state, finished_at_ms=operation.finished_at_ms
    )
    return bool(connection.execute(change).rowcount)


def _values(operation: Operation) -> dict[str, object]:
    values: dict[str, object] = {
        name: getattr(operation, name)
        for name in operations.c.keys()  # noqa: SIM118
    }
    values["wish"] = msgspec.json.encode(operation.wish).decode()
    return values


def _operation(row: RowMapping) -> Operation:
    values = dict(row)
    values["wish"] = _wish.decode(values["wish"])
    return Operation(**values)

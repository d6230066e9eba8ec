"""Operations on dead letters begin once for an idempotency key, in both databases."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.integration.postgres_server import PostgresServer

from halfpast_api.metadata.database import migration_engine, parse_url
from halfpast_api.metadata.migrate import migrate
from halfpast_api.push import operation_store
from halfpast_api.push.operation import Action, Operation, State, Wish

pytest_plugins = ["tests.integration.postgres_server"]
NOW_MS = 1_800_000_000_000
KEY = "0123456789abcdef0123456789abcdef"


def operation(number: int, once: str = KEY, created_at_ms: int = NOW_MS) -> Operation:
    return Operation(
        id=f"00000000-0000-7000-8000-{number:012x}",
        namespace="",
        action=Action.REDRIVE.value,
        state=State.RUNNING.value,
        dry_run=True,
        wish=Wish(source="delay", once=once, request="aa"),
        created_at_ms=created_at_ms,
    )


def begun(engine: Engine, wanted: Operation) -> str:
    with engine.begin() as connection:
        found = operation_store.begin(connection, wanted)
        assert found is not None
        return found.id


def engine_of(url: str) -> Engine:
    parsed = parse_url(url)
    migrate(parsed)
    return migration_engine(parsed)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    engine = engine_of(f"sqlite:///{tmp_path}/metadata.sqlite")
    yield engine
    engine.dispose()


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[Engine]:
    engine = engine_of(postgres.new_database())
    yield engine
    engine.dispose()


def check(engine: Engine) -> None:
    first = begun(engine, operation(1))
    assert begun(engine, operation(2)) == first
    assert begun(engine, operation(3, once="f" * 32)) == operation(3).id
    assert begun(engine, operation(4, once="")) == operation(4).id
    day_later = NOW_MS + operation_store.ONCE_MS
    assert begun(engine, operation(5, created_at_ms=day_later)) == operation(5).id


def test_a_key_begins_one_operation(sqlite: Engine) -> None:
    check(sqlite)


@pytest.mark.postgres
def test_a_key_begins_one_operation_in_postgres(server: Engine) -> None:
    check(server)


@pytest.mark.postgres
def test_who_comes_at_the_same_moment_gets_the_same(server: Engine) -> None:
    got: list[str] = []
    start = threading.Barrier(4)

    def begin(number: int) -> None:
        start.wait(10)
        got.append(begun(server, operation(number)))

    threads = [threading.Thread(target=begin, args=(it,)) for it in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 4
    assert len(set(got)) == 1

"""The table in a real PostgreSQL: what goes in comes out once, when it is due."""

import pytest
from tests.integration.postgres_server import PostgresServer

from halfpast_loadtest import postgres_queue
from halfpast_loadtest.closed_loop import LoopConfig
from halfpast_loadtest.errors import OutcomeUnknown
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.postgres_queue import (
    INSERT_MANY,
    INSERT_ONE,
    insert_all,
    many_rows,
    one_row,
    run_inserts,
    take_all,
)

pytest_plugins = ["tests.integration.postgres_server"]
pytestmark = pytest.mark.postgres
SHORTLY = LoopConfig(callers=3, seconds=0.2, warmup_s=0.05)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """A schema with the table, empty."""
    url = postgres.new_database()
    name = url.rpartition("%3D")[2]
    with postgres.connect() as connection:
        connection.execute(f"SET search_path TO {name}".encode())
        for statement in postgres_queue.TABLE:
            connection.execute(statement.encode())
    return url


def rows(postgres: PostgresServer, url: str) -> int:
    name = url.rpartition("%3D")[2]
    with postgres.connect() as connection:
        query = f"SELECT count(*) FROM {name}.delayed".encode()
        found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.asyncio
async def test_rows_are_taken_once_and_when_they_are_due(
    postgres: PostgresServer, url: str
) -> None:
    base_ms = now_ms()
    dues = [base_ms + 300 + number // 4 for number in range(1200)]
    later = [base_ms + 3_600_000] * 7
    await insert_all(url, dues + later, [b"one", b"two"])
    assert rows(postgres, url) == 1207
    taken = await take_all(url, len(dues), base_ms + 20_000, pollers=2)
    assert len(taken.late_ms) == 1200
    assert taken.early == 0
    assert taken.last_ms >= dues[-1]
    assert rows(postgres, url) == len(later)


@pytest.mark.asyncio
async def test_taking_ends_when_its_time_is_over(url: str) -> None:
    taken = await take_all(url, 1, now_ms() + 50, pollers=1)
    assert not taken.late_ms


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [1, 20])
async def test_inserts_are_counted_in_rows(
    postgres: PostgresServer, url: str, size: int
) -> None:
    due_ms = now_ms() + 3_600_000
    if size == 1:
        statement, values = INSERT_ONE, one_row(due_ms, b"body")
    else:
        statement, values = INSERT_MANY, many_rows([due_ms] * size, [b"body"] * size)
    windows: list[int] = []
    seen = await run_inserts(
        url, statement, [values], SHORTLY, lambda: windows.append(0)
    )
    assert rows(postgres, url) == seen.events >= seen.window_events > 0
    assert seen.window_events == len(seen.latencies_ms) * size
    assert len(windows) == 2


@pytest.mark.asyncio
async def test_a_statement_that_fails_ends_the_run(url: str) -> None:
    bad = (postgres_queue.TOPIC, b"no timestamp", b"body")
    with pytest.raises(OutcomeUnknown, match="incorrect binary data format"):
        await run_inserts(url, INSERT_ONE, [bad], SHORTLY)

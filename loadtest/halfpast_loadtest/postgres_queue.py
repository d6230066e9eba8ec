"""The delay queue that users would build themselves: a table, SKIP LOCKED, a poller.

    INSERT ... SELECT unnest(...)                   one statement for a batch
    DELETE ... FOR UPDATE SKIP LOCKED ... RETURNING what is due, 500 at a time

Every statement is a transaction of its own, durable when it is answered. The rows are
found by their place (ctid), which is the fastest form of it.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from psycopg.pq.abc import PGresult

from halfpast_loadtest import postgres_wire
from halfpast_loadtest.closed_loop import LoopConfig, LoopResult
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.postgres_wire import (
    BYTEA_OID,
    TIMESTAMPTZ_OID,
    PostgresLine,
    timestamp,
    timestamp_ms,
)

BATCH_SIZE = 500
TABLE = (
    "CREATE TABLE delayed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "topic text NOT NULL, due timestamptz NOT NULL, body bytea NOT NULL)",
    "CREATE INDEX delayed_by_due ON delayed (due)",
)
INSERT_ONE = "INSERT INTO delayed (topic, due, body) VALUES ($1::text, $2, $3)"
INSERT_MANY = (
    "INSERT INTO delayed (topic, due, body) SELECT $1::text, due, body "
    "FROM unnest($2::timestamptz[], $3::bytea[]) AS new (due, body)"
)
TAKE_DUE = (
    "DELETE FROM delayed WHERE ctid = ANY (ARRAY(SELECT ctid FROM delayed "
    f"WHERE due <= now() ORDER BY due LIMIT {BATCH_SIZE} FOR UPDATE SKIP LOCKED)) "
    "RETURNING due, topic, body"
)
TOPIC = b"bench-schedule"
EMPTY_PAUSE_S = 0.001
STATEMENT = b"s"

Values = tuple[bytes, ...]


@dataclass(slots=True)
class Taken:
    """What pollers took: how late each row was here, and when the last one came."""

    late_ms: "array[float]" = field(default_factory=lambda: array("d"))
    last_ms: float = 0.0

    @property
    def early(self) -> int:
        return sum(late_ms < 0 for late_ms in self.late_ms)


def one_row(due_ms: int, body: bytes) -> Values:
    """The values of INSERT_ONE."""
    return TOPIC, timestamp(due_ms), body


def many_rows(dues_ms: Sequence[int], bodies: Sequence[bytes]) -> Values:
    """The values of INSERT_MANY."""
    dues = postgres_wire.array(TIMESTAMPTZ_OID, [timestamp(it) for it in dues_ms])
    return TOPIC, dues, postgres_wire.array(BYTEA_OID, bodies)


async def run_inserts(
    url: str,
    statement: str,
    values: Sequence[Values],
    config: LoopConfig,
    on_window: Callable[[], None] = lambda: None,
) -> LoopResult:
    """Callers that each insert the next when the last one is durable.

    `events` and rates count rows. `on_window` is called when the measured window
    begins and when it ends.
    """
    result = LoopResult()
    callers = [
        _Inserter(url, statement, values, at, result) for at in range(config.callers)
    ]
    for caller in callers:
        caller.send_next()
    await asyncio.sleep(config.warmup_s)
    on_window()
    began = time.perf_counter()
    for caller in callers:
        caller.measures = True
    await asyncio.sleep(config.seconds)
    for caller in callers:
        caller.measures = False
        caller.stopping = True
    result.window_s = time.perf_counter() - began
    on_window()
    await asyncio.gather(*(caller.idle for caller in callers))
    for caller in callers:
        caller.line.close()
    return result


async def insert_all(url: str, dues_ms: Sequence[int], bodies: Sequence[bytes]) -> None:
    """Insert rows with these due times, in batches."""
    batches = (
        many_rows(
            dues_ms[at : at + BATCH_SIZE],
            [
                bodies[number % len(bodies)]
                for number in range(at, min(at + BATCH_SIZE, len(dues_ms)))
            ],
        )
        for at in range(0, len(dues_ms), BATCH_SIZE)
    )
    await _Filler(url, batches).run()


async def take_all(url: str, count: int, until_ms: float, pollers: int) -> Taken:
    """Take what comes due until there were `count` rows, or this time has come."""
    taken = Taken()
    lines = [_Poller(url, taken) for _ in range(pollers)]
    try:
        for line in lines:
            line.poll()
        while len(taken.late_ms) < count and now_ms() < until_ms:
            await asyncio.sleep(0.05)
            for line in lines:
                if line.done.done():
                    line.done.result()
    finally:
        for line in lines:
            line.line.close()
    return taken


class _Line:
    """A connection with one statement; `_took` is called with each result."""

    def __init__(self, url: str, statement: str) -> None:
        self.line = PostgresLine(url, self._took, self._lost)
        self.line.prepare(STATEMENT, statement)
        self.line.start()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _took(self, result: PGresult) -> None:
        raise NotImplementedError

    def _lost(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class _Inserter(_Line):
    def __init__(
        self,
        url: str,
        statement: str,
        values: Sequence[Values],
        at: int,
        result: LoopResult,
    ) -> None:
        super().__init__(url, statement)
        self.measures = False
        self.stopping = False
        self._values = values
        self._at = at * 7
        self._result = result
        self._sent = 0.0

    @property
    def idle(self) -> "asyncio.Future[None]":
        return self.done

    def send_next(self) -> None:
        self._at = (self._at + 1) % len(self._values)
        self._sent = time.perf_counter()
        self.line.send(STATEMENT, self._values[self._at])

    def _took(self, result: PGresult) -> None:
        elapsed_ms = (time.perf_counter() - self._sent) * 1000
        rows = result.command_tuples or 0
        self._result.events += rows
        if self.measures:
            self._result.window_events += rows
            self._result.latencies_ms.append(elapsed_ms)
        if self.stopping:
            self.done.set_result(None)
        else:
            self.send_next()


class _Filler(_Line):
    def __init__(self, url: str, batches: Iterator[Values]) -> None:
        super().__init__(url, INSERT_MANY)
        self._batches = batches

    async def run(self) -> None:
        self._next()
        await self.done
        self.line.close()

    def _next(self) -> None:
        values = next(self._batches, None)
        if values is None:
            self.done.set_result(None)
        else:
            self.line.send(STATEMENT, values)

    def _took(self, result: PGresult) -> None:
        self._next()


class _Poller(_Line):
    """Polls again at once while there is something, else after a short sleep."""

    def __init__(self, url: str, taken: Taken) -> None:
        super().__init__(url, TAKE_DUE)
        self._taken = taken

    def poll(self) -> None:
        self.line.send(STATEMENT, ())

    def _took(self, result: PGresult) -> None:
        at_ms = time.time_ns() / 1e6
        if not result.ntuples:
            self._loop_later()
            return
        self.poll()
        taken = self._taken
        taken.last_ms = at_ms
        for row in range(result.ntuples):
            due = result.get_value(row, 0)
            assert due is not None
            taken.late_ms.append(at_ms - timestamp_ms(due))

    def _loop_later(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(EMPTY_PAUSE_S, self._poll_if_open)

    def _poll_if_open(self) -> None:
        if not self.line.closed:
            self.poll()

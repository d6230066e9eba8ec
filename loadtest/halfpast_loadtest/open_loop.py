"""Transactions at a steady rate, whatever the server does: an open loop.

Each transaction has an intended time, and its latency counts from then, so that a
server which makes the generator wait is charged for it (no coordinated omission). A
refused begin comes again a little later, as often as it takes; how often is told by
itself. The intended time of a commit is when its begin was answered.
"""

import asyncio
import random
import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from halfpast_loadtest.errors import OutcomeUnknown
from halfpast_loadtest.http_wire import Exchange, Response
from halfpast_loadtest.transaction_request import (
    begun_id,
    commit_request,
    is_committed,
)

TICK_S = 0.001
AGAIN = frozenset({429, 503})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoopConfig:
    """`again_s`: after so long, about, a refused request is sent once more.
    `drain_s`: how long to wait for what is still under way at the end."""

    rate_per_s: int
    seconds: float
    warmup_s: float
    again_s: float = 0.1
    drain_s: float = 20.0
    connections_max: int = 4000


@dataclass(slots=True)
class OpenLoopFigures:
    """What was seen. Latencies and `measured_count` are of the transactions whose
    intended time lies in the measured window; all else counts the whole run."""

    begun: int = 0
    committed: int = 0
    begins_refused: int = 0
    commits_refused: int = 0
    failed: int = 0
    unfinished: int = 0
    window_committed: int = 0  # commits that were answered in the window
    window_s: float = 0.0
    measured_count: int = 0
    begins_ms: "array[float]" = field(default_factory=lambda: array("d"))
    commits_ms: "array[float]" = field(default_factory=lambda: array("d"))

    @property
    def rate_per_s(self) -> float:
        return self.window_committed / self.window_s if self.window_s else 0.0


@dataclass(slots=True)
class _Transaction:
    """One that is under way. `intended`: of its present phase."""

    intended: float
    measured: bool
    begin: bytes
    commit: bytes = b""


class OpenLoop:
    """Starts transactions on time; `run` is called once."""

    def __init__(
        self, host: str, port: int, begins: Sequence[bytes], config: OpenLoopConfig
    ) -> None:
        self._host = host
        self._port = port
        self._begins = begins
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._free: list[_Line] = []
        self._lines: list[_Line] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._waiting: deque[_Transaction] = deque()
        self._open_count = 0
        self._chance = random.Random(1)
        self._window = (0.0, 0.0)
        self._error: Exception | None = None
        self.figures = OpenLoopFigures()

    async def run(self) -> OpenLoopFigures:
        """Start all transactions and wait for their ends. Raises OutcomeUnknown if a
        connection is lost."""
        config = self._config
        began = time.perf_counter()
        window_began = began + config.warmup_s
        self._window = (window_began, window_began + config.seconds)
        count = round((config.warmup_s + config.seconds) * config.rate_per_s)
        self.figures.window_s = config.seconds
        started = 0
        while started < count and self._error is None:
            now = time.perf_counter()
            while started < count and began + started / config.rate_per_s <= now:
                self._start(began + started / config.rate_per_s, started)
                started += 1
            await asyncio.sleep(TICK_S)
        deadline = time.perf_counter() + config.drain_s
        while self._open_count and self._error is None:
            await asyncio.sleep(0.01)
            if time.perf_counter() > deadline:
                break
        self.figures.unfinished = self._open_count
        await self._close()
        if self._error is not None:
            raise self._error
        return self.figures

    def _start(self, intended: float, number: int) -> None:
        measured = self._window[0] <= intended < self._window[1]
        self._open_count += 1
        self.figures.measured_count += measured
        begin = self._begins[number % len(self._begins)]
        self._send(_Transaction(intended, measured, begin))

    def _send(self, transaction: _Transaction) -> None:
        """Send its present phase on a free connection, or on the next one."""
        if self._free:
            self._free.pop().send(transaction)
            return
        self._waiting.append(transaction)
        if len(self._lines) + len(self._connecting) < self._config.connections_max:
            task = self._loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        line = _Line(self)
        try:
            await self._loop.create_connection(
                lambda: line.exchange, self._host, self._port
            )
        except OSError as error:
            self.lost(error)
            return
        self._lines.append(line)
        self.free(line)

    async def _close(self) -> None:
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for line in self._lines:
            line.close()

    def free(self, line: "_Line") -> None:
        """The line can carry the next request."""
        if self._waiting:
            line.send(self._waiting.popleft())
        else:
            self._free.append(line)

    def answered(
        self, line: "_Line", transaction: _Transaction, response: Response
    ) -> None:
        now = time.perf_counter()
        if transaction.commit:
            self._commit_answered(transaction, response, now)
            self.free(line)
        elif (transaction_id := begun_id(response)) is not None:
            self.figures.begun += 1
            if transaction.measured:
                took_ms = (now - transaction.intended) * 1000
                self.figures.begins_ms.append(took_ms)
            transaction.commit = commit_request(transaction_id)
            transaction.intended = now
            line.send(transaction)
        else:
            if response.status in AGAIN:
                self.figures.begins_refused += 1
                self._send_later(transaction)
            else:
                self._failed()
            self.free(line)

    def _commit_answered(
        self, transaction: _Transaction, response: Response, now: float
    ) -> None:
        figures = self.figures
        if is_committed(response):
            self._open_count -= 1
            figures.committed += 1
            if self._window[0] <= now < self._window[1]:
                figures.window_committed += 1
            if transaction.measured:
                figures.commits_ms.append((now - transaction.intended) * 1000)
        elif response.status in AGAIN:
            figures.commits_refused += 1
            self._send_later(transaction)
        else:
            self._failed()

    def _failed(self) -> None:
        self._open_count -= 1
        self.figures.failed += 1

    def _send_later(self, transaction: _Transaction) -> None:
        wait_s = self._config.again_s * self._chance.uniform(0.5, 1.5)
        self._loop.call_later(wait_s, self._send, transaction)

    def lost(self, error: Exception | None) -> None:
        if self._error is None:
            self._error = OutcomeUnknown(f"connection lost: {error}")


class _Line:
    """A connection, and the transaction that it carries."""

    def __init__(self, owner: OpenLoop) -> None:
        self.exchange = Exchange(self._answered, self._lost)
        self._owner = owner
        self._transaction: _Transaction | None = None
        self._closing = False

    def send(self, transaction: _Transaction) -> None:
        self._transaction = transaction
        self.exchange.send(transaction.commit or transaction.begin)

    def close(self) -> None:
        self._closing = True
        self.exchange.close()

    def _answered(self, response: Response) -> None:
        transaction, self._transaction = self._transaction, None
        assert transaction is not None
        self._owner.answered(self, transaction, response)

    def _lost(self, error: Exception | None) -> None:
        if not self._closing:
            self._owner.lost(error)

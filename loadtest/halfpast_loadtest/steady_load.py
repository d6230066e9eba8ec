"""Requests at a steady rate, whatever the server answers: an open loop.

Each request has an intended time, and its latency counts from then. There are only so
many connections, as in any pool: a request that finds none free is not sent, and
counted, so that what is measured is the server and not a queue in this process. One
that is refused is not repeated here; the next one comes anyway.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from halfpast_loadtest.errors import OutcomeUnknown
from halfpast_loadtest.http_wire import Exchange, Response

TICK_S = 0.001
REFUSED = frozenset({429, 503})
_CONNECTS_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyConfig:
    """`rate_per_s` requests; what comes in the time of warming up is not measured,
    but what it stores counts. `drain_s`: how long to wait for the last answers."""

    rate_per_s: float
    seconds: float
    warmup_s: float
    connections: int
    drain_s: float = 20.0


@dataclass(slots=True)
class SteadyFigures:
    """What was seen. `accepted_events` counts the whole run, the rest the window."""

    accepted_events: int = 0
    unanswered: int = 0
    sent: int = 0
    unsent: int = 0
    refused: int = 0
    failed: int = 0
    window_events: int = 0
    window_s: float = 0.0
    accepted_ms: "array[float]" = field(default_factory=lambda: array("d"))
    refused_ms: "array[float]" = field(default_factory=lambda: array("d"))


class SteadyLoad:
    """Sends requests on time; `run` is called once."""

    def __init__(
        self,
        host: str,
        port: int,
        requests: Sequence[bytes],
        config: SteadyConfig,
        count_accepted: Callable[[Response], int],
    ) -> None:
        self._host = host
        self._port = port
        self._requests = requests
        self._config = config
        self._count_accepted = count_accepted
        self._free: list[_Line] = []
        self._lines: list[_Line] = []
        self._window = (0.0, 0.0)
        self._error: Exception | None = None
        self.figures = SteadyFigures(window_s=config.seconds)

    async def run(self) -> SteadyFigures:
        """All of them. Raises OutcomeUnknown if a connection is lost."""
        config = self._config
        try:
            await self._connect()
            began = time.perf_counter()
            self._window = (
                began + config.warmup_s,
                began + config.warmup_s + config.seconds,
            )
            count = round((config.warmup_s + config.seconds) * config.rate_per_s)
            started = 0
            while started < count and self._error is None:
                now = time.perf_counter()
                while started < count and began + started / config.rate_per_s <= now:
                    self._start(began + started / config.rate_per_s, started)
                    started += 1
                await asyncio.sleep(TICK_S)
            deadline = time.perf_counter() + config.drain_s
            while self._busy and self._error is None:
                await asyncio.sleep(0.01)
                if time.perf_counter() > deadline:
                    break
            self.figures.unanswered = self._busy
        finally:
            for line in self._lines:
                line.close()
        if self._error is not None:
            raise self._error
        return self.figures

    @property
    def _busy(self) -> int:
        return len(self._lines) - len(self._free)

    async def _connect(self) -> None:
        for at in range(0, self._config.connections, _CONNECTS_AT_ONCE):
            count = min(_CONNECTS_AT_ONCE, self._config.connections - at)
            await asyncio.gather(*(self._connect_one() for _ in range(count)))

    async def _connect_one(self) -> None:
        line = _Line(self)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: line.exchange, self._host, self._port)
        self._lines.append(line)
        self._free.append(line)

    def _start(self, intended: float, number: int) -> None:
        is_measured = self._window[0] <= intended < self._window[1]
        if not self._free:
            self.figures.unsent += is_measured
            return
        self.figures.sent += is_measured
        request = self._requests[number % len(self._requests)]
        self._free.pop().send(request, intended, is_measured)

    def answered(self, line: "_Line", response: Response) -> None:
        self._free.append(line)
        figures, took_ms = self.figures, (time.perf_counter() - line.intended) * 1000
        accepted = self._count_accepted(response)
        figures.accepted_events += accepted
        if not line.is_measured:
            return
        if accepted:
            figures.window_events += accepted
            figures.accepted_ms.append(took_ms)
        elif response.status in REFUSED:
            figures.refused += 1
            figures.refused_ms.append(took_ms)
        else:
            figures.failed += 1

    def lost(self, error: Exception | None) -> None:
        if self._error is None:
            self._error = OutcomeUnknown(f"connection lost: {error}")


class _Line:
    """A connection, and the request that it carries."""

    def __init__(self, owner: SteadyLoad) -> None:
        self.exchange = Exchange(self._answered, self._lost)
        self.intended = 0.0
        self.is_measured = False
        self._owner = owner
        self._is_closing = False

    def send(self, request: bytes, intended: float, is_measured: bool) -> None:
        self.intended = intended
        self.is_measured = is_measured
        self.exchange.send(request)

    def close(self) -> None:
        self._is_closing = True
        self.exchange.close()

    def _answered(self, response: Response) -> None:
        self._owner.answered(self, response)

    def _lost(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._owner.lost(error)

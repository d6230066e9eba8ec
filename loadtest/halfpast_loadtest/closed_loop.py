"""Callers that each send the next request when the last one is answered.

Requests are bytes made beforehand; a caller's work between an answer and the next
request is a few microseconds, so that on two cores the server keeps its own.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from halfpast_loadtest.errors import OutcomeUnknown
from halfpast_loadtest.http_wire import Exchange, Response

SAMPLE_COUNT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """How many callers, how long. The time of warming up is not measured."""

    callers: int
    seconds: float
    warmup_s: float = 1.0


@dataclass(slots=True)
class LoopResult:
    """What the callers saw. `events` and `failed` count the whole run; the rest
    only the measured window.
    """

    events: int = 0  # acknowledged, with those of warming up
    failed: int = 0  # refused, with those of warming up
    window_events: int = 0
    window_s: float = 0.0
    latencies_ms: "array[float]" = field(default_factory=lambda: array("d"))
    samples: list[Response] = field(default_factory=list[Response])

    @property
    def rate_per_s(self) -> float:
        return self.window_events / self.window_s if self.window_s else 0.0


async def run_closed_loop(
    host: str,
    port: int,
    requests: Sequence[bytes],
    config: LoopConfig,
    *,
    events_per_request: int,
    count_accepted: Callable[[Response], int],
    on_window: Callable[[], None] = lambda: None,
) -> LoopResult:
    """Run the callers; every request that was sent is answered when this returns.

    `on_window` is called when the measured window begins and when it ends.
    Raises OutcomeUnknown if a connection is lost.
    """
    result = LoopResult()
    loop = asyncio.get_running_loop()
    callers = [
        _Caller(result, requests, at, events_per_request, count_accepted)
        for at in range(config.callers)
    ]
    for caller in callers:
        await loop.create_connection(caller.connection, host, port)
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
        caller.exchange.close()
    return result


class _Caller:
    def __init__(
        self,
        result: LoopResult,
        requests: Sequence[bytes],
        at: int,
        events_per_request: int,
        count_accepted: Callable[[Response], int],
    ) -> None:
        self.exchange = Exchange(self._answered, self._lost)
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.measures = False
        self.stopping = False
        self._result = result
        self._requests = requests
        self._at = at * 7
        self._events_per_request = events_per_request
        self._count_accepted = count_accepted
        self._sent = 0.0

    def connection(self) -> Exchange:
        """The protocol, in the form that `create_connection` asks for."""
        return self.exchange

    def send_next(self) -> None:
        self._at = (self._at + 1) % len(self._requests)
        self._sent = time.perf_counter()
        self.exchange.send(self._requests[self._at])

    def _answered(self, response: Response) -> None:
        elapsed_ms = (time.perf_counter() - self._sent) * 1000
        result = self._result
        accepted = self._count_accepted(response)
        result.events += accepted
        if accepted != self._events_per_request:
            result.failed += self._events_per_request - accepted
        if self.measures:
            result.window_events += accepted
            result.latencies_ms.append(elapsed_ms)
            if len(result.samples) < SAMPLE_COUNT:
                result.samples.append(response)
        if self.stopping:
            self.idle.set_result(None)
        elif accepted:
            self.send_next()
        else:  # refused: do as a polite client would, a little later
            asyncio.get_running_loop().call_later(0.05, self._send_late)

    def _send_late(self) -> None:
        if self.stopping:
            self.idle.set_result(None)
        else:
            self.send_next()

    def _lost(self, error: Exception | None) -> None:
        if not self.idle.done():
            self.idle.set_exception(OutcomeUnknown(f"connection lost: {error}"))

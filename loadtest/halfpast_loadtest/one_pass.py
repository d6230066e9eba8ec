"""Callers that work off requests, each of them once; what is refused is sent again.

A refusal is a 429 or a 503; the request waits a little then, and its latency goes on.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from halfpast_loadtest.errors import OutcomeUnknown
from halfpast_loadtest.http_wire import Exchange, Response

AGAIN = frozenset({429, 503})
AGAIN_S = 0.05


@dataclass(slots=True)
class PassResult:
    """What the callers saw. Answers of any other status count as answered."""

    answered: int = 0
    refused: int = 0
    seconds: float = 0.0
    latencies_ms: "array[float]" = field(default_factory=lambda: array("d"))


async def run_once(
    host: str,
    port: int,
    requests: Iterable[bytes],
    *,
    callers: int,
    on_answer: Callable[[Response], None],
) -> PassResult:
    """Every request is answered when this returns. Raises OutcomeUnknown if a
    connection is lost, and what `on_answer` raises."""
    result = PassResult()
    left = iter(requests)
    loop = asyncio.get_running_loop()
    all_callers = [_Caller(left, result, on_answer) for _ in range(callers)]
    began = time.perf_counter()
    try:
        for caller in all_callers:
            await loop.create_connection(caller.connection, host, port)
            caller.send_next()
        await asyncio.gather(*(caller.done for caller in all_callers))
    finally:
        for caller in all_callers:
            caller.exchange.close()
    result.seconds = time.perf_counter() - began
    return result


class _Caller:
    def __init__(
        self,
        left: Iterator[bytes],
        result: PassResult,
        on_answer: Callable[[Response], None],
    ) -> None:
        self.exchange = Exchange(self._answered, self._lost)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = left
        self._result = result
        self._on_answer = on_answer
        self._request = b""
        self._sent = 0.0

    def connection(self) -> Exchange:
        """The protocol, in the form that `create_connection` asks for."""
        return self.exchange

    def send_next(self) -> None:
        request = next(self._left, None)
        if request is None:
            self.done.set_result(None)
            return
        self._request = request
        self._sent = time.perf_counter()
        self.exchange.send(request)

    def _answered(self, response: Response) -> None:
        if self.done.done():
            return
        if response.status in AGAIN:
            self._result.refused += 1
            asyncio.get_running_loop().call_later(AGAIN_S, self._send_again)
            return
        self._result.latencies_ms.append((time.perf_counter() - self._sent) * 1000)
        self._result.answered += 1
        try:
            self._on_answer(response)
            self.send_next()
        except Exception as error:  # nobody awaits a callback
            self.done.set_exception(error)

    def _send_again(self) -> None:
        if self.exchange.is_open:
            self.exchange.send(self._request)

    def _lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(OutcomeUnknown(f"connection lost: {error}"))

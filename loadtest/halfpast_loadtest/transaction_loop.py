"""Callers that each begin a transaction, commit it, and go on with the next one.

The local work between the phases is none, so what is measured is Halfpast's part.
Requests that begin are bytes made beforehand; a commit is put together from the id.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from halfpast_loadtest.closed_loop import LoopConfig
from halfpast_loadtest.errors import OutcomeUnknown
from halfpast_loadtest.http_wire import Exchange, Response
from halfpast_loadtest.transaction_request import (
    begun_id,
    commit_request,
    is_committed,
)

AGAIN_S = 0.05


@dataclass(slots=True)
class TransactionFigures:
    """What producers saw. `committed` and `failed` count the whole run; the rest only
    the measured window. A refused phase counts as one failure."""

    committed: int = 0
    failed: int = 0
    window_committed: int = 0
    window_s: float = 0.0
    window_cpu_s: float = 0.0  # of this process, the generator
    begins_ms: "array[float]" = field(default_factory=lambda: array("d"))
    commits_ms: "array[float]" = field(default_factory=lambda: array("d"))
    answer_bytes: int = 0

    @property
    def rate_per_s(self) -> float:
        return self.window_committed / self.window_s if self.window_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """How answers are read; an echo server's are read by other rules."""

    find_id: Callable[[Response], bytes | None] = begun_id
    is_committed: Callable[[Response], bool] = is_committed


async def run_transactions(
    host: str,
    port: int,
    begins: Sequence[bytes],
    config: LoopConfig,
    *,
    answers: Answers | None = None,
    on_window: Callable[[], None] = lambda: None,
) -> TransactionFigures:
    """Run the callers; every transaction that was begun is committed, or refused,
    when this returns.

    `on_window` is called when the measured window begins and when it ends.
    Raises OutcomeUnknown if a connection is lost.
    """
    figures = TransactionFigures()
    loop = asyncio.get_running_loop()
    callers = [
        _Caller(figures, begins, at * 7, answers or Answers())
        for at in range(config.callers)
    ]
    for caller in callers:
        await loop.create_connection(caller.connection, host, port)
    for caller in callers:
        caller.begin_next()
    await asyncio.sleep(config.warmup_s)
    on_window()
    began, began_cpu = time.perf_counter(), time.process_time()
    for caller in callers:
        caller.measures = True
    await asyncio.sleep(config.seconds)
    for caller in callers:
        caller.measures = False
        caller.stopping = True
    figures.window_s = time.perf_counter() - began
    figures.window_cpu_s = time.process_time() - began_cpu
    on_window()
    await asyncio.gather(*(caller.idle for caller in callers))
    for caller in callers:
        caller.exchange.close()
    return figures


class _Caller:
    """One connection, and the transaction that it is in."""

    def __init__(
        self,
        figures: TransactionFigures,
        begins: Sequence[bytes],
        at: int,
        answers: Answers,
    ) -> None:
        self.exchange = Exchange(self._answered, self._lost)
        self.idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.measures = False
        self.stopping = False
        self._figures = figures
        self._begins = begins
        self._at = at
        self._answers = answers
        self._commit = b""  # of the transaction that is open
        self._sent = 0.0

    def connection(self) -> Exchange:
        """The protocol, in the form that `create_connection` asks for."""
        return self.exchange

    def begin_next(self) -> None:
        self._at = (self._at + 1) % len(self._begins)
        self._sent = time.perf_counter()
        self.exchange.send(self._begins[self._at])

    def _answered(self, response: Response) -> None:
        now = time.perf_counter()
        if self._commit:
            self._ended(response, now)
        else:
            self._begun(response, now)

    def _begun(self, response: Response, now: float) -> None:
        transaction_id = self._answers.find_id(response)
        if transaction_id is None:
            self._figures.failed += 1
            self._call_later(self._next)
            return
        self._figures.answer_bytes = len(response.body)
        if self.measures:
            self._figures.begins_ms.append((now - self._sent) * 1000)
        self._commit = commit_request(transaction_id)
        self._send_commit()

    def _ended(self, response: Response, now: float) -> None:
        figures = self._figures
        if not self._answers.is_committed(response):
            figures.failed += 1
            if response.status in (429, 503):  # it is open still: ask again
                self._call_later(self._send_commit)
                return
        else:
            figures.committed += 1
            if self.measures:
                figures.window_committed += 1
                figures.commits_ms.append((now - self._sent) * 1000)
        self._commit = b""
        self._next()

    def _send_commit(self) -> None:
        self._sent = time.perf_counter()
        self.exchange.send(self._commit)

    def _next(self) -> None:
        if self.stopping:
            self.idle.set_result(None)
        else:
            self.begin_next()

    def _call_later(self, call: Callable[[], None]) -> None:
        """Do as a polite client would, a little later."""
        asyncio.get_running_loop().call_later(AGAIN_S, call)

    def _lost(self, error: Exception | None) -> None:
        if not self.idle.done():
            self.idle.set_exception(OutcomeUnknown(f"connection lost: {error}"))

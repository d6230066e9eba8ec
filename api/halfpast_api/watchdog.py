"""Ends connections that take too long, and refuses those beyond the caps.

A sweep over all of them every second: one timer a connection would cost more.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from halfpast_api.config import ConnectionLimits
from halfpast_api.connection import Connection, Stage
from halfpast_api.problems import Refusal

_RETRY_LATER = [("Retry-After", "1")]

Shed = Callable[[bytes], bytes | None]
_REASONS: Final = ("refused", "malformed", "header_timeout", "idle", "write_timeout")


class Watchdog:
    """Counts the connections of one server and looks after them."""

    def __init__(
        self, limits: ConnectionLimits, shed: Shed = lambda _data: None
    ) -> None:
        self._limits = limits
        self.shed: Final = shed
        """What to answer to the first bytes of a request without parsing them."""
        self._by_address: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None
        self.open = 0
        self.ended: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))
        """How many were ended or refused, by reason; each is there from the start."""

    def start(self, connections: Callable[[], Iterable[object]]) -> None:
        """Sweep over what `connections` gives until `stop`."""
        self._task = asyncio.create_task(self._keep_sweeping(connections))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def admit(self, address: str) -> Refusal | None:
        """Count a new connection in, or tell why not."""
        limits = self._limits
        if self.open >= limits.count_max:
            reason = f"the server has {limits.count_max} connections"
        elif self._by_address[address] >= limits.per_address_max:
            reason = f"{address} has {limits.per_address_max} connections"
        else:
            self.open += 1
            self._by_address[address] += 1
            return None
        self.ended["refused"] += 1
        advice = "and takes no more: use those that are open again, or wait"
        return Refusal(
            "too_many_connections", f"{reason} {advice}", headers=_RETRY_LATER
        )

    def leave(self, address: str) -> None:
        """Count an admitted connection out."""
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def malformed(self) -> None:
        """Count a request that was not HTTP."""
        self.ended["malformed"] += 1

    def sweep(self, connections: Iterable[object], now_s: float) -> None:
        """End what has run out of time. Public for tests."""
        limits = self._limits
        for connection in connections:
            assert isinstance(connection, Connection)
            waited_s = now_s - connection.since_s
            stage = connection.stage
            if stage in (Stage.FRESH, Stage.HEADERS):
                if waited_s > limits.header_timeout_s:
                    self.ended["header_timeout"] += 1
                    connection.time_out(self._too_slow())
            elif stage == Stage.IDLE and waited_s > limits.idle_timeout_s:
                self.ended["idle"] += 1
                connection.hang_up()
            self._look_after_writing(connection, now_s)

    def _look_after_writing(self, connection: Connection, now_s: float) -> None:
        if not connection.writing_paused:
            connection.stalled_since_s = 0.0
        elif not connection.stalled_since_s:
            connection.stalled_since_s = now_s
        elif now_s - connection.stalled_since_s > self._limits.write_timeout_s:
            self.ended["write_timeout"] += 1
            connection.abort()

    async def _keep_sweeping(self, connections: Callable[[], Iterable[object]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.sweep_s)
            self.sweep(connections(), loop.time())

    def _too_slow(self) -> Refusal:
        return Refusal(
            "request_timeout",
            f"no complete request came within {self._limits.header_timeout_s:g} s; "
            "send all headers at once",
        )

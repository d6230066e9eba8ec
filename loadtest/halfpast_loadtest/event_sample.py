"""Some of the events of a bench, and what the server must say about each of them."""

import random
from collections.abc import Sequence

from halfpast_loadtest.http_wire import Response, request_bytes
from halfpast_loadtest.one_pass import run_once
from halfpast_loadtest.server_process import ServerProcess


class EventSample:
    """About twice `half` ids from all over `count` events, some to be cancelled."""

    def __init__(self, topic: str, half: int, count: int) -> None:
        self.topic = topic
        self.kept: list[str] = []
        self.cancelled: list[str] = []
        self._stride = max(count // max(2 * half, 1), 1)
        self._seen = 0

    def take(self, ids: Sequence[str]) -> None:
        """Some of the ids of one batch."""
        first = -self._seen % self._stride
        for at in range(first, len(ids), self._stride):
            self.kept.append(ids[at])
        self._seen += len(ids)

    def to_cancel(self) -> list[str]:
        """A random half of those kept, which are expected to be cancelled then."""
        random.Random(1).shuffle(self.kept)
        half = len(self.kept) // 2
        self.cancelled = self.kept[:half]
        self.kept = self.kept[half:]
        return self.cancelled

    async def wrong(self, server: ServerProcess) -> int:
        """How many of both kinds the server tells something else about."""
        wrong = await _other_than(server, self.kept, b'"scheduled"')
        return wrong + await _other_than(server, self.cancelled, b'"cancelled"')


async def _other_than(server: ServerProcess, ids: Sequence[str], state: bytes) -> int:
    wrong = 0

    def look(response: Response) -> None:
        nonlocal wrong
        wrong += response.status != 200 or state not in response.body

    requests = [request_bytes("GET", f"/v1/events/{it}") for it in ids]
    await run_once(server.host, server.port, requests, callers=4, on_answer=look)
    return wrong

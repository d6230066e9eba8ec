"""Consumers that do almost nothing: they note when bytes came, and ask again.

What came is kept undecoded and looked at after the run, so that the moment of
arrival is not blurred by this process's own work.
"""

import asyncio
import time
from typing import NamedTuple

import msgspec

from halfpast_loadtest.errors import OutcomeUnknown, RequestFailed
from halfpast_loadtest.http_wire import Exchange, Response, request_bytes


class Arrival(NamedTuple):
    """An answer with messages, and when its last byte was here (epoch ns)."""

    at_ns: int
    body: bytes


class LongPoller:
    """One consumer: polls again as soon as it has an answer, until it is stopped."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.message_count = 0
        self.stopping = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._poll = Exchange(self._answered, self._lost)

    async def start(self, host: str, port: int) -> None:
        """Connect and send the first poll."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._poll, host, port)
        self._poll.send(self._next_poll())

    async def stop(self) -> None:
        """Let the open poll end, then close. Raises what went wrong on the way."""
        self.stopping = True
        await self.done
        self._poll.close()

    def _next_poll(self) -> bytes:
        raise NotImplementedError

    def _took(self, body: bytes) -> int:
        """Deal with an answer's messages; how many there were."""
        raise NotImplementedError

    def _answered(self, response: Response) -> None:
        at_ns = time.time_ns()
        if response.status != 200:
            self._fail(RequestFailed("a poll", response.status, response.body))
            return
        if count := self._took(response.body):
            self.arrivals.append(Arrival(at_ns, response.body))
            self.message_count += count
        if self.stopping:
            self._finish()
        else:
            self._poll.send(self._next_poll())

    def _lost(self, error: Exception | None) -> None:
        self._fail(OutcomeUnknown(f"connection lost: {error or 'closed'}"))

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class PullPoller(LongPoller):
    """Reads one queue by offset, from its end on."""

    def __init__(self, topic: str, queue: int, *, wait_ms: int = 500) -> None:
        super().__init__()
        self._path = f"/v1/topics/{topic}/queues/{queue}/messages"
        self._query = f"max=1000&wait_ms={wait_ms}"
        self._offset = 0

    def _next_poll(self) -> bytes:
        return request_bytes("GET", f"{self._path}?offset={self._offset}&{self._query}")

    def _took(self, body: bytes) -> int:
        count = _PULLED.decode(body).next_offset - self._offset
        self._offset += count
        return count


class PopPoller(LongPoller):
    """A group's member: pops, and acks over a second connection meanwhile."""

    def __init__(self, group: str, topic: str, *, wait_ms: int = 500) -> None:
        super().__init__()
        self._ack_path = f"/v1/groups/{group}:ack"
        wanted = {"topic": topic, "max": 1000, "wait_ms": wait_ms}
        body = msgspec.json.encode(wanted | {"invisible_ms": 60_000})
        self._pop_request = request_bytes("POST", f"/v1/groups/{group}:pop", body)
        self._ack = Exchange(self._acknowledged, self._lost)
        self._acks_open = 0
        self._all_acked = asyncio.Event()
        self._all_acked.set()
        self._to_ack: list[str] = []
        self.acked_count = 0

    async def start(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self._ack, host, port)
        await super().start(host, port)

    async def stop(self) -> None:
        await super().stop()
        await self._all_acked.wait()
        self._ack.close()

    def _next_poll(self) -> bytes:
        return self._pop_request

    def _took(self, body: bytes) -> int:
        receipts = [message.receipt for message in _POPPED.decode(body).messages]
        self._to_ack += receipts
        if self._to_ack and not self._acks_open:
            self._send_acks()
        return len(receipts)

    def _send_acks(self) -> None:
        self._acks_open = len(self._to_ack)
        body = msgspec.json.encode({"receipts": self._to_ack})
        self._to_ack = []
        self._all_acked.clear()
        self._ack.send(request_bytes("POST", self._ack_path, body))

    def _acknowledged(self, response: Response) -> None:
        if response.status != 200:
            self._all_acked.set()
            self._fail(RequestFailed("an ack", response.status, response.body))
            return
        self.acked_count += self._acks_open
        self._acks_open = 0
        if self._to_ack:
            self._send_acks()
        else:
            self._all_acked.set()


class _Receipt(msgspec.Struct):
    receipt: str


class _Popped(msgspec.Struct):
    messages: list[_Receipt]


class _Pulled(msgspec.Struct):
    next_offset: int


_POPPED = msgspec.json.Decoder(_Popped)
_PULLED = msgspec.json.Decoder(_Pulled)

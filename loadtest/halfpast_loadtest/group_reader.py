"""A consumer group's member: pops with a long poll, acks, and forgets nothing.

It keeps what it has seen, so that a test can tell redelivery (allowed: the ack was
not confirmed) from a message that comes again after its confirmed ack.
"""

import asyncio

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.message import Message, parse_popped
from halfpast_loadtest.patient_client import PatientClient

Place = tuple[str, int, int]


class GroupReader:
    """Reads one topic for one group until it is cancelled."""

    def __init__(
        self,
        client: PatientClient,
        group: str,
        topic: str,
        *,
        invisible_ms: int = 3000,
        wait_ms: int = 1000,
        count_max: int = 200,
    ) -> None:
        self._client = client
        self._group = group
        self._pop: dict[str, object] = {
            "topic": topic,
            "max": count_max,
            "wait_ms": wait_ms,
            "invisible_ms": invisible_ms,
        }
        self.popped: list[Message] = []
        self.popped_after_ack: list[Message] = []
        self.redelivered_count = 0
        self._seen: set[Place] = set()
        self._acked: set[Place] = set()

    @property
    def seen_count(self) -> int:
        """How many different messages have come."""
        return len(self._seen)

    async def run(self) -> None:
        """Pop and ack until it is cancelled; its connection ends with it."""
        try:
            while True:
                messages = await self._pop_some()
                if not messages:
                    await asyncio.sleep(0.01)  # the topic may not exist yet
                    continue
                for message in messages:
                    self._note(message)
                await self._ack(messages)
        finally:
            self._client.close()

    async def _pop_some(self) -> list[Message]:
        path = f"/v1/groups/{self._group}:pop"
        try:
            answer = await self._client.request("POST", path, self._pop)
        except RequestFailed as failure:
            if failure.status == 404:
                return []
            raise
        return parse_popped(answer.body)

    def _note(self, message: Message) -> None:
        place = (message.topic, message.queue, message.offset)
        self.popped.append(message)
        if place in self._acked:
            self.popped_after_ack.append(message)
        if place in self._seen:
            self.redelivered_count += 1
        self._seen.add(place)

    async def _ack(self, messages: list[Message]) -> None:
        path = f"/v1/groups/{self._group}:ack"
        receipts = [message.receipt for message in messages]
        answer = await self._client.request("POST", path, {"receipts": receipts})
        for result in _SETTLED.decode(answer.body).results:
            if result.status == 200:
                message = messages[result.index]
                self._acked.add((message.topic, message.queue, message.offset))


class _Result(msgspec.Struct):
    index: int
    status: int


class _Settled(msgspec.Struct):
    results: list[_Result]


_SETTLED = msgspec.json.Decoder(_Settled)

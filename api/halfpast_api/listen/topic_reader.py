"""Messages of a topic as they are forwarded: read by offset, so that no group is made
or disturbed and nothing is left behind."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from halfpast import NotFound, OutcomeUnknown, ServerUnreachable
from halfpast.answer_body import TopicBody
from halfpast.server_calls import escaped
from halfpast_api.event_id import parse_id
from halfpast_api.open_calls import OpenCalls
from halfpast_api.push.envelope import Message
from halfpast_core_store.record import Record, RecordFlag, RecordKind

POLL: Final = timedelta(seconds=20)
LOOK_AGAIN_S: Final = 0.5
_COUNT_MAX: Final = 32
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

Take = Callable[[Message], Awaitable[None]]
Say = Callable[[str], None]


class PulledMessage(msgspec.Struct):
    """A message as the server answers it, its data to the byte."""

    id: str
    topic: str
    key: str | None = None
    tag: str | None = None
    properties: dict[str, str] | None = None
    data: msgspec.Raw = msgspec.Raw()
    data_base64: str | None = None
    born_at: datetime | None = None
    stored_at: datetime | None = None
    deliver_at: datetime | None = None

    def message(self) -> Message:
        """As the push process would have it."""
        is_json = self.data_base64 is None
        record = Record(
            kind=RecordKind.NORMAL,
            flags=RecordFlag.JSON if is_json else 0,
            attempt=0,
            topic_id=0,
            group_id=0,
            event_id=parse_id(self.id),
            born_ms=_ms(self.born_at),
            due_ms=_ms(self.deliver_at),
            tag_hash=0,
            version=0,
            queue_id=0,
            key=(self.key or "").encode(),
            tag=(self.tag or "").encode(),
            properties=b"",
            body=bytes(self.data) if is_json else b64decode(self.data_base64 or ""),
        )
        return Message(
            namespace="",
            topic=self.topic,
            stored_ms=_ms(self.stored_at),
            record=record,
            properties=self.properties or {},
        )


class PulledPage(msgspec.Struct):
    """A stretch of a queue."""

    messages: list[PulledMessage]
    next_offset: int


class TopicReader(OpenCalls):
    """Reads all queues of a topic, from the end or from the beginning on."""

    async def read(
        self,
        topic: str,
        take: Take,
        say: Say,
        begun: Callable[[], None],
        *,
        replay: bool,
    ) -> None:
        """Until it is cancelled. `take` is given each message, in the order of its
        queue, that comes after `begun` was called; `say` is told what keeps us waiting.
        """
        described, waited = await self._described(topic, say, begun)
        begin = replay or waited  # whoever waited for the topic wants its first message
        following = [
            self._follow(
                topic,
                queue.queue,
                queue.min_offset if begin else queue.max_offset,
                take,
                say,
            )
            for queue in described.queue_offsets
        ]
        await asyncio.gather(*following)

    async def _described(
        self, topic: str, say: Say, begun: Callable[[], None]
    ) -> tuple[TopicBody, bool]:
        waited = False
        while True:
            try:
                found = await self._read(f"/v1/topics/{escaped(topic)}")
                if not waited:
                    begun()
                return found.read(TopicBody), waited
            except NotFound:
                if not waited:
                    begun()
                    say(f"topic {topic} is empty so far; waiting")
                waited = True
                await asyncio.sleep(LOOK_AGAIN_S)

    async def _follow(
        self, topic: str, queue: int, offset: int, take: Take, say: Say
    ) -> None:
        path = f"/v1/topics/{escaped(topic)}/queues/{queue}/messages"
        is_away = False
        while True:
            query = {
                "offset": str(offset),
                "max": str(_COUNT_MAX),
                "wait_ms": str(POLL // timedelta(milliseconds=1)),
            }
            try:
                page = (await self._read(path, query, POLL)).read(PulledPage)
            except (ServerUnreachable, OutcomeUnknown) as error:
                if not is_away:
                    say(f"{error}; waiting")
                is_away = True
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            is_away = False
            for pulled in page.messages:
                await take(pulled.message())
            offset = page.next_offset


def _ms(moment: datetime | None) -> int:
    if moment is None:
        return 0
    return (moment - _EPOCH) // timedelta(milliseconds=1)

"""Reading a queue by offset, without a group."""

from typing import Final

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.consume import WAIT_MS_MAX
from halfpast_api.long_poll import LongPolls
from halfpast_api.message_view import PulledView, view_messages
from halfpast_api.problems import Refusal
from halfpast_api.topic_directory import TopicDirectory
from halfpast_api.wanted_messages import FILTER_TYPES, parse_wanted
from halfpast_core_store.broker import Broker, Pull, Pulled
from halfpast_core_store.errors import OffsetOutOfRange

_COUNT_MAX: Final = 1000
_QUEUE_LENGTH_MAX: Final = 5


class PullHandlers:
    """The handler for pulls."""

    def __init__(
        self, broker: Broker, directory: TopicDirectory, polls: LongPolls
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._polls = polls

    async def pull(self, call: Call) -> Answer:
        """GET /v1/topics/{topic}/queues/{queue}/messages

        Without an offset from the first message that the queue still holds. With a
        filter `next_offset` is behind all that was looked at.
        """
        topic, queue = call.parameters
        query = call.query("offset", "max", "wait_ms", "filter", "filter_type")
        wait_ms = query.integer("wait_ms", 0, 0, WAIT_MS_MAX)
        filter_type = query.choice("filter_type", "tag", FILTER_TYPES)
        wanted = parse_wanted(query.text("filter"), filter_type)
        request = Pull(
            topic=topic,
            queue=_queue_number(queue),
            offset=query.integer("offset", 0, 0),
            count=query.integer("max", 32, 1, _COUNT_MAX),
            wait_ms=0 if self._polls.stopping else wait_ms,
            tags=wanted.tags,
            filter=wanted.expression,
        )
        await self._directory.to_read(topic)
        try:
            pulled = await self._pull(call, request)
        except OffsetOutOfRange as error:
            if query.text("offset") is not None:
                raise
            request.offset = error.offset_min
            pulled = await self._pull(call, request)
        view = PulledView(
            messages=view_messages(
                pulled.messages, topic, call.answer_form, call.access.namespace
            ),
            next_offset=pulled.next_offset,
            min_offset=pulled.offset_min,
            max_offset=pulled.offset_max,
        )
        return call.answer(200, view)

    async def _pull(self, call: Call, request: Pull) -> Pulled:
        work = self._broker.pull(request)
        if not request.wait_ms:
            return await work
        pulled = await self._polls.wait(call.connection, work)
        if pulled is None:  # the server is stopping: the same without waiting
            request.wait_ms = 0
            pulled = await self._broker.pull(request)
        return pulled


def _queue_number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= _QUEUE_LENGTH_MAX:
        return int(text)
    raise Refusal(
        "invalid_parameter",
        f"{text[:40]!r} is not the number of a queue; queues are counted from 0",
    )

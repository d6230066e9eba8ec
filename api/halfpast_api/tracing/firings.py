"""Spans of firings: a delayed event has become a message.

The Delay Server tells what has become durable; that costs it a look at the properties.
The spans are made beside it, and dropped where there are too many.
"""

import asyncio
import time
from collections import deque
from typing import Final, NamedTuple

import structlog
from opentelemetry.trace import SpanKind

from halfpast_api.event_id import id_text
from halfpast_api.push.endpoint_name import split_stored
from halfpast_api.tracing.trace_context import (
    TraceContext,
    context_in,
    firing_of,
    packed_properties,
)
from halfpast_api.tracing.tracing import Tracing
from halfpast_core_store.broker import Append, Broker, TopicNames
from halfpast_core_store.errors import CoreError
from halfpast_core_store.record import HEADER

NS_PER_MS: Final = 1_000_000
WAITING_MAX: Final = 10_000
SLICE_COUNT: Final = 50
TOPICS_MAX: Final = 10_000

log = structlog.get_logger("halfpast.tracing")


class Fired(NamedTuple):
    """An event whose delivery is durable."""

    topic_id: int
    event_id: bytes
    due_ms: int
    fired_ns: int
    origin: TraceContext


class FiringTraces:
    """Takes what has fired, and makes spans of it until it is closed."""

    def __init__(self, tracing: Tracing, broker: Broker) -> None:
        self._tracing = tracing
        self._broker = broker
        self._waiting: deque[Fired] = deque(maxlen=WAITING_MAX)
        self._came = asyncio.Event()
        self._names: dict[int, str] = {}
        self._closing = False
        self._task = asyncio.create_task(self._work())

    def fired(self, request: Append) -> None:
        """This request, which brings messages to their queues, is durable."""
        now_ns = time.time_ns()
        for run in request.runs:
            for record in run.records:
                origin = context_in(packed_properties(record))
                if origin is not None and origin.is_sampled:
                    header = HEADER.unpack_from(record)
                    self._waiting.append(
                        Fired(run.topic_id, header[6], header[8], now_ns, origin)
                    )
        if self._waiting:
            self._came.set()

    async def _work(self) -> None:
        while not self._closing:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                count = min(SLICE_COUNT, len(self._waiting))
                some = [self._waiting.popleft() for _ in range(count)]
                await self._learn({it.topic_id for it in some})
                for it in some:
                    self._make(it)

    async def _learn(self, topic_ids: set[int]) -> None:
        unknown = sorted(topic_ids - self._names.keys())
        if not unknown:
            await asyncio.sleep(0)
            return
        if len(self._names) + len(unknown) > TOPICS_MAX:
            self._names.clear()
        try:
            found = await self._broker.topics_by_id(TopicNames(unknown))
        except CoreError as error:
            log.warning("topics of spans are not known", error=str(error))
            return
        self._names |= {topic.id: topic.name for topic in found.topics if topic}

    def _make(self, fired: Fired) -> None:
        namespace, topic = split_stored(self._names.get(fired.topic_id, ""))
        due_ns = min(fired.due_ms * NS_PER_MS, fired.fired_ns)
        attributes: dict[str, str | int | float | bool] = {
            "messaging.operation.name": "fire",
            "messaging.message.id": id_text(fired.event_id),
            "messaging.destination.name": topic,
            "halfpast.lateness_ms": (fired.fired_ns - due_ns) / NS_PER_MS,
        }
        if namespace:
            attributes["halfpast.namespace"] = namespace
        span = self._tracing.begin(
            f"fire {topic}".rstrip(),
            SpanKind.PRODUCER,
            attributes,
            links=[fired.origin],
            ids=firing_of(fired.event_id, is_sampled=True),
            started_ns=due_ns,
        )
        span.end(fired.fired_ns)

    async def close(self) -> None:
        """Make spans of what is there, and of no more."""
        self._closing = True
        self._came.set()
        await asyncio.gather(self._task, return_exceptions=True)

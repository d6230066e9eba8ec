"""OpenTelemetry in the SDK: only loaded by `Client(tracing=True)`.

    publish   a span of its own, whose context goes into the event's properties as
              `traceparent` (and `tracestate`), and into the request's headers
    handle    a span around the handler, *linked* to that of the publication and to the
              server's span of the firing: what lies between may be months, so the one
              is no part of the other

Spans go where your program's tracer provider sends them, or the one that is given in
place of True; without any, nowhere.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from halfpast.model import Message, NewEvent, Published

Sent = TypeVar("Sent")

_SYSTEM = {"messaging.system": "halfpast"}
_W3C = TraceContextTextMapPropagator()


class Traces:
    """What a client with `tracing=True` does more than others."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        """Without a provider, the program's own."""
        self._tracer = trace.get_tracer("halfpast.client", tracer_provider=provider)

    def headers(self) -> dict[str, str]:
        """The context that a request is made in."""
        found: dict[str, str] = {}
        propagate.inject(found)
        return found

    def stamped(self, event: NewEvent) -> NewEvent:
        """The event with the present context in its properties; one that brings its own
        keeps it."""
        given = event.properties or {}
        if "traceparent" in given:
            return event
        found: dict[str, str] = {}
        _W3C.inject(found)
        return replace(event, properties={**given, **found}) if found else event

    async def publish(
        self, event: NewEvent, send: Callable[[NewEvent], Awaitable[Published]]
    ) -> Published:
        """Send an event within a span of its own."""
        with self._publishing(event.topic, 1) as span:
            published = await send(self.stamped(event))
            span.set_attribute("messaging.message.id", published.id)
            return published

    async def publish_all(
        self,
        events: Sequence[NewEvent],
        send: Callable[[Sequence[NewEvent]], Awaitable[Sent]],
    ) -> Sent:
        """Send many within one span."""
        topics = {event.topic for event in events}
        topic = topics.pop() if len(topics) == 1 else ""
        with self._publishing(topic, len(events)):
            return await send([self.stamped(event) for event in events])

    @contextmanager
    def _publishing(self, topic: str, count: int) -> Generator[trace.Span]:
        attributes: dict[str, str | int] = {
            **_SYSTEM,
            "messaging.operation.name": "publish",
        }
        if topic:
            attributes["messaging.destination.name"] = topic
        if count != 1:
            attributes["messaging.batch.message_count"] = count
        with self._tracer.start_as_current_span(
            f"publish {topic}".rstrip(), kind=SpanKind.PRODUCER, attributes=attributes
        ) as span:
            yield span

    @contextmanager
    def handling(self, group: str, message: Message) -> Generator[None]:
        """A span around the handler of a message, linked to where that comes from."""
        with self._tracer.start_as_current_span(
            f"process {message.topic}",
            kind=SpanKind.CONSUMER,
            attributes={
                **_SYSTEM,
                "messaging.operation.name": "process",
                "messaging.destination.name": message.topic,
                "messaging.consumer.group.name": group,
                "messaging.message.id": message.id,
                "halfpast.attempt": message.attempt,
            },
            links=[Link(it) for it in _origins(message)],
        ):
            yield


def _origins(message: Message) -> list[SpanContext]:
    """Where it was published, and where it was fired if it was delayed."""
    published = _published(message.properties)
    if published is None:
        return []
    if message.deliver_at is None:
        return [published]
    return [published, firing_context(message.id, published.trace_flags)]


def _published(properties: Mapping[str, str]) -> SpanContext | None:
    context = _W3C.extract(dict(properties))
    found = trace.get_current_span(context).get_span_context()
    in_properties = "traceparent" in properties
    return found if in_properties and found.is_valid else None


def firing_context(event_id: str, flags: TraceFlags) -> SpanContext:
    """The server's span of the firing: its ids follow from the event's."""
    raw = UUID(event_id).bytes
    span_id = blake2b(raw, digest_size=8, person=b"fire").digest()
    return SpanContext(
        int.from_bytes(raw, "big"),
        int.from_bytes(span_id, "big"),
        is_remote=True,
        trace_flags=flags,
    )

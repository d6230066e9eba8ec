"""Spans of calls to endpoints. The endpoint is told by the header `traceparent`."""

from collections.abc import Awaitable, Callable, Mapping

from opentelemetry.trace import SpanKind, Status, StatusCode

from halfpast_api.access.redaction import redact_text
from halfpast_api.push.call_result import CallResult
from halfpast_api.push.envelope import Message, shown_topic
from halfpast_api.tracing.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    firing_of,
    read_traceparent,
)
from halfpast_api.tracing.tracing import Tracing, context_of

Call = Callable[[Mapping[str, str]], Awaitable[CallResult]]


class AttemptTraces:
    """See `push.attempt_trace.AttemptTrace`."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def around(
        self, message: Message, endpoint: str, attempt: int, call: Call
    ) -> CallResult:
        """Make the call, with what goes into its headers."""
        origin = read_traceparent(message.properties.get(TRACEPARENT, ""))
        if origin is None or not origin.is_sampled:
            return await call({})
        links = [origin]
        if message.record.due_ms:
            links.append(firing_of(message.record.event_id, is_sampled=True))
        topic = shown_topic(message)
        span = self._tracing.begin(
            f"push {topic}",
            SpanKind.CLIENT,
            {
                "messaging.operation.name": "push",
                "messaging.message.id": message.event_id,
                "messaging.destination.name": topic,
                "messaging.destination.subscription.name": endpoint,
                "halfpast.attempt": attempt,
            },
            links=links,
        )
        headers = {TRACEPARENT: context_of(span).traceparent}
        if state := message.properties.get(TRACESTATE):
            headers[TRACESTATE] = state
        try:
            found = await call(headers)
            span.set_attribute("halfpast.result", found.result.value)
            if found.status:
                span.set_attribute("http.response.status_code", found.status)
            if not found.is_delivered:
                span.set_status(Status(StatusCode.ERROR, redact_text(found.error)))
            return found
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            span.end()

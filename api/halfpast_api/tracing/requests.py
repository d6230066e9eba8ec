"""Spans of requests that bring something in or change what is scheduled.

What such a request stores bears its trace in the properties, unless it brought its own.
Requests that look or consume have none: they are many, wait on purpose, and say little.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from aiohttp import web
from multidict import istr
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from halfpast_api.access.verbs import Verb
from halfpast_api.answer import Answer
from halfpast_api.problems import Refusal
from halfpast_api.router import Route, Router
from halfpast_api.tracing.request_trace import REQUEST_TRACE, packed_trace
from halfpast_api.tracing.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    of_object,
    read_traceparent,
)
from halfpast_api.tracing.tracing import Tracing, context_of, link_to

Handler = Callable[[web.BaseRequest], Awaitable[Answer]]

_TRACED: Final = frozenset({Verb.PUBLISH, Verb.SCHEDULE})
_TRANSACTIONS: Final = "/v1/transactions"
_PARENT: Final = istr(TRACEPARENT)
_STATE: Final = istr(TRACESTATE)
_STATE_SIZE_MAX: Final = 512
_FAILED: Final = 500


class TracedRequests:
    """Answers as `handler` does, within spans."""

    def __init__(self, handler: Handler, router: Router, tracing: Tracing) -> None:
        self._handler = handler
        self._router = router
        self._tracing = tracing

    async def __call__(self, request: web.BaseRequest) -> Answer:
        try:
            route, parameters = self._router.find(request.method, request.raw_path)
        except Refusal:
            return await self._handler(request)
        if route.verb not in _TRACED:
            return await self._handler(request)
        attributes = {
            "http.request.method": route.method,
            "http.route": route.template,
            "messaging.operation.name": route.verb.value,
        }
        if route.topic_at >= 0:
            attributes["messaging.destination.name"] = parameters[route.topic_at]
        span = self._tracing.begin(
            f"{route.method} {route.template}",
            SpanKind.SERVER,
            attributes,
            parent=read_traceparent(request.headers.get(_PARENT, "").strip()),
        )
        values = {TRACEPARENT: context_of(span).traceparent}
        state = request.headers.get(_STATE, "")
        if 0 < len(state) <= _STATE_SIZE_MAX and state.isprintable():
            values[TRACESTATE] = state
        token = REQUEST_TRACE.set(packed_trace(values))
        try:
            answer = await self._handler(request)
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        else:
            _tell(span, route, parameters, answer)
            return answer
        finally:
            REQUEST_TRACE.reset(token)
            span.end()


def _tell(span: Span, route: Route, parameters: Sequence[str], answer: Answer) -> None:
    span.set_attribute("http.response.status_code", answer.status)
    if answer.request_id:
        span.set_attribute("halfpast.request_id", answer.request_id)
    if answer.status >= _FAILED:
        span.set_status(Status(StatusCode.ERROR))
    location = answer.extra("Location")
    if route.method == "POST" and route.template.endswith("/events") and location:
        is_scheduled = bool(answer.extra("ETag"))
        operation = Verb.SCHEDULE if is_scheduled else Verb.PUBLISH
        span.set_attribute("messaging.operation.name", operation.value)
        span.set_attribute("messaging.message.id", location.rpartition("/")[2])
    if route.template.startswith(_TRANSACTIONS):
        named = location or (parameters[0] if parameters else "")
        transaction = transaction_span(named.rpartition("/")[2], is_sampled=True)
        if transaction is not None:
            link_to(span, transaction)


def transaction_span(text: str, *, is_sampled: bool) -> TraceContext | None:
    """Where the check-backs of a transaction have their trace: under its own id."""
    try:
        transaction_id = UUID(text).bytes
    except ValueError:
        return None
    return of_object(transaction_id, b"transaction", is_sampled=is_sampled)

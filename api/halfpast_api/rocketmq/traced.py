"""Spans of calls that bring something in, as HTTP requests have them.

The trace of a message is the one that it bears (`trace_context`, as W3C has it), or
that of the call. What is stored bears it on, so the spans of its firing, of calls to
endpoints and of check-backs lie in one picture with it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import SpanKind, Status, StatusCode

from halfpast_api.rocketmq.protocol import Code
from halfpast_api.tracing.request_trace import REQUEST_TRACE, packed_trace
from halfpast_api.tracing.requests import transaction_span
from halfpast_api.tracing.trace_context import TRACEPARENT, read_traceparent
from halfpast_api.tracing.tracing import context_of, link_to
from halfpast_core_store.topics import NAME_LENGTH_MAX

if TYPE_CHECKING:
    from halfpast_api.tracing.tracing import Tracing

_OPERATIONS: Final = {
    "SendMessage": "publish",
    "EndTransaction": "publish",
    "RecallMessage": "schedule",
}
_ENDS: Final = "EndTransaction"


class TracedCalls:
    """Makes calls within spans."""

    def __init__(self, tracing: "Tracing") -> None:
        self._tracing = tracing

    async def __call__(
        self,
        method: str,
        metadata: Mapping[str, str],
        request: Any,
        work: Callable[[], Awaitable[Any]],
    ) -> Any:
        """What `work` gives, which answers this call."""
        operation = _OPERATIONS.get(method)
        if operation is None:
            return await work()
        topic, borne = _told(method, request)
        attributes = {
            "rpc.system": "grpc",
            "rpc.service": "apache.rocketmq.v2.MessagingService",
            "rpc.method": method,
            "messaging.operation.name": operation,
            "messaging.destination.name": topic[:NAME_LENGTH_MAX],
        }
        if client_id := metadata.get("x-mq-client-id", ""):
            attributes["messaging.client.id"] = client_id
        span = self._tracing.begin(
            f"rocketmq {method}",
            SpanKind.SERVER,
            attributes,
            parent=read_traceparent(borne or metadata.get(TRACEPARENT, "")),
        )
        values = {TRACEPARENT: context_of(span).traceparent}
        token = REQUEST_TRACE.set(packed_trace(values))
        try:
            answer = await work()
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        else:
            code = answer.status.code
            span.set_attribute("rocketmq.status", Code.Name(code))
            named = request.transaction_id if method == _ENDS else ""
            transaction = transaction_span(named, is_sampled=True)
            if transaction is not None:
                link_to(span, transaction)
            return answer
        finally:
            REQUEST_TRACE.reset(token)
            span.end()


def _told(method: str, request: Any) -> tuple[str, str]:
    """The topic, and the trace that the first message bears."""
    if method != "SendMessage":
        return request.topic.name, ""
    if not request.messages:
        return "", ""
    first = request.messages[0]
    return first.topic.name, first.system_properties.trace_context

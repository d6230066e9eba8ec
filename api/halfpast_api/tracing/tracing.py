"""Spans of one process, and where they go.

Exported in the background by a thread, in batches; when the collector does not keep up
or is away, spans are dropped, and nothing waits for it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)

from halfpast_api.tracing.derived_ids import DerivedIds
from halfpast_api.tracing.trace_context import TraceContext

SYSTEM: Final = {"messaging.system": "halfpast"}
Attributes = Mapping[str, str | int | float | bool]


class Tracing:
    """Begins spans for a process named `service`."""

    def __init__(self, service: str, processor: SpanProcessor | None = None) -> None:
        """Without a processor, to where the environment says: OTEL_EXPORTER_OTLP_…."""
        self._ids = DerivedIds()
        self._provider = TracerProvider(
            resource=_resource(service),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            processor or BatchSpanProcessor(OTLPSpanExporter())
        )
        self._tracer = self._provider.get_tracer("halfpast", version("halfpast"))

    def begin(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        *,
        parent: TraceContext | None = None,
        links: Sequence[TraceContext] = (),
        ids: TraceContext | None = None,
        started_ns: int | None = None,
    ) -> Span:
        """A span, to be ended. With a `parent` it is of that one's trace; otherwise it
        begins one, with these `ids` if some are given."""
        context = Context() if parent is None else _inside(parent)
        linked = [Link(_span_context(it)) for it in links]
        if ids is None or parent is not None:
            return self._tracer.start_span(
                name, context, kind, {**SYSTEM, **attributes}, linked, started_ns
            )
        with self._ids.given(ids):
            return self._tracer.start_span(
                name, context, kind, {**SYSTEM, **attributes}, linked, started_ns
            )

    async def close(self) -> None:
        """Send what is left, for some seconds at most."""
        await asyncio.to_thread(self._provider.shutdown)


def context_of(span: Span) -> TraceContext:
    """By which others may know it."""
    found = span.get_span_context()
    is_sampled = bool(found.trace_flags & TraceFlags.SAMPLED)
    return TraceContext(found.trace_id, found.span_id, is_sampled)


def link_to(span: Span, other: TraceContext) -> None:
    """Say that they belong together."""
    span.add_link(_span_context(other))


def _inside(parent: TraceContext) -> Context:
    return set_span_in_context(NonRecordingSpan(_span_context(parent)), Context())


def _span_context(context: TraceContext) -> SpanContext:
    flags = TraceFlags.SAMPLED if context.is_sampled else TraceFlags.DEFAULT
    return SpanContext(
        context.trace_id, context.span_id, is_remote=True, trace_flags=TraceFlags(flags)
    )


def _resource(service: str) -> Resource:
    """What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say counts more."""
    found = Resource.create({SERVICE_VERSION: version("halfpast")})
    name = str(found.attributes.get(SERVICE_NAME, ""))
    if name and not name.startswith("unknown_service"):
        return found
    return found.merge(Resource({SERVICE_NAME: f"halfpast-{service}"}))

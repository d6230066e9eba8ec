"""Ids of traces and spans: random ones, or those that the next span is given."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from halfpast_api.tracing.trace_context import TraceContext


class DerivedIds(RandomIdGenerator):
    """See above. Spans are begun on the event loop alone, one at a time."""

    def __init__(self) -> None:
        self._given: TraceContext | None = None

    @contextmanager
    def given(self, ids: TraceContext) -> Generator[None]:
        """The root span that is begun within has these ids."""
        self._given = ids
        try:
            yield
        finally:
            self._given = None

    def generate_trace_id(self) -> int:
        if self._given is not None:
            return self._given.trace_id
        return super().generate_trace_id()

    def generate_span_id(self) -> int:
        if self._given is not None:
            return self._given.span_id
        return super().generate_span_id()

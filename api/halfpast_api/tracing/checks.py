"""Spans of check-backs by HTTP: all of a transaction are in the trace of its id."""

from opentelemetry.trace import SpanKind, Status, StatusCode

from halfpast_api.tracing.requests import transaction_span
from halfpast_api.tracing.trace_context import read_traceparent
from halfpast_api.tracing.tracing import Tracing
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.status import transaction_text
from halfpast_txn.transactions import Check
from halfpast_txn.transport import CheckTransport, Verdict
from halfpast_txn.words import ANSWER_WORDS


class TracedChecks:
    """A `CheckTransport` that asks by another one, within spans."""

    def __init__(self, transport: CheckTransport, tracing: Tracing) -> None:
        self._transport = transport
        self._tracing = tracing
        self.counters = transport.counters
        self.gauges = transport.gauges
        self.close = transport.close

    async def ask(self, endpoint: CheckEndpoint, check: Check) -> Verdict:
        """One question; see `CheckTransport.ask`."""
        begun = next((it.trace for it in check.messages if it.trace), "")
        origin = read_traceparent(begun)
        if origin is None or not origin.is_sampled:
            return await self._transport.ask(endpoint, check)
        transaction = transaction_text(check.transaction_id)
        span = self._tracing.begin(
            f"check-back {check.group}",
            SpanKind.CLIENT,
            {
                "messaging.operation.name": "check-back",
                "halfpast.transaction": transaction,
                "halfpast.producer_group": check.group,
                "halfpast.check": check.check,
            },
            parent=transaction_span(transaction, is_sampled=True),
            links=[origin],
        )
        try:
            verdict = await self._transport.ask(endpoint, check)
            span.set_attribute("halfpast.answer", ANSWER_WORDS[verdict.state])
            if verdict.cause:
                span.set_status(Status(StatusCode.ERROR, verdict.cause))
            return verdict
        finally:
            span.end()

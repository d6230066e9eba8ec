"""Spans of RocketMQ clients' calls, and the trace that messages bear on."""

from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.message_in import read_message
from halfpast_api.rocketmq.statuses import CallRefused
from halfpast_api.rocketmq.traced import TracedCalls
from halfpast_api.topic_directory import Topic
from halfpast_api.tracing.tracing import Tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
BORNE = f"00-{TRACE}-b7ad6b7169203331-01"
TOPIC = Topic("t", 1024, 4, 1000, 1000, is_durable=True, stale_at_s=0.0)


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traced(exporter: InMemorySpanExporter) -> TracedCalls:
    return TracedCalls(Tracing("test", SimpleSpanProcessor(exporter)))


def sending(trace_context: str = "") -> wire.SendMessageRequest:
    message = wire.Message(topic=wire.Resource(name="t"), body=b"x")
    message.system_properties.message_id = "m"
    if trace_context:
        message.system_properties.trace_context = trace_context
    return wire.SendMessageRequest(messages=[message])


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


async def ok() -> Any:
    return wire.SendMessageResponse(status=wire.Status(code=wire.Code.OK))


@pytest.mark.asyncio
async def test_what_is_stored_bears_the_trace_of_its_message(
    traced: TracedCalls, exporter: InMemorySpanExporter
) -> None:
    request = sending(BORNE)
    stored: dict[str, str] = {}

    async def store() -> Any:
        draft = read_message(request.messages[0], TOPIC, 0)
        stored.update(msgspec.msgpack.decode(draft.packed_properties()))
        return await ok()

    await traced("SendMessage", {}, request, store)
    span = only(exporter)
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert stored["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert span.attributes is not None
    assert span.attributes["messaging.destination.name"] == "t"
    assert span.attributes["rocketmq.status"] == "OK"


@pytest.mark.asyncio
async def test_the_trace_of_the_call_counts_otherwise(
    traced: TracedCalls, exporter: InMemorySpanExporter
) -> None:
    await traced("SendMessage", {"traceparent": BORNE}, sending(), ok)
    context = only(exporter).context
    assert context is not None
    assert f"{context.trace_id:032x}" == TRACE


@pytest.mark.asyncio
async def test_what_takes_messages_out_has_no_span(
    traced: TracedCalls, exporter: InMemorySpanExporter
) -> None:
    await traced("AckMessage", {}, wire.AckMessageRequest(), ok)
    assert exporter.get_finished_spans() == ()


@pytest.mark.asyncio
async def test_a_call_that_is_refused_is_told_by_its_span(
    traced: TracedCalls, exporter: InMemorySpanExporter
) -> None:
    async def refused() -> Any:
        raise CallRefused(wire.Code.BAD_REQUEST, "no")

    with pytest.raises(CallRefused):
        await traced("SendMessage", {}, wire.SendMessageRequest(), refused)
    assert not only(exporter).status.is_ok


@pytest.mark.asyncio
async def test_an_outcome_is_linked_to_its_transaction(
    traced: TracedCalls, exporter: InMemorySpanExporter
) -> None:
    request = wire.EndTransactionRequest(
        topic=wire.Resource(name="t"),
        transaction_id="01936f1e-8c00-7abc-8def-012345670000",
    )
    await traced("EndTransaction", {}, request, ok)
    assert len(only(exporter).links) == 1

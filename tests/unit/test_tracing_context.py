"""Trace contexts: read strictly, put into properties, derived from ids."""

import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import TraceFlags

from halfpast.traces import firing_context
from halfpast_api.event_id import id_text
from halfpast_api.tracing.request_trace import packed_trace, with_trace
from halfpast_api.tracing.trace_context import (
    TraceContext,
    context_in,
    firing_of,
    packed_properties,
    read_traceparent,
)
from halfpast_api.tracing.wish import is_wanted
from halfpast_core_store.record import (
    PROPERTIES_SIZE_MAX,
    RecordKind,
    encode_record,
)

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
contexts = st.builds(
    TraceContext,
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.booleans(),
)


def pack(**values: str) -> bytes:
    return msgspec.msgpack.encode(values)


@given(contexts)
def test_a_context_comes_back_from_its_text(context: TraceContext) -> None:
    assert read_traceparent(context.traceparent) == context


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        PARENT[:-1],
        PARENT + "-x",
        PARENT.replace("00-", "ff-", 1),
        PARENT.upper(),
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        PARENT.replace("b7ad6b7169203331", "0" * 16),
        PARENT.replace("b7ad", "b7_d"),
        PARENT.replace("b7ad", "b7é "),
    ],
)
def test_what_is_no_traceparent_is_not_taken_for_one(text: str) -> None:
    assert read_traceparent(text) is None


def test_properties_get_the_trace_of_the_request() -> None:
    trace = packed_trace({"traceparent": PARENT})
    assert with_trace(b"", trace) == trace
    merged = msgspec.msgpack.decode(with_trace(pack(region="eu"), trace))
    assert merged == {"region": "eu", "traceparent": PARENT}


def test_an_event_that_brings_a_trace_keeps_it() -> None:
    own = pack(traceparent="00-…")
    assert with_trace(own, packed_trace({"traceparent": PARENT})) == own
    speaks_of_it = pack(note="traceparent")
    assert with_trace(speaks_of_it, packed_trace({"traceparent": PARENT})) != own


def test_properties_never_grow_beyond_their_limit() -> None:
    full = pack(filling="x" * (PROPERTIES_SIZE_MAX - 20))
    assert len(full) <= PROPERTIES_SIZE_MAX
    assert with_trace(full, packed_trace({"traceparent": PARENT})) == full


def test_a_record_tells_its_trace() -> None:
    record = encode_record(
        RecordKind.NORMAL,
        topic_id=1024,
        key=b"key",
        tag=b"tag",
        properties=pack(region="eu", traceparent=PARENT),
        body=b"traceparent",
    )
    assert context_in(packed_properties(record)) == read_traceparent(PARENT)
    without = encode_record(RecordKind.NORMAL, topic_id=1024, body=b"traceparent")
    assert context_in(packed_properties(without)) is None


@given(st.binary(min_size=16, max_size=16))
def test_client_and_server_agree_on_the_span_of_a_firing(event_id: bytes) -> None:
    ours = firing_of(event_id, is_sampled=True)
    theirs = firing_context(id_text(event_id), TraceFlags(TraceFlags.SAMPLED))
    assert (ours.trace_id, ours.span_id) == (theirs.trace_id, theirs.span_id)
    assert ours.trace_id == int.from_bytes(event_id, "big")


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_says_whether_traces_are_wanted(
    environment: dict[str, str], wanted: bool
) -> None:
    assert is_wanted(environment) is wanted


def test_without_tracing_nothing_of_opentelemetry_is_loaded() -> None:
    code = (
        "import sys, halfpast, halfpast_api.app, halfpast_api.processes\n"
        "halfpast.Client()\n"
        "assert not [it for it in sys.modules if it.startswith('opentelemetry')]"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)

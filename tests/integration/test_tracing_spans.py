"""One event's way as spans, from the SDK through all services to a consumer and an
endpoint, exported to a collector that speaks OTLP over HTTP."""

import asyncio
import gzip
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from aiohttp import ClientSession, web
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.integration.api_server import SMALL_STORE
from tests.integration.push_rig import Receiver, receiver

import halfpast
from halfpast_api.config import ApiConfig
from halfpast_api.one_process import Configs, open_all
from halfpast_api.places import Places
from halfpast_api.push.config import PushConfig
from halfpast_api.tracing.trace_context import read_traceparent
from halfpast_chronos.config import ChronosConfig
from halfpast_txn.address_rules import AllowList
from halfpast_txn.config import TxnConfig

HOME = "127.0.0.1"


@dataclass
class Collected:
    """A span as it came over the wire."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    links: list[tuple[str, str]]
    attributes: dict[str, Any]


@dataclass
class Collector:
    """Takes what exporters send."""

    endpoint: str = ""
    spans: list[Collected] = field(default_factory=list[Collected])
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        message = ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            known = {
                it.key: it.value.string_value for it in resource.resource.attributes
            }
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Collected(
                            span.name,
                            known["service.name"],
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            [
                                (it.trace_id.hex(), it.span_id.hex())
                                for it in span.links
                            ],
                            {
                                it.key: getattr(
                                    it.value, str(it.value.WhichOneof("value"))
                                )
                                for it in span.attributes
                            },
                        )
                    )
        self.came.set()
        return web.Response(content_type="application/x-protobuf")

    async def named(self, beginning: str) -> Collected:
        """The first span whose name begins so."""
        async with asyncio.timeout(30):
            while True:
                for span in self.spans:
                    if span.name.startswith(beginning):
                        return span
                self.came.clear()
                await self.came.wait()


@dataclass
class Rig:
    """A traced suite, who collects from it, and a client with spans of its own."""

    address: str
    collector: Collector
    hook: Receiver
    client: halfpast.Client
    own: InMemorySpanExporter
    provider: TracerProvider
    http: ClientSession

    async def call(self, method: str, path: str, body: object, **headers: str) -> Any:
        url = f"{self.address}{path}"
        async with self.http.request(method, url, json=body, headers=headers) as found:
            assert found.status < 300, await found.text()
            return await found.json()

    def span(self, beginning: str) -> ReadableSpan:
        """One of the client's own."""
        found = self.own.get_finished_spans()
        return next(it for it in found if it.name.startswith(beginning))


@pytest_asyncio.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Rig]:
    async with AsyncExitStack() as stack:
        collector = Collector()
        app = web.Application()
        app.router.add_post("/v1/traces", collector.handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, HOME, 0).start()
        address = f"http://{HOME}:{runner.addresses[0][1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        hook = await stack.enter_async_context(receiver())
        served, _ = await open_all(
            stack,
            Places.below(tmp_path),
            Configs(
                store=SMALL_STORE,
                chronos=ChronosConfig(),
                txn=TxnConfig(),
                check_allow=AllowList.parse(HOME),
                push=PushConfig(wait_ms=500),
                push_allow=AllowList.parse(HOME),
                api=ApiConfig(port=0, push_allow=HOME, check_allow=HOME),
            ),
        )
        own = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(own))
        client = await stack.enter_async_context(
            halfpast.Client(served, tracing=provider)
        )
        http = await stack.enter_async_context(ClientSession())
        yield Rig(served, collector, hook, client, own, provider, http)


def ids(span: ReadableSpan) -> tuple[str, str]:
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def links_of(span: ReadableSpan) -> list[tuple[str, str]]:
    return [
        (f"{it.context.trace_id:032x}", f"{it.context.span_id:016x}")
        for it in span.links
    ]


@pytest.mark.asyncio
async def test_links_lead_from_the_schedule_over_the_firing_to_consumers(
    rig: Rig,
) -> None:
    endpoint = {"url": rig.hook.url, "topics": ["orders"]}
    await rig.call("PUT", "/v1/endpoints/crm", endpoint)
    seen: list[halfpast.Message] = []
    handled = asyncio.Event()

    async def handle(message: halfpast.Message) -> None:
        seen.append(message)
        handled.set()

    published = await rig.client.schedule(
        "orders", {"order": 7}, delay=timedelta(milliseconds=20)
    )
    async with halfpast.Consumer(
        rig.client, "mailer", "orders", handle, poll=timedelta(milliseconds=200)
    ):
        async with asyncio.timeout(30):
            await handled.wait()
        (posted,) = await rig.hook.wait_for(1)
    schedule = ids(rig.span("publish orders"))
    request = await rig.collector.named("POST /v1/topics/{topic}/events")
    assert (request.trace, request.parent) == schedule
    assert request.attributes["messaging.operation.name"] == "schedule"
    assert request.attributes["messaging.message.id"] == published.id
    assert request.service == "halfpast-dev"
    fire = await rig.collector.named("fire orders")
    assert fire.trace == UUID(published.id).hex
    assert (fire.parent, fire.links) == ("", [schedule])
    assert fire.attributes["halfpast.lateness_ms"] >= 0
    assert links_of(rig.span("process orders")) == [schedule, (fire.trace, fire.id)]
    push = await rig.collector.named("push orders")
    assert push.links == [schedule, (fire.trace, fire.id)]
    assert push.attributes["halfpast.result"] == "delivered"
    told = read_traceparent(posted.headers["traceparent"])
    assert told is not None
    assert (f"{told.trace_id:032x}", f"{told.span_id:016x}") == (push.trace, push.id)
    assert seen[0].properties["traceparent"].split("-")[1:3] == [*schedule]
    payloads = [str(it) for it in rig.collector.spans if "7}" in str(it.attributes)]
    assert payloads == []


@pytest.mark.asyncio
async def test_what_does_not_come_by_the_sdk_is_traced_by_its_header(rig: Rig) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await rig.call(
        "POST",
        "/v1/topics/hello/events",
        {"data": 1, "properties": {"region": "eu"}},
        traceparent=parent,
        tracestate="vendor=1",
    )
    span = await rig.collector.named("POST /v1/topics/{topic}/events")
    assert (span.trace, span.parent) == tuple(parent.split("-")[1:3])
    assert span.attributes["messaging.operation.name"] == "publish"
    (message,) = await rig.client.pop("readers", "hello", wait=timedelta(seconds=10))
    assert message.properties == {
        "region": "eu",
        "traceparent": f"00-{span.trace}-{span.id}-01",
        "tracestate": "vendor=1",
    }


@pytest.mark.asyncio
async def test_who_asks_not_to_be_traced_is_not(rig: Rig) -> None:
    unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    body = {"data": 1, "delay_ms": 1}
    await rig.call("POST", "/v1/topics/a/events", body, traceparent=unsampled)
    await rig.call("POST", "/v1/topics/b/events", body)
    await rig.collector.named("fire b")
    assert not [it for it in rig.collector.spans if it.trace == unsampled[3:35]]
    assert not [it for it in rig.collector.spans if it.name == "fire a"]


@pytest.mark.asyncio
async def test_a_check_back_is_linked_to_the_beginning(rig: Rig) -> None:
    rig.hook.answer = lambda _: web.json_response({"state": "rolled_back"})
    await rig.call("PUT", "/v1/producer-groups/shop", {"check_url": rig.hook.url})
    begun = await rig.call(
        "POST",
        "/v1/transactions",
        {
            "producer_group": "shop",
            "messages": [{"topic": "orders", "data": 1}],
            "check_after_ms": 1000,
        },
    )
    request = await rig.collector.named("POST /v1/transactions")
    check = await rig.collector.named("check-back shop")
    assert check.trace == UUID(begun["id"]).hex
    assert check.links == [(request.trace, request.id)]
    assert request.links == [(check.trace, check.parent)]
    assert check.attributes["halfpast.answer"] == "rolled_back"


@pytest.mark.asyncio
async def test_contexts_go_along_into_threads_and_out_of_them(rig: Rig) -> None:
    seen: list[tuple[int, int]] = []

    def handle(_: halfpast.Message) -> None:
        context = trace.get_current_span().get_span_context()
        seen.append((context.trace_id, context.span_id))

    def work() -> None:
        tracer = rig.provider.get_tracer("test")
        with (
            halfpast.SyncClient(rig.address, tracing=rig.provider) as client,
            tracer.start_as_current_span("outer"),
        ):
            client.publish("threads", 1)
            with client.transaction("shop") as tx:
                tx.send("bought", 1)

    await asyncio.to_thread(work)
    outer = ids(rig.span("outer"))
    published = rig.span("publish threads")
    assert published.parent is not None
    assert f"{published.parent.span_id:016x}" == outer[1]
    (bought,) = await rig.client.pop("readers", "bought", wait=timedelta(seconds=10))
    assert bought.properties["traceparent"].split("-")[1:3] == [*outer]
    async with halfpast.Consumer(
        rig.client, "mailer", "threads", handle, poll=timedelta(milliseconds=200)
    ) as consumer:
        async with asyncio.timeout(30):
            while not consumer.handled:  # noqa: ASYNC110 (the consumer's own count)
                await asyncio.sleep(0.01)
    handled = ids(rig.span("process threads"))
    assert [(f"{it[0]:032x}", f"{it[1]:016x}") for it in seen] == [handled]

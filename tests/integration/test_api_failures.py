"""Bad days behind the API: what callers are told, and what goes on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs
from tests.integration.api_server import Api, real_services, serve
from tests.integration.api_stub import StubServices

from halfpast_chronos.errors import UnknownEvent
from halfpast_core_store.errors import (
    CoreError,
    Overloaded,
    RequestTooLarge,
    StoreFailed,
    StoreFull,
)
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable

pytestmark = pytest.mark.asyncio
EVENTS = "/v1/topics/orders/events"


@pytest_asyncio.fixture
async def services() -> StubServices:
    return StubServices()


@pytest_asyncio.fixture
async def api(services: StubServices, tmp_path: Path) -> AsyncIterator[Api]:
    async with serve(*services.all, tmp_path) as api:
        yield api


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (Overloaded("send", 1500), 503, "overloaded", "2"),
        (StoreFull(1), 507, "store_full", None),
        (StoreFailed("fsync"), 503, "store_failed", "1"),
        (RequestTooLarge(2, 1), 413, "request_too_large", None),
        (Unavailable("unix:/x", "gone"), 503, "unavailable", "1"),
        (ConnectionLost("unix:/x", "gone"), 503, "connection_lost", "1"),
        (ConnectionResetError("gone"), 503, "connection_lost", "1"),
        (TimeoutError(), 503, "connection_lost", "1"),
    ],
)
async def test_an_error_of_the_store_is_told(
    api: Api,
    services: StubServices,
    error: Exception,
    status: int,
    code: str,
    retry_after: str | None,
) -> None:
    services.error = error
    with capture_logs() as logs:
        reply = await api.post(EVENTS, {"data": 1})
    assert (reply.status, reply.code) == (status, code)
    assert reply.headers.get("Retry-After") == retry_after
    assert logs == []
    batch = await api.post("/v1/events:batch", {"events": [{"topic": "a", "data": 1}]})
    assert batch.code == code


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), CoreError("odd")])
async def test_an_unexpected_error_is_logged_once_and_not_shown(
    api: Api, services: StubServices, error: Exception
) -> None:
    services.error = error
    with capture_logs() as logs:
        reply = await api.post(EVENTS, {"data": 1}, headers={"X-Request-Id": "r-1"})
    assert (reply.status, reply.code) == (500, "internal")
    assert "oops" not in reply.content.decode()
    (entry,) = logs
    assert (entry["event"], entry["request_id"]) == ("request_failed", "r-1")
    assert entry["exc_info"] is error
    services.error = None
    assert (await api.post(EVENTS, {"data": 1})).status == 201


async def test_being_ready_needs_the_services(api: Api, services: StubServices) -> None:
    services.gauges["store_writable"] = 0.0
    reply = await api.get("/readyz")
    assert (reply.status, reply.body["broker"]) == (200, "read_only")
    services.gauges["delay_server_ready"] = 0.0
    reply = await api.get("/readyz")
    assert (reply.status, reply.code) == (503, "not_ready")
    assert "catching up" in reply.body["detail"]
    assert reply.headers["Retry-After"] == "1"
    services.error = Unavailable("unix:/x", "gone")
    assert "unix:/x is unavailable" in (await api.get("/readyz")).body["detail"]
    assert (await api.get("/healthz")).status == 200
    text = (await api.get("/metrics")).content.decode()
    assert 'halfpast_up{service="broker"} 0.0' in text


async def test_a_service_that_hangs_makes_it_unready_not_hang(
    api: Api, services: StubServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(request: object) -> Any:
        await asyncio.sleep(60)

    monkeypatch.setattr(services, "status", hang)
    reply = await api.get("/readyz")
    assert reply.code == "not_ready"
    assert "no answer within 2 s" in reply.body["detail"]


async def test_an_error_of_the_delay_server_is_told(
    api: Api, services: StubServices
) -> None:
    event_id = "01936f1e-8c00-7abc-8def-0123456789ab"
    services.error = UnknownEvent(event_id)
    reply = await api.get(f"/v1/events/{event_id}")
    assert (reply.status, reply.code) == (404, "unknown_event")
    services.error = None
    assert (await api.get(f"/v1/events/{event_id}")).code == "unknown_event"


async def test_events_flow_while_the_metadata_is_away(tmp_path: Path) -> None:
    away = tmp_path / "nowhere"
    async with (
        real_services(tmp_path) as services,
        serve(*services, away) as api,
    ):
        await api.publish("orders", data=1, delay_ms=1)
        assert len(await api.pop("g", "orders", wait_ms=5000)) == 1
        ready = await api.get("/readyz")
        assert (ready.status, ready.body["metadata"]) == (200, "stale")
        reply = await api.put("/v1/topics/orders", {"queues": 8})
        assert (reply.status, reply.code) == (503, "metadata_unavailable")
        assert (await api.get("/v1/topics")).body["topics"][0]["name"] == "orders"

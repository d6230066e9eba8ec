"""Under overload what brings work is refused at once, and the rest gets through."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, Reply, serve
from tests.integration.api_stub import StubServices

from halfpast_api.config import ApiConfig, BodyLimits
from halfpast_api.load.overload_config import OverloadConfig
from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.errors import Overloaded

pytestmark = pytest.mark.asyncio
ROOM = 3
EVENTS = "/v1/topics/orders/events"
EVENT = {"data": 1}
WHOLE = (
    b"POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\n"
    b"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
    b'{"data":1}'
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b'{"data":"' + b"x" * 500_000 + b'"}'


class SlowStore(StubServices):
    """A broker that stores nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()
        self.waiting = 0
        self.callers: list[asyncio.Task[Reply]] = []

    async def append(self, request: Append) -> Appended:
        self.waiting += 1
        try:
            await self.may_go_on.wait()
        finally:
            self.waiting -= 1
        return await super().append(request)


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest_asyncio.fixture
async def api(tmp_path: Path, store: SlowStore) -> AsyncIterator[Api]:
    overload = OverloadConfig(
        units_min=ROOM, units_first=ROOM, units_max=ROOM, interval_ms=10_000
    )
    config = ApiConfig(port=0, overload=overload, bodies=BodyLimits())
    async with serve(*store.all, tmp_path, config) as api:
        yield api
        store.may_go_on.set()
        await asyncio.gather(*store.callers, return_exceptions=True)


async def fill(api: Api, store: SlowStore) -> list[asyncio.Task[Reply]]:
    """As much under way as may be."""
    tasks = [asyncio.create_task(api.post(EVENTS, EVENT)) for _ in range(ROOM)]
    store.callers += tasks
    async with asyncio.timeout(10):
        while store.waiting < ROOM:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return tasks


async def metric(api: Api, name: str) -> float:
    text = (await api.get("/metrics")).content.decode()
    found = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(found[0].rpartition(" ")[2])


REFUSED = 'halfpast_http_refused_total{code="overloaded",status="503"}'


async def test_what_is_too_much_is_refused_and_what_was_taken_is_stored(
    api: Api, store: SlowStore
) -> None:
    tasks = await fill(api, store)
    reply = await api.post(EVENTS, EVENT)
    assert reply.code == "overloaded"
    assert reply.body["retryable"] is True
    assert reply.headers["Retry-After"] == "1"
    assert store.waiting == ROOM
    assert await metric(api, "halfpast_http_work_units") == ROOM
    store.may_go_on.set()
    assert [it.status for it in await asyncio.gather(*tasks)] == [201] * ROOM
    assert len(store.appended) == ROOM
    assert (await api.post(EVENTS, EVENT)).status == 201
    assert await metric(api, "halfpast_http_work_units") == 0


async def test_a_refused_request_leaves_its_connection_as_it_was(
    api: Api, store: SlowStore
) -> None:
    """It is answered unparsed; what comes behind it is answered in turn."""
    await fill(api, store)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    try:
        for _ in range(3):
            writer.write(WHOLE)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"Connection: close" not in head
            size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            assert b'"overloaded"' in await reader.readexactly(size)
            writer.write(HEALTH)
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(15)
        assert await metric(api, REFUSED) == 3
        writer.write(WHOLE + WHOLE)  # not plain, so parsed, and refused all the same
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
        assert await metric(api, REFUSED) == 5
    finally:
        writer.close()
    assert store.waiting == ROOM


async def test_a_large_body_is_refused_before_it_is_read(
    api: Api, store: SlowStore
) -> None:
    await fill(api, store)
    head = WHOLE.partition(b"Content-Length")[0]
    request = head + b"Content-Length: %d\r\n\r\n" % len(LARGE) + LARGE
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    try:
        writer.write(request)
        assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
    finally:
        writer.close()
    assert store.waiting == ROOM


async def test_what_ends_something_gets_through(api: Api, store: SlowStore) -> None:
    await fill(api, store)
    transaction = "01936f1e-8c00-7abc-8def-012345670000"
    commit = await api.post(f"/v1/transactions/{transaction}:commit")
    assert commit.code != "overloaded"
    assert store.ended
    for reply in (
        await api.get("/healthz"),
        await api.get("/readyz"),
        await api.put("/v1/limits/subjects/every-user", {"requests_per_s": 1}),
        await api.get("/v1/keys"),
        await api.post("/v1/groups/g:pop", {"topic": "orders"}),
    ):
        assert reply.status < 300, reply


async def test_a_client_that_goes_gives_its_room_back(
    api: Api, store: SlowStore
) -> None:
    for task in await fill(api, store):
        task.cancel()
    store.may_go_on.set()
    async with asyncio.timeout(10):
        while await metric(api, "halfpast_http_work_units"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (await api.post(EVENTS, EVENT)).status == 201


async def test_refusals_of_the_broker_count_too(tmp_path: Path) -> None:
    store = StubServices()
    async with serve(*store.all, tmp_path) as api:
        store.error = Overloaded("the send lane is full")
        reply = await api.post(EVENTS, EVENT)
        assert reply.code == "overloaded"
        assert "Retry-After" in reply.headers
        store.error = None
        assert await metric(api, REFUSED) == 1
        assert await metric(api, "halfpast_http_work_units") == 0

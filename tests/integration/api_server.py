"""The API over real HTTP, on real services, for the tests.

`Api` is what a test holds: it calls, and gives answers with their JSON decoded.
"""

import asyncio
import io
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import ClientSession
from yarl import URL

from halfpast_api.app import RunningApi, start_api
from halfpast_api.config import ApiConfig
from halfpast_api.delay.topic_controls import CachedTopicControls
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.store import MetadataStore
from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.service import DelayService
from halfpast_chronos.topic_controls import TopicControls
from halfpast_core_store.broker import Broker
from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_core_store.service import BrokerService
from halfpast_txn.address_rules import AllowList
from halfpast_txn.config import TxnConfig
from halfpast_txn.http_transport import HttpCheckTransport
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.service import TransactionService
from halfpast_txn.transactions import Transactions

MIB = 1024 * 1024
SMALL_STORE = StoreConfig(log=LogConfig(segment_size=64 * MIB))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """The JSON or MessagePack in it."""
        if self.headers["Content-Type"] == "application/msgpack":
            return msgspec.msgpack.decode(self.content)
        return msgspec.json.decode(self.content)

    @property
    def code(self) -> str:
        """The code of a problem, empty for a good answer."""
        if self.status < 400:
            return ""
        assert self.headers["Content-Type"] == "application/problem+json"
        body = self.body
        assert body["status"] == self.status
        assert body.get("request_id") == self.headers.get("X-Request-Id")
        assert body["detail"]
        assert body["type"].endswith(body["code"])
        code: str = body["code"]
        return code

    @property
    def pointers(self) -> list[str]:
        """What a problem points to."""
        return [error["pointer"] for error in self.body["errors"]]


class Api:
    """A running API and a client of it."""

    def __init__(self, running: RunningApi, session: ClientSession) -> None:
        self.address = running.address
        self.grpc_address = running.grpc_address
        self.routes = running.routes
        self.stop = running.close
        self.session = session

    @property
    def port(self) -> int:
        port = urlsplit(self.address).port
        assert port is not None
        return port

    async def call(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """`body`: bytes as they are, anything else as JSON."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
            sent.setdefault("Content-Type", "application/json")
        if isinstance(body, bytes) and len(body) > MIB:
            body = io.BytesIO(body)  # aiohttp warns about large bytes
        url = URL(self.address + target, encoded=True)
        async with self.session.request(
            method, url, data=body, headers=sent, skip_auto_headers=["Content-Type"]
        ) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def get(self, target: str, **options: Any) -> Reply:
        return await self.call("GET", target, **options)

    async def post(self, target: str, body: object = None, **options: Any) -> Reply:
        return await self.call("POST", target, body, **options)

    async def put(self, target: str, body: object = None, **options: Any) -> Reply:
        return await self.call("PUT", target, body, **options)

    async def patch(self, target: str, body: object = None, **options: Any) -> Reply:
        return await self.call("PATCH", target, body, **options)

    async def delete(self, target: str, **options: Any) -> Reply:
        return await self.call("DELETE", target, **options)

    async def publish(self, topic: str, **event: Any) -> dict[str, Any]:
        """Publish one event that must be taken."""
        reply = await self.post(f"/v1/topics/{topic}/events", event)
        assert reply.status == 201, reply
        body: dict[str, Any] = reply.body
        return body

    async def pop(self, group: str, topic: str, **options: Any) -> list[dict[str, Any]]:
        """Take messages."""
        body = {"topic": topic} | options
        reply = await self.post(f"/v1/groups/{group}:pop", body)
        assert reply.status == 200, reply
        messages: list[dict[str, Any]] = reply.body["messages"]
        return messages

    async def raw(self, request: bytes, *, timeout_s: float = 5.0) -> bytes:
        """Send bytes over a connection of their own; all that comes until its end."""
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(request)
                return await reader.read()
            finally:
                writer.close()


@asynccontextmanager
async def serve(
    broker: Broker,
    delay: DelayServer,
    transactions: Transactions,
    folder: Path,
    config: ApiConfig | None = None,
) -> AsyncGenerator[Api]:
    """The API on given services."""
    async with AsyncExitStack() as stack:
        metadata = await MetadataStore.open(f"sqlite:///{folder}/metadata.sqlite")
        stack.push_async_callback(metadata.close)
        running = await start_api(
            broker, delay, transactions, metadata, config or ApiConfig(port=0)
        )
        stack.push_async_callback(running.close)
        session = await stack.enter_async_context(ClientSession())
        yield Api(running, session)


class NoEndpoints:
    """Producer groups that poll for their checks."""

    def check_endpoint(self, group: str) -> CheckEndpoint | None:
        return None


@asynccontextmanager
async def real_services(
    folder: Path,
    controls: TopicControls | None = None,
    chronos: ChronosConfig | None = None,
) -> AsyncGenerator[tuple[BrokerService, DelayService, TransactionService]]:
    """A broker, a Delay Server and a transaction service on a data folder."""
    async with AsyncExitStack() as stack:
        broker = await BrokerService.open(folder, SMALL_STORE)
        stack.push_async_callback(broker.close)
        delay = await DelayService.open(
            folder, broker, chronos or ChronosConfig(), controls
        )
        stack.push_async_callback(delay.close)
        transport = HttpCheckTransport(AllowList.parse(""))
        transactions = await TransactionService.open(
            folder, broker, TxnConfig(), NoEndpoints(), transport
        )
        stack.push_async_callback(transactions.close)
        yield broker, delay, transactions


@asynccontextmanager
async def running_api(
    folder: Path, config: ApiConfig | None = None
) -> AsyncGenerator[Api]:
    """Everything, in this process."""
    async with (
        real_services(folder) as services,
        serve(*services, folder, config) as api,
    ):
        yield api


@asynccontextmanager
async def controlled_api(folder: Path, chronos: ChronosConfig) -> AsyncGenerator[Api]:
    """Everything, in this process, where the Delay Server heeds the topics' settings
    as it does in a process of its own."""
    async with AsyncExitStack() as stack:
        metadata = await MetadataStore.open(f"sqlite:///{folder}/metadata.sqlite")
        stack.push_async_callback(metadata.close)
        cache = MetadataCache(metadata, CacheConfig(refresh_s=0.05))
        await cache.start()
        stack.push_async_callback(cache.stop)
        services = await stack.enter_async_context(
            real_services(folder, CachedTopicControls(cache), chronos)
        )
        yield await stack.enter_async_context(serve(*services, folder))

"""Everything with a push process in it, and receivers of what it posts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientSession, web
from tests.integration.api_server import Api, real_services

from halfpast_api.app import start_api
from halfpast_api.config import ApiConfig
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.push.caller import HttpCaller
from halfpast_api.push.config import PushConfig
from halfpast_api.push.service import PushService
from halfpast_core_store.service import BrokerService
from halfpast_txn.address_rules import AllowList
from halfpast_txn.http_request import HttpRequester
from halfpast_txn.http_resolver import Lookup, SystemLookup

HOME = "127.0.0.1"
QUICK = PushConfig(wait_ms=500, back_off_ms=50, back_off_ms_max=200, failures_max=50)
Answer = Callable[["Got"], Awaitable[web.StreamResponse] | web.StreamResponse]


@dataclass(frozen=True, slots=True)
class Got:
    """A request that a receiver has got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def data(self) -> Any:
        return self.json["data"]


@dataclass
class Receiver:
    """Answers as it is told; `got` is what has come, in order."""

    url: str = ""
    got: list[Got] = field(default_factory=list[Got])
    answer: Answer = lambda _: web.Response(status=204)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        got = Got(request.method, request.path, dict(request.headers), body)
        self.got.append(got)
        self._more.set()
        answer = self.answer(got)
        if not isinstance(answer, web.StreamResponse):
            answer = await answer
            self._more.set()
        return answer

    async def wait_for(self, count: int) -> list[Got]:
        """Until so many have come."""
        return await self.wait_until(lambda: len(self.got) >= count)

    async def wait_until(self, condition: Callable[[], bool]) -> list[Got]:
        """Until what has come makes it true."""
        async with asyncio.timeout(30):
            while not condition():
                self._more.clear()
                await self._more.wait()
        return self.got

    def datas(self) -> list[Any]:
        return [it.data for it in self.got if it.method == "POST"]


@asynccontextmanager
async def receiver() -> AsyncGenerator[Receiver]:
    """A web server of somebody else, on this machine."""
    found = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOME, 0).start()
        found.url = f"http://{HOME}:{runner.addresses[0][1]}/hook"
        yield found
    finally:
        await runner.cleanup()


@dataclass
class Rig:
    """`api` has a push process behind it; `push` may be stopped and started."""

    api: Api
    broker: BrokerService
    start: Callable[[], Awaitable[PushService]]
    push: PushService

    async def put(self, name: str, url: str, *topics: str, **more: Any) -> Any:
        """Make an endpoint that must be taken."""
        body = {"url": url, "topics": list(topics), **more}
        reply = await self.api.put(f"/v1/endpoints/{name}", body)
        assert reply.status in (200, 201), reply
        return reply.body

    async def get(self, name: str) -> Any:
        reply = await self.api.get(f"/v1/endpoints/{name}")
        assert reply.status == 200, reply
        return reply.body

    async def attempts(self, name: str, query: str = "") -> list[Any]:
        """What is kept, once all that was noted is written."""
        await self.push.flush_attempts()
        reply = await self.api.get(f"/v1/endpoints/{name}/attempts{query}")
        assert reply.status == 200, reply
        found: list[Any] = reply.body["attempts"]
        return found

    async def until(self, what: Callable[[], Awaitable[bool]]) -> None:
        """Until something that the push process does has happened."""
        async with asyncio.timeout(30):
            while not await what():  # noqa: ASYNC110 (another task's, or a database's)
                await asyncio.sleep(0.02)

    async def operation(self, body: Mapping[str, object], verb: str = "redrive") -> Any:
        """Begin one on dead letters, and wait for its end."""
        reply = await self.api.post(f"/v1/dead-letters:{verb}", body)
        assert reply.status == 202, reply
        target = reply.headers["Location"]
        async with asyncio.timeout(30):
            await self.until(lambda: self._has_ended(target))
        return (await self.api.get(target)).body

    async def _has_ended(self, target: str) -> bool:
        return bool((await self.api.get(target)).body["state"] != "running")

    async def dead(self, name: str) -> list[Any]:
        """Dead letters of an endpoint."""
        target = f"/v1/dead-letters?source=endpoint&endpoint={name}"
        reply = await self.api.get(target)
        assert reply.status == 200, reply
        found: list[Any] = reply.body["dead_letters"]
        return found


@asynccontextmanager
async def push_rig(
    folder: Path,
    *,
    allow: str = HOME,
    config: PushConfig = QUICK,
    lookup: Lookup | None = None,
) -> AsyncGenerator[Rig]:
    """All of it, in this process. Deliveries may go to this machine."""
    async with AsyncExitStack() as stack:
        broker, delay, transactions = await stack.enter_async_context(
            real_services(folder)
        )
        metadata = await MetadataStore.open(f"sqlite:///{folder}/metadata.sqlite")
        stack.push_async_callback(metadata.close)
        cache = MetadataCache(metadata, CacheConfig(refresh_s=0.05))
        await cache.start()
        stack.push_async_callback(cache.stop)
        requester = HttpRequester(
            AllowList.parse(allow), lookup or SystemLookup(), None
        )
        caller = HttpCaller(requester)

        async def start() -> PushService:
            push = await PushService.open(
                folder, broker, delay, metadata, cache, caller, config
            )
            stack.push_async_callback(push.close)
            return push

        push = await start()
        api_config = ApiConfig(port=0, push_allow=allow)
        running = await start_api(
            broker, delay, transactions, metadata, api_config, push
        )
        stack.push_async_callback(running.close)
        session = await stack.enter_async_context(ClientSession())
        yield Rig(Api(running, session), broker, start, push)

"""A whole server for tests of the console, on a loop of its own: Playwright keeps the
one of the test. Topics heed their settings, and failing deliveries give up soon.

A module says `pytest_plugins = ["tests.integration.browser"]` and makes one with
`with ConsoleSite(folder) as site`.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.integration.api_server import real_services
from tests.integration.push_rig import HOME, Receiver, receiver
from tests.integration.push_rig import QUICK as QUICK_PUSH

from halfpast_api.app import start_api
from halfpast_api.config import ApiConfig
from halfpast_api.delay.topic_controls import CachedTopicControls
from halfpast_api.metadata.cache import CacheConfig, MetadataCache
from halfpast_api.metadata.store import MetadataStore
from halfpast_api.push.caller import HttpCaller
from halfpast_api.push.service import PushService
from halfpast_chronos.config import ChronosConfig
from halfpast_txn.address_rules import AllowList
from halfpast_txn.http_request import HttpRequester
from halfpast_txn.http_resolver import SystemLookup

T = TypeVar("T")

QUICK = ChronosConfig(attempts_max=2, retry_initial_ms=10, retry_max_ms=20)
START_TIMEOUT_S = 30.0
PATIENCE_S = 15.0


class ConsoleSite:
    """Started and stopped as a context; `address` is where it answers."""

    def __init__(self, folder: Path, config: ApiConfig | None = None) -> None:
        self._folder = folder
        self._config = config or ApiConfig(port=0)
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console-site")
        self.address = ""
        self.metadata: MetadataStore | None = None
        self.receiver = Receiver()
        """A web server of somebody else, for endpoints to call."""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(START_TIMEOUT_S), "the server does not start"
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What it gives on the server's loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> dict[str, Any]:
        """What the API answers; it must be a 2xx."""
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers}
        request = Request(self.address + path, data, sent, method=method)
        try:
            with urlopen(request) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def get(self, path: str, **headers: str) -> dict[str, Any]:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: object = None, **headers: str) -> dict[str, Any]:
        return self.call("POST", path, body, **headers)

    def until(
        self, path: str, is_there: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """What a GET answers once it is as it should be."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            found = self.get(path)
            if is_there(found):
                return found
            assert time.monotonic() < end_s, found
            time.sleep(0.02)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        async with AsyncExitStack() as stack:
            url = f"sqlite:///{self._folder}/metadata.sqlite"
            self.metadata = await MetadataStore.open(url)
            stack.push_async_callback(self.metadata.close)
            cache = MetadataCache(self.metadata, CacheConfig(refresh_s=0.05))
            await cache.start()
            stack.push_async_callback(cache.stop)
            broker, delay, transactions = await stack.enter_async_context(
                real_services(self._folder, CachedTopicControls(cache), QUICK)
            )
            allow = AllowList.parse(HOME)
            caller = HttpCaller(HttpRequester(allow, SystemLookup(), None))
            push = await PushService.open(
                self._folder, broker, delay, self.metadata, cache, caller, QUICK_PUSH
            )
            stack.push_async_callback(push.close)
            self.receiver = await stack.enter_async_context(receiver())
            config = replace(self._config, push_allow=HOME)
            api = await start_api(
                broker, delay, transactions, self.metadata, config, push
            )
            stack.push_async_callback(api.close)
            self.address = api.address
            self._started.set()
            await self._stopped.wait()

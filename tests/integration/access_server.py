"""An API that asks for keys, and callers with keys, for the tests."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.integration.api_server import Api, Reply, real_services, running_api, serve

from halfpast_api.access.local_keys import LocalKeys
from halfpast_api.config import ApiConfig

KEYS = ApiConfig(port=0, auth="keys")


class Caller:
    """Somebody with a key; none if that is empty."""

    def __init__(self, api: Api, key: str, key_id: str = "") -> None:
        self.api = api
        self.key = key
        self.key_id = key_id

    async def call(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = dict(headers or {})
        if self.key:
            sent["Authorization"] = f"Bearer {self.key}"
        return await self.api.call(method, target, body, headers=sent)

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

    async def done(self, method: str, target: str, body: object = None) -> Any:
        """The body of an answer that must be good."""
        reply = await self.call(method, target, body)
        assert reply.status < 300, (method, target, reply.status, reply.content)
        return reply.body

    async def with_key(self, **wanted: Any) -> "Caller":
        """Another caller, with a new key that this one makes."""
        made = await self.done("POST", "/v1/keys", wanted)
        return Caller(self.api, made["secret"], made["id"])


def admin_key(folder: Path) -> str:
    """The first key, made before the server runs."""

    async def make() -> str:
        async with LocalKeys(f"sqlite:///{folder}/metadata.sqlite") as keys:
            wanted = {"role": "admin", "all_namespaces": True, "view_payload": True}
            return (await keys.create(wanted)).secret

    return asyncio.run(make())


async def make_admin_key(folder: Path) -> str:
    """The same, where a loop runs already."""
    return await asyncio.to_thread(admin_key, folder)


@asynccontextmanager
async def keyed_api(
    folder: Path, config: ApiConfig = KEYS
) -> AsyncGenerator[tuple[Api, Caller]]:
    """The API, and its first administrator."""
    key = await make_admin_key(folder)
    async with running_api(folder, config) as api:
        yield api, Caller(api, key)


@asynccontextmanager
async def two_apis(folder: Path) -> AsyncGenerator[tuple[Caller, Api]]:
    """An administrator of one API, and another API: on the same services, with the
    same database, each with what it knows of that."""
    key = await make_admin_key(folder)
    async with (
        real_services(folder) as services,
        serve(*services, folder, KEYS) as first,
        serve(*services, folder, KEYS) as second,
    ):
        yield Caller(first, key), second

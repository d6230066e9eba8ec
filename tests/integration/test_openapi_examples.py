"""Each example of the description works on a live server, as it is described."""

from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import ClientSession
from tests.integration.api_server import Api, Reply
from tests.integration.cli_process import Suite
from tests.integration.openapi_values import check_value
from tests.integration.openapi_world import World

from halfpast_api.app import RunningApi
from halfpast_api.openapi.catalogue import OPERATIONS
from halfpast_api.openapi.commands import headers_of, target_of
from halfpast_api.openapi.operation import Example, Operation

pytestmark = pytest.mark.asyncio(loop_scope="module")
CLOCK = "Clock"
ALL = [
    pytest.param(operation, example, id=f"{operation.name}: {example.text}")
    for operation in OPERATIONS
    for example in operation.examples
    if operation.tag != CLOCK
]
OF_THE_CLOCK = [
    pytest.param(operation, example, id=f"{operation.name}: {example.text}")
    for operation in OPERATIONS
    for example in operation.examples
    if operation.tag == CLOCK
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    folder = tmp_path_factory.mktemp("examples")
    options = {"HALFPAST_CHRONOS_ATTEMPTS_MAX": "1"}
    server = Suite("dev", folder / "data", "--port", "0", **options)
    try:
        async with api_of(server) as api:
            yield api
    finally:
        server.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clock_api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A server whose clock can be moved."""
    folder = tmp_path_factory.mktemp("clock")
    server = Suite("dev", folder / "data", "--port", "0", "--clock", "virtual")
    try:
        async with api_of(server) as api:
            yield api
    finally:
        server.stop()


@asynccontextmanager
async def api_of(server: Suite) -> AsyncGenerator[Api]:
    address = server.wait_ready().address
    async with ClientSession() as session:
        yield Api(RunningApi(address, (), AsyncExitStack()), session)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(api: Api) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (await api.get("/openapi.json")).body
    return found


@pytest.mark.parametrize(("operation", "example"), ALL)
async def test_it_is_answered_as_described(
    api: Api, document: Mapping[str, Any], operation: Operation, example: Example
) -> None:
    await try_example(api, document, operation, example)


@pytest.mark.parametrize(("operation", "example"), OF_THE_CLOCK)
async def test_a_clock_is_answered_as_described(
    clock_api: Api, document: Mapping[str, Any], operation: Operation, example: Example
) -> None:
    await try_example(clock_api, document, operation, example)


async def try_example(
    api: Api, document: Mapping[str, Any], operation: Operation, example: Example
) -> None:
    body = "" if example.body is None else msgspec.json.encode(example.body).decode()
    line = f"{target_of(operation, example)}\n{body}"
    target, _, body = (await World(api).prepare(operation.name, line)).partition("\n")
    reply = await api.call(
        operation.method,
        target,
        body.encode() if body else None,
        headers=headers_of(operation, example),
    )
    assert reply.status == example.status, reply
    path = document["paths"][operation.template][operation.method.lower()]
    check(reply, path["responses"][str(reply.status)], document)


async def test_a_description_that_is_known_is_not_sent_again(api: Api) -> None:
    first = await api.get("/openapi.json")
    again = await api.get(
        "/openapi.json", headers={"If-None-Match": first.headers["ETag"]}
    )
    assert (again.status, again.content) == (304, b"")
    other = await api.get("/openapi.json", headers={"If-None-Match": '"other"'})
    assert (other.status, other.content) == (200, first.content)


PAGED = [
    pytest.param(operation, id=operation.name)
    for operation in OPERATIONS
    if any(it.name == "page_token" for it in operation.parameters)
]


@pytest.mark.parametrize("operation", PAGED)
async def test_a_page_token_that_is_forged_is_no_error(
    api: Api, operation: Operation
) -> None:
    example = operation.examples[-1]
    target = await World(api).prepare(operation.name, target_of(operation, example))
    joint = "&" if "?" in target else "?"
    for position in (b"\xff" * 8, b"\xff" * 40, b"\0", b"\0" * 16, b"~"):
        token = urlsafe_b64encode(position).decode().rstrip("=")
        reply = await api.get(f"{target}{joint}page_token={token}")
        assert reply.status in (200, 422), (position, reply)
        assert reply.status == 200 or reply.code == "invalid_page_token"


def check(
    reply: Reply, described: Mapping[str, Any], document: Mapping[str, Any]
) -> None:
    """Raise unless the answer is as it is described."""
    for name in described.get("headers", {}):
        if name != "Idempotency-Replayed":
            assert name in reply.headers or name == "ETag", name
    content = described["content"]
    kind = reply.headers["Content-Type"]
    assert kind in content
    if kind == "application/json":
        check_value(reply.body, content[kind]["schema"], document)

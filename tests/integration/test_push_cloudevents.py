"""CloudEvents as they are posted, read by their own library, and the handshake."""

from collections.abc import AsyncGenerator, AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.formats.json import JSONFormat
from tests.integration.push_rig import Got, Receiver, Rig, push_rig, receiver

pytestmark = pytest.mark.asyncio(loop_scope="module")
ALLOWED = {"WebHook-Allowed-Origin": "halfpast"}
MODES = pytest.mark.parametrize(
    "mode", ["cloudevents-binary", "cloudevents-structured"]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with push_rig(tmp_path_factory.mktemp("data")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def hook() -> AsyncGenerator[Receiver]:
    async with receiver() as found:
        found.answer = grants(ALLOWED)
        yield found


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.nodeid)):x}"


def grants(headers: dict[str, str]):  # type: ignore[no-untyped-def]
    def answer(got: Got) -> web.Response:
        return web.Response(headers=headers if got.method == "OPTIONS" else {})

    return answer


def posts(hook: Receiver) -> list[Got]:
    return [it for it in hook.got if it.method == "POST"]


def read(got: Got) -> BaseCloudEvent:
    """As a receiver's library understands it, which also holds it against the rules."""
    message = HTTPMessage(dict(got.headers), got.body)
    return from_http_event(message, JSONFormat())


@MODES
async def test_the_library_reads_what_was_published(
    rig: Rig, hook: Receiver, name: str, mode: str
) -> None:
    await rig.put(name, hook.url, name, mode=mode)
    event = await rig.api.publish(
        name,
        data={"n": [1, "ü"]},
        key="Kunde %17 ü",
        tag="paid",
        properties={"type": "order.paid", "region": "eu", "Not-An-Attribute": "x"},
    )
    await hook.wait_until(lambda: len(posts(hook)) == 1)
    got = posts(hook)[0]
    found = read(got)
    assert found.get_id() == event["id"]
    assert found.get_source() == f"/topics/{name}"
    assert found.get_type() == "order.paid"
    assert found.get_subject() == "Kunde %17 ü"
    assert found.get_extension("partitionkey") == "Kunde %17 ü"
    assert found.get_extension("region") == "eu"
    assert found.get_extension("tag") == "paid"
    assert found.get_time() is not None
    assert found.get_data() == {"n": [1, "ü"]}
    assert got.headers["webhook-signature"].startswith("v1,")


@MODES
async def test_bytes_come_as_bytes(
    rig: Rig, hook: Receiver, name: str, mode: str
) -> None:
    await rig.put(name, hook.url, name, mode=mode)
    await rig.api.publish(name, data_base64="/wA=")
    await hook.wait_until(lambda: len(posts(hook)) == 1)
    assert read(posts(hook)[0]).get_data() == b"\xff\x00"


async def test_nothing_is_delivered_before_the_endpoint_has_agreed(
    rig: Rig, hook: Receiver, name: str
) -> None:
    hook.answer = grants({"WebHook-Allowed-Origin": "somebody.else"})
    await rig.put(name, hook.url, name, mode="cloudevents-binary")
    await rig.api.publish(name, data=1)
    (asked,) = await hook.wait_for(1)
    assert asked.method == "OPTIONS"
    assert asked.headers["WebHook-Request-Origin"] == "halfpast"
    await rig.until(lambda: _has_attempt(rig, name))
    (attempt,) = await rig.attempts(name)
    assert (attempt["kind"], attempt["result"]) == ("validation", "not_validated")
    tested = (await rig.api.post(f"/v1/endpoints/{name}:test")).body
    assert (tested["delivered"], tested["result"]) == (False, "not_validated")
    assert posts(hook) == []
    hook.answer = grants({"WebHook-Allowed-Origin": "a.example, Halfpast"})
    await hook.wait_until(lambda: len(posts(hook)) == 1)
    tested = (await rig.api.post(f"/v1/endpoints/{name}:test")).body
    assert tested["delivered"] is True


async def _has_attempt(rig: Rig, name: str) -> bool:
    return bool(await rig.attempts(name))


async def test_another_url_is_asked_anew(rig: Rig, hook: Receiver, name: str) -> None:
    await rig.put(name, hook.url, name, mode="cloudevents-structured")
    await rig.api.publish(name, data=1)
    await hook.wait_until(lambda: len(posts(hook)) == 1)
    async with receiver() as other:
        other.answer = grants({"WebHook-Allowed-Origin": "*"})
        await rig.api.patch(f"/v1/endpoints/{name}", {"url": other.url})
        await rig.api.publish(name, data=2)
        await other.wait_until(lambda: len(posts(other)) == 1)
        assert other.got[0].method == "OPTIONS"
    assert [it.method for it in hook.got] == ["OPTIONS", "POST"]

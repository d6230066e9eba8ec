"""`halfpast listen`: what a topic gets arrives at a local URL, signed."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, web
from tests.integration.cli_process import PROGRAM, halfpast
from tests.integration.push_rig import Receiver, receiver

import halfpast as sdk
from halfpast.embedding import AsyncEmbedded

pytestmark = pytest.mark.asyncio
EXAMPLE = "http://localhost:3000/hook"


@pytest_asyncio.fixture
async def mq() -> AsyncIterator[AsyncEmbedded]:
    async with sdk.embedded() as running:
        yield running


@pytest_asyncio.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as running:
        yield running


class Listening:
    """`halfpast listen` in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    async def line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        found: dict[str, Any] = json.loads(line)
        return found

    async def stop(self) -> tuple[int, str]:
        self._process.send_signal(signal.SIGINT)
        out, _ = await asyncio.to_thread(self._process.communicate, timeout=30)
        return self._process.returncode, out


@contextmanager
def listening(mq: AsyncEmbedded, topic: str, *options: str) -> Generator[Listening]:
    words = [*PROGRAM, "listen", topic, "--server", mq.url, "--json", *options]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ},
        start_new_session=True,
    ) as process:
        try:
            yield Listening(process)
        finally:
            process.kill()


async def test_messages_are_forwarded_as_an_endpoint_would_get_them(
    mq: AsyncEmbedded, hook: Receiver
) -> None:
    # The topic is not there yet: so nothing can be missed.
    with listening(mq, "orders", "--forward", hook.url) as command:
        begun = await command.line()
        assert begun["forward"] == hook.url
        data = {"id": 7}
        event = await mq.client.publish(
            "orders", data, key="k", tag="new", properties={"region": "eu"}
        )
        [got] = await hook.wait_for(1)
        shown = await command.line()
        status, rest = await command.stop()
    assert status == 0
    identity = sdk.verify_webhook(got.headers, got.body, begun["secret"])
    assert identity == f"{event.id}_listen"
    assert got.json["type"] == "orders"
    assert got.data == data
    about = got.json["event"]
    assert (about["key"], about["tag"], about["properties"]) == (
        *("k", "new"),
        {"region": "eu"},
    )
    assert (shown["id"], shown["state"], shown["status"]) == (
        event.id,
        "delivered",
        204,
    )
    assert json.loads(rest) == {"delivered": 1, "given_up": 0, "not_delivered": 0}


async def test_failures_are_tried_again_and_given_up_truthfully(
    mq: AsyncEmbedded, hook: Receiver
) -> None:
    hook.answer = lambda got: web.Response(status=500, text=f"no {got.data}")
    await mq.client.publish("orders", 1)
    options = ("--forward", hook.url, "--replay", "--max-attempts", "2")
    with listening(mq, "orders", *options) as command:
        await command.line()
        first, second = await command.line(), await command.line()
        status, rest = await command.stop()
    assert (first["state"], first["status"], first["response"]) == (
        *("retrying", 500),
        "no 1",
    )
    assert first["again_ms"] >= 500
    assert (second["state"], second["attempt"], second["again_ms"]) == (
        *("given_up", 2),
        None,
    )
    assert [got.headers["halfpast-attempt"] for got in hook.got] == ["1", "2"]
    assert status == 0
    assert json.loads(rest) == {"delivered": 0, "given_up": 1, "not_delivered": 0}


async def test_who_stops_is_told_what_was_not_delivered(
    mq: AsyncEmbedded, hook: Receiver
) -> None:
    headers = {"Retry-After": "60"}
    hook.answer = lambda _: web.Response(status=503, headers=headers)
    await mq.client.publish("orders", 1)
    with listening(mq, "orders", "--forward", hook.url, "--replay") as command:
        await command.line()
        assert (await command.line())["again_ms"] >= 60_000
        status, rest = await command.stop()
    assert status == 0
    assert json.loads(rest)["not_delivered"] == 1


async def test_no_group_is_made_and_none_disturbed(
    mq: AsyncEmbedded, hook: Receiver
) -> None:
    await mq.client.publish("orders", 1)
    with listening(mq, "orders", "--forward", hook.url, "--replay") as command:
        await command.line()
        assert (await command.line())["state"] == "delivered"
        await command.stop()
    async with ClientSession() as session, session.get(mq.url + "/v1/groups") as got:
        assert (await got.json())["groups"] == []
    [message] = await mq.client.pop("mine", "orders")
    assert message.attempt == 1


async def test_data_goes_to_the_byte_and_as_cloudevents_too(
    mq: AsyncEmbedded, hook: Receiver
) -> None:
    await mq.client.publish("blobs", b"\x00\xff")
    options = ("--mode", "cloudevents-binary", "--replay")
    with listening(mq, "blobs", "--forward", hook.url, *options) as command:
        await command.line()
        assert (await command.line())["state"] == "delivered"
        await command.stop()
    [got] = hook.got
    assert got.body == b"\x00\xff"
    assert got.headers["ce-type"] == "blobs"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--forward", "localhost:3000"], EXAMPLE),
        (["--forward", EXAMPLE, "--mode", "pigeon"], "--mode webhook"),
        (["--forward", EXAMPLE, "--secret", "tiny"], "--secret"),
        (["--forward", EXAMPLE, "--timeout", "soon"], "span of time"),
    ],
)
async def test_wrong_use_is_told(options: list[str], said: str) -> None:
    done = halfpast("listen", "orders", *options)
    assert done.returncode == 2
    assert said in done.stderr

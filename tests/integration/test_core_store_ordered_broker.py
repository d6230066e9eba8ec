"""Ordered groups and filters of a broker on real files, directly and over a socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from tests.integration.core_store_rig import Rig, bodies, open_rig

from halfpast_core_store.broker import (
    Append,
    Delivered,
    GroupPolicy,
    Pop,
    Pull,
    Run,
    Settle,
    SettleAction,
)
from halfpast_core_store.errors import InvalidFilter
from halfpast_core_store.group_standing import DescribeGroup
from halfpast_core_store.record import RecordKind, encode_record

pytestmark = pytest.mark.asyncio

POLICY = GroupPolicy(ordered=True)
WAIT_MS = 20_000


@pytest_asyncio.fixture(params=["direct", "socket"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, request.param == "socket") as opened:
        yield opened


async def publish(rig: Rig, *keyed: bytes) -> None:
    """Messages whose first letter is their key, in one request."""
    topic = await rig.topic()
    records = [
        encode_record(
            RecordKind.NORMAL,
            event_id=(1 << 30 | place).to_bytes(16, "big"),
            key=body[:1],
            properties=msgspec.msgpack.encode({"n": body[1:].decode()}),
            body=body,
        )
        for place, body in enumerate(keyed)
    ]
    await rig.broker.append(Append([Run(topic.id, 0, records)]))


async def pop(rig: Rig, wait_ms: int = 0) -> list[Delivered]:
    request = Pop("readers", "orders", wait_ms=wait_ms, policy=POLICY)
    return (await rig.broker.pop(request)).messages


async def ack(rig: Rig, message: Delivered) -> None:
    request = Settle("readers", SettleAction.ACK, [message.receipt])
    (result,) = (await rig.broker.settle(request)).results
    assert result.code == ""


async def test_the_order_holds_over_a_restart_and_an_ack_wakes(rig: Rig) -> None:
    await publish(rig, b"a1", b"a2", b"b1", b"a3")
    a1, b1 = await pop(rig)
    assert bodies([a1, b1]) == [b"a1", b"b1"]
    await rig.restart()
    assert await pop(rig) == []
    request = DescribeGroup("readers", "orders", ordered=True)
    described = await rig.broker.describe_group(request)
    assert (described.in_flight, described.held_back) == (4, 2)
    waiting = asyncio.ensure_future(pop(rig, WAIT_MS))
    await ack(rig, a1)
    (a2,) = await asyncio.wait_for(waiting, 5)
    assert bodies([a2]) == [b"a2"]
    waiting = asyncio.ensure_future(pop(rig, WAIT_MS))
    refused = Settle("readers", SettleAction.NACK, [a2.receipt], 0, POLICY)
    await rig.broker.settle(refused)
    (again,) = await asyncio.wait_for(waiting, 5)
    assert (bodies([again]), again.attempt) == ([b"a2"], 2)


async def test_a_filter_is_for_pops_and_pulls(rig: Rig) -> None:
    await publish(rig, b"a1", b"a2", b"a3")
    request = Pop("readers", "orders", filter="n > 1")
    assert bodies((await rig.broker.pop(request)).messages) == [b"a2", b"a3"]
    pulled = await rig.broker.pull(Pull("orders", 0, 0, filter="n < 3", count=1))
    assert (bodies(pulled.messages), pulled.next_offset) == ([b"a1"], 1)
    pulled = await rig.broker.pull(Pull("orders", 0, 1, tags=["none"]))
    assert (pulled.messages, pulled.next_offset) == ([], 3)
    waiting = asyncio.ensure_future(
        rig.broker.pull(Pull("orders", 0, 1, filter="n = 9", wait_ms=WAIT_MS))
    )
    await publish(rig, b"a8", b"a9")
    pulled = await asyncio.wait_for(waiting, 5)
    assert (bodies(pulled.messages), pulled.next_offset) == ([b"a9"], 5)


async def test_a_wrong_filter_is_told_with_its_place(rig: Rig) -> None:
    await publish(rig, b"a1")
    with pytest.raises(InvalidFilter) as caught:
        await rig.broker.pop(Pop("readers", "orders", filter="n >> 1"))
    assert caught.value.position == 3
    with pytest.raises(InvalidFilter):
        await rig.broker.pull(Pull("orders", 0, 0, filter="("))
    assert bodies(await pop(rig)) == [b"a1"]

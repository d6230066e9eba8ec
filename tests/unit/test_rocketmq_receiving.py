"""Messages that were taken and told to nobody are given back."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from halfpast_api.access.access import OPEN_ACCESS
from halfpast_api.metadata.settings import GroupSettings
from halfpast_api.rocketmq import protocol as wire
from halfpast_api.rocketmq.caller import Caller, Callers
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.config import GrpcConfig
from halfpast_api.rocketmq.receiving import Receiving
from halfpast_api.rocketmq.renewals import Renewals
from halfpast_api.rocketmq.waiting import Waiting
from halfpast_core_store.broker import (
    Delivered,
    Pop,
    Popped,
    Settle,
    SettleAction,
    Settled,
)
from halfpast_core_store.record import RecordKind, encode_record

RECORD = encode_record(RecordKind.NORMAL, topic_id=1024, body=b"x")
MESSAGES = [Delivered(RECORD, 0, n, 0, 1, b"receipt-%d" % n) for n in range(3)]


@dataclass
class FakeSpace:
    """A broker with three messages, and what else a receive asks for."""

    namespace: str = ""
    popping: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    pops: list[Pop] = field(default_factory=list[Pop])
    settled: list[Settle] = field(default_factory=list[Settle])

    @property
    def space(self) -> "FakeSpace":
        return self

    broker = directory = settings = space

    async def to_read(self, name: str) -> None:
        return None

    def group_settings(self, name: str) -> GroupSettings:
        return GroupSettings()

    async def pop(self, request: Pop) -> Popped:
        self.pops.append(request)
        self.popping.set()
        await self.arrived.wait()
        return Popped(MESSAGES)

    async def settle(self, request: Settle) -> Settled:
        self.settled.append(request)
        return Settled([])


@dataclass
class Rig:
    space: FakeSpace
    waiting: Waiting
    receiving: Receiving

    def receive(self, write: Any, left_s: float | None = None, **fields: Any) -> Any:
        request = wire.ReceiveMessageRequest(
            group=wire.Resource(name="g"),
            message_queue=wire.MessageQueue(topic=wire.Resource(name="t")),
            **fields,
        )
        caller = Caller(OPEN_ACCESS, cast(Any, self.space), "c", "")
        return self.receiving.receive(caller, request, left_s, write)


@pytest.fixture
def rig() -> Rig:
    config = GrpcConfig()
    clients, waiting = Clients(30.0), Waiting()
    renewals = Renewals(clients, cast(Any, None), config)
    callers = Callers(*[cast(Any, None)] * 4)
    receiving = Receiving(callers, clients, renewals, waiting, config, lambda: 0)
    return Rig(FakeSpace(), waiting, receiving)


async def ignore(_: wire.ReceiveMessageResponse) -> None:
    return None


def released(rig: Rig) -> list[bytes]:
    (settle,) = rig.space.settled
    assert settle.action == SettleAction.RELEASE
    return settle.receipts


@pytest.mark.asyncio
async def test_what_comes_as_the_client_hangs_up_is_given_back(rig: Rig) -> None:
    call = asyncio.create_task(rig.receive(ignore))
    await rig.space.popping.wait()
    rig.space.arrived.set()
    await asyncio.sleep(0)  # the pop has it, the call does not know yet
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0)
    await rig.waiting.close()
    assert released(rig) == [it.receipt for it in MESSAGES]


@pytest.mark.asyncio
async def test_what_could_not_be_told_is_given_back(rig: Rig) -> None:
    told: list[str | None] = []

    async def write(response: wire.ReceiveMessageResponse) -> None:
        if len(told) == 2:
            raise ConnectionResetError
        told.append(response.WhichOneof("content"))

    rig.space.arrived.set()
    with pytest.raises(ConnectionResetError):
        await rig.receive(write)
    await rig.waiting.close()
    assert told == ["status", "message"]
    assert released(rig) == [it.receipt for it in MESSAGES[1:]]


@pytest.mark.asyncio
async def test_what_was_told_is_not_given_back(rig: Rig) -> None:
    rig.space.arrived.set()
    await rig.receive(ignore)
    await rig.waiting.close()
    assert rig.space.settled == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("asked_s", "left_s", "wait_ms"),
    [
        (None, None, 20_000),
        (5, None, 5000),
        (600, None, 60_000),
        (30, 33.0, 30_000),
        (30, 10.0, 9_500),
        (30, 0.1, 0),
        (0, None, 0),
    ],
)
async def test_a_receive_waits_for_less_than_its_client(
    rig: Rig, asked_s: int | None, left_s: float | None, wait_ms: int
) -> None:
    rig.space.arrived.set()
    fields: dict[str, Any] = {}
    if asked_s is not None:
        fields["long_polling_timeout"] = {"seconds": asked_s}
    await rig.receive(ignore, left_s, **fields)
    (pop,) = rig.space.pops
    assert pop.wait_ms == wait_ms


@pytest.mark.asyncio
@pytest.mark.parametrize(("asked", "count"), [(0, 32), (-1, 32), (1, 1), (9999, 256)])
async def test_a_batch_is_of_a_sane_size(rig: Rig, asked: int, count: int) -> None:
    """Before it has its settings the client of Node asks for none."""
    rig.space.arrived.set()
    await rig.receive(ignore, batch_size=asked)
    assert rig.space.pops[0].count == count

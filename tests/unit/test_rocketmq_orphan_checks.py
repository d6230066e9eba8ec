"""Who is asked how a transaction ended."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import pytest_asyncio

from halfpast_api.access.access import OPEN_ACCESS
from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_api.rocketmq.caller import Caller
from halfpast_api.rocketmq.clients import Client, Clients
from halfpast_api.rocketmq.orphan_checks import OrphanChecks
from halfpast_api.rocketmq.rooms import Rooms
from halfpast_api.rocketmq.stream import Stream
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_txn.errors import UnknownTransaction
from halfpast_txn.transactions import Check, CheckMessage, PollChecks, PolledChecks

TRANSACTION = bytes.fromhex("01936f1e8c007abc8def012345670000")


@dataclass
class FakeService:
    """Transactions and settings of a namespace, as far as they are asked for here."""

    groups: dict[str, ProducerGroupSettings] = field(
        default_factory=dict[str, ProducerGroupSettings]
    )
    questions: "asyncio.Queue[Check | Exception]" = field(
        default_factory=asyncio.Queue[Check | Exception]
    )
    polled: list[str] = field(default_factory=list[str])

    @property
    def space(self) -> "FakeService":
        return self

    @property
    def settings(self) -> "FakeService":
        return self

    @property
    def transactions(self) -> "FakeService":
        return self

    def of(self, namespace: str) -> "FakeService":
        return self

    def producer_group_settings(self, name: str) -> ProducerGroupSettings:
        return self.groups.get(name, ProducerGroupSettings())

    async def poll_checks(self, request: PollChecks) -> PolledChecks:
        assert request.with_first
        self.polled.append(request.group)
        question = await self.questions.get()
        if isinstance(question, Exception):
            raise question
        return PolledChecks([question])


@dataclass
class Rig:
    service: FakeService
    clients: Clients
    checks: OrphanChecks

    def producer(self, name: str, *topics: str) -> tuple[Client, Stream]:
        client = self.clients.seen(Caller(OPEN_ACCESS, cast(Any, None), name, ""))
        assert client is not None
        for topic in topics:
            self.clients.publishes(client, topic)
        stream = Stream()
        self.clients.connect(client, stream)
        return client, stream


@pytest_asyncio.fixture
async def rig() -> AsyncGenerator[Rig]:
    service, clients = FakeService(), Clients(30.0)
    checks = OrphanChecks(clients, cast(Rooms, service), 2)
    yield Rig(service, clients, checks)
    await checks.close()


def question(group: str = "t") -> Check:
    half = encode_record(RecordKind.HALF, event_id=TRANSACTION, body=b"x")
    asked = [CheckMessage(TRANSACTION, group, "", "")]
    return Check(TRANSACTION, group, 3, 0, "", 1, asked, half)


async def asked(*streams: Stream) -> int:
    """Which of the streams is asked."""
    waiting = [asyncio.ensure_future(stream.next()) for stream in streams]
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    (first,) = done
    command = first.result()
    assert command is not None
    assert command.WhichOneof("command") == "recover_orphaned_transaction_command"
    return waiting.index(first)


@pytest.mark.asyncio
async def test_producers_are_asked_in_turn(rig: Rig) -> None:
    streams = [rig.producer(name, "t")[1] for name in ("a", "b", "c")]
    told: list[int] = []
    for _ in range(6):
        rig.service.questions.put_nowait(question())
        told.append(await asked(*streams))
    assert sorted(told) == [0, 0, 1, 1, 2, 2]


@pytest.mark.asyncio
async def test_the_one_that_began_it_comes_first(rig: Rig) -> None:
    streams = [rig.producer(name, "t")[1] for name in ("a", "b", "c")]
    rig.checks.began("", TRANSACTION, "b")
    for _ in range(3):
        rig.service.questions.put_nowait(question())
        assert await asked(*streams) == 1


@pytest.mark.asyncio
async def test_those_that_know_of_transactions_come_before_others(rig: Rig) -> None:
    streams = [rig.producer(name, "t")[1] for name in ("a", "b")]
    knowing, stream = rig.producer("c", "t")
    rig.clients.publishes(knowing, "t", is_transactional=True)
    for _ in range(3):
        rig.service.questions.put_nowait(question())
        assert await asked(*streams, stream) == 2


@pytest.mark.asyncio
async def test_the_number_of_the_question_is_kept_for_its_answer(rig: Rig) -> None:
    _, stream = rig.producer("a", "t")
    rig.service.questions.put_nowait(question())
    await asked(stream)
    assert rig.checks.asked("", TRANSACTION) == ("t", 3)
    assert rig.checks.asked("other", TRANSACTION) is None
    rig.checks.ended("", TRANSACTION)
    assert rig.checks.asked("", TRANSACTION) is None


@pytest.mark.asyncio
async def test_a_service_that_is_away_is_asked_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfpast_api.rocketmq.orphan_checks._PAUSE_S", 0.0)
    _, stream = rig.producer("a", "t")
    rig.service.questions.put_nowait(ConnectionError("away"))
    rig.service.questions.put_nowait(UnknownTransaction("x"))
    rig.service.questions.put_nowait(question())
    assert await asked(stream) == 0


@pytest.mark.asyncio
async def test_topics_are_bounded_and_take_turns(rig: Rig) -> None:
    one, stream = rig.producer("a", "t1", "t2", "t3")
    assert rig.checks.polling == 2
    rig.producer("b", "t3")
    rig.clients.disconnect(one, stream)
    assert rig.checks.polling == 1
    await asyncio.sleep(0)
    assert rig.service.polled == ["t3"]


@pytest.mark.asyncio
async def test_nobody_is_asked_when_the_last_one_is_gone(rig: Rig) -> None:
    client, stream = rig.producer("a", "t")
    assert rig.checks.polling == 1
    rig.clients.disconnect(client, stream)
    assert rig.checks.polling == 0


@pytest.mark.asyncio
async def test_a_group_with_an_endpoint_is_left_to_that(rig: Rig) -> None:
    rig.service.groups["t"] = ProducerGroupSettings(check_url="https://example.com")
    client, _ = rig.producer("a", "t")
    assert rig.checks.polling == 0
    rig.clients.publishes(client, "t", is_transactional=True)
    assert rig.checks.polling == 1

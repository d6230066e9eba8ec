"""An event is looked for while its transaction is committed: found all the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, serve
from tests.integration.api_stub import StubServices

from halfpast_api.event_id import id_text
from halfpast_chronos.delay_server import (
    Cancel,
    Cancelled,
    Event,
    EventState,
    GetEvent,
    GotEvent,
    Reschedule,
)
from halfpast_core_store.broker import ResolvedTopics, TopicInfo, TopicNames
from halfpast_txn.half import message_id
from halfpast_txn.transactions import (
    GetTransaction,
    GotTransaction,
    Transaction,
    TransactionState,
)

pytestmark = pytest.mark.asyncio
ID = bytes.fromhex("01936f1e8c007abc8def012345670000")
EVENT_ID = message_id(ID, 0)
EVENT = f"/v1/events/{id_text(EVENT_ID)}"


class Committing(StubServices):
    """The commit takes effect when somebody asks for the transaction.

    Unless `forgotten`: then the event was delivered and deleted long ago.
    """

    committed = False
    forgotten = False

    @property
    def event(self) -> Event | None:
        if not self.committed or self.forgotten:
            return None
        return Event(EVENT_ID, 1024, EventState.SCHEDULED, 1, 5000, 1000)

    async def get(self, request: object) -> GotTransaction:
        assert request == GetTransaction(ID)
        self.committed = True
        committed = TransactionState.COMMITTED
        return GotTransaction(
            Transaction(ID, committed, "shop", "", 1000, 1, 0, 15, 30_000, 0)
        )

    async def get_event(self, request: object) -> GotEvent:
        assert request == GetEvent(EVENT_ID)
        return GotEvent(self.event)

    async def cancel(self, request: Cancel) -> Cancelled:
        if self.event is None:
            return Cancelled("not_found")
        return Cancelled("cancelled", self.event)

    async def reschedule(self, request: Reschedule) -> Event:
        assert self.event is not None
        return self.event

    async def topics_by_id(self, request: TopicNames) -> ResolvedTopics:
        return ResolvedTopics(
            [TopicInfo(number, "orders", 4) for number in request.ids]
        )


@pytest_asyncio.fixture
async def services() -> Committing:
    return Committing()


@pytest_asyncio.fixture
async def api(services: Committing, tmp_path: Path) -> AsyncIterator[Api]:
    async with serve(*services.all, tmp_path) as api:
        yield api


async def test_it_is_shown(api: Api) -> None:
    reply = await api.get(EVENT)
    assert (reply.status, reply.body["state"]) == (200, "scheduled")


async def test_it_is_cancelled(api: Api) -> None:
    reply = await api.delete(EVENT)
    assert (reply.status, reply.body["outcome"]) == (200, "cancelled")


async def test_it_is_moved(api: Api) -> None:
    assert (await api.patch(EVENT, {"delay_ms": 5})).status == 200
    assert (await api.post(f"{EVENT}:deliver-now")).status == 200


async def test_what_was_committed_and_forgotten_is_unknown(
    api: Api, services: Committing
) -> None:
    services.forgotten = True
    for reply in (
        await api.get(EVENT),
        await api.delete(EVENT),
        await api.patch(EVENT, {"delay_ms": 5}),
    ):
        assert (reply.status, reply.code) == (404, "unknown_event")

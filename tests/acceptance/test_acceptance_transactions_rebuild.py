"""Transactions in every state: deleted indexes, and a start with very many open ones.

What the log brought back must look as it did before, to the last field.
"""

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.acceptance.fault_disk import MIB
from tests.acceptance.fault_server import FaultServer

from halfpast_loadtest.http_wire import Response, WireClient
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.queue_reader import count_messages
from halfpast_loadtest.server_metrics import read_metrics, total
from halfpast_loadtest.server_process import HOST
from halfpast_loadtest.transaction_request import (
    CheckTimes,
    begin_batch_request,
    begun_ids,
)

GROUP = "books"
NOW, LATER = "books-now", "books-later"
FAR_MS = 3_600_000
INDEXES = ("index", "chronos", "txn")
STATES = ("prepared", "parked", "committed", "rolled_back")
COUNT = 12  # transactions of each kind
SETTINGS = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(4 * MIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE": str(MIB // 4),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(MIB // 2),
}
View = dict[str, Any]


class Clerk:
    """Begins and ends transactions, and looks at all of them."""

    def __init__(self, client: PatientClient) -> None:
        self._client = client
        self._number = 0

    async def begin(self, **policy: int) -> str:
        self._number += 1
        data = {"number": self._number}
        body = {
            "producer_group": GROUP,
            "reference": f"book {self._number}",
            "messages": [
                {"topic": NOW, "key": "k", "tag": "t", "data": data},
                {"topic": LATER, "data": data, "delay_ms": FAR_MS},
            ],
            **policy,
        }
        answer = await self._client.request("POST", "/v1/transactions", body)
        return str(msgspec.json.decode(answer.body)["id"])

    async def act(self, transaction_id: str, verb: str, **body: object) -> View:
        path = f"/v1/transactions/{transaction_id}:{verb}"
        answer = await self._client.request("POST", path, body)
        return decoded(answer)

    async def act_all(self, ids: list[str], verb: str, **body: object) -> list[str]:
        for one in ids:
            await self.act(one, verb, **body)
        return ids

    async def get(self, transaction_id: str) -> View:
        path = f"/v1/transactions/{transaction_id}"
        return decoded(await self._client.request("GET", path))

    async def event(self, event_id: str) -> View:
        path = f"/v1/events/{event_id}"
        found = decoded(await self._client.request("GET", path))
        found.pop("due_in_ms", None)
        return found

    async def listed(self, state: str) -> list[str]:
        path = f"/v1/transactions?state={state}&producer_group={GROUP}&limit=1000"
        page = decoded(await self._client.request("GET", path))
        return [one["id"] for one in page["transactions"]]

    async def parked(self, count: int) -> list[str]:
        """So many that nobody answered for: each was asked for once."""
        ids = [
            await self.begin(check_after_ms=50, check_interval_ms=100, check_max=1)
            for _ in range(count)
        ]
        deadline = time.monotonic() + 15
        while not set(ids) <= {*await self.listed("parked")}:
            assert time.monotonic() < deadline, "they are not parked"
            await asyncio.sleep(0.05)
        return ids

    async def everything(self, ids: list[str]) -> View:
        """All that can be seen, without what changes by itself."""
        seen: View = {state: await self.listed(state) for state in STATES}
        for one in ids:
            view = await self.get(one)
            view.pop("age_ms", None)
            seen[one] = view
            for number in (1, 2):
                event_id = f"{one[:-4]}{number:04x}"
                seen[event_id] = await self.event(event_id)
        return seen


def decoded(answer: Response) -> View:
    found: View = msgspec.json.decode(answer.body)
    return found


@pytest.mark.asyncio
async def test_every_state_comes_back_from_the_log_alone(tmp_path: Path) -> None:
    server = FaultServer(tmp_path / "data", mode="dev", settings=SETTINGS)
    client = server.patient()
    clerk = Clerk(client)
    far = {"check_after_ms": FAR_MS}
    try:
        await server.start_ready()
        open_ones, committed, rolled_back = [
            [await clerk.begin(**far) for _ in range(COUNT)] for _ in range(3)
        ]
        await clerk.act_all(committed, "commit")
        await clerk.act_all(rolled_back, "rollback")
        parked = await clerk.parked(4 * COUNT)
        forced = [*parked[:COUNT]]
        await clerk.act_all(forced, "force", state="committed", reason="seen it")
        resumed = [*parked[COUNT : 2 * COUNT]]
        await clerk.act_all(resumed, "resume", reason="the producer is back", by="me")
        ids = [*open_ones, *committed, *rolled_back, *parked]
        # What was resumed is asked for once more and parked again.
        deadline = time.monotonic() + 15
        while len(await clerk.listed("parked")) < 3 * COUNT:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        before = await clerk.everything(ids)
        for by_kill in (False, True):
            if by_kill:
                server.kill()
            else:
                assert await server.stop() == 0, server.log
            for name in INDEXES:
                shutil.rmtree(server.data / name)
            await server.start_ready()
            assert await clerk.everything(ids) == before
        # And each can go on as if nothing had been.
        for one in committed:
            assert (await clerk.act(one, "commit"))["state"] == "committed"
        await clerk.act_all(open_ones, "commit")
        await clerk.act_all(resumed, "force", state="rolled_back", reason="enough")
        assert sorted(await clerk.listed("committed")) == sorted(
            [*committed, *forced, *open_ones]
        )
        assert await count_messages(client, [NOW]) == 3 * COUNT
        assert await count_messages(client, [LATER]) == 0
    finally:
        client.close()
        server.kill()


# --- many ----------------------------------------------------------------------------

MANY = 100_000
BATCH = 1000
START_S_MAX = 20.0  # 2 s on an idle machine; this one may be shared
MANY_SETTINGS = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(32 * MIB),
}


@pytest.mark.asyncio
async def test_a_hundred_thousand_open_ones_survive_a_kill_and_a_quick_start(
    tmp_path: Path,
) -> None:
    server = FaultServer(tmp_path / "data", mode="up", settings=MANY_SETTINGS)
    client = server.patient()
    clerk = Clerk(client)
    try:
        await server.start_ready()
        ids = await begin_many(server.client())
        server.kill()
        began = time.monotonic()
        await server.start_ready()
        took_s = time.monotonic() - began
        print(f"ready after {took_s:.1f} s with {len(ids)} open transactions")
        assert took_s < START_S_MAX
        assert await open_count(server) == MANY
        sample = ids[:: MANY // 40]
        assert sample[-1] != ids[-1]
        for one in [*sample, ids[-1]]:
            assert (await clerk.get(one))["state"] == "prepared"
            asked_ms = now_ms()
            ended = await clerk.act(one, "commit")
            assert (ended["state"], ended["checks"]) == ("committed", 0)
            assert now_ms() - asked_ms < 2000
        assert await count_messages(client, [NOW]) == len(sample) + 1
        assert await open_count(server) == MANY - len(sample) - 1
    finally:
        client.close()
        server.kill()
    shutil.rmtree(server.data)


async def begin_many(client: WireClient) -> list[str]:
    """In the order of their beginnings. Each has one message of 100 bytes."""
    datas = [b"x" * 100] * BATCH
    request = begin_batch_request(GROUP, NOW, datas, CheckTimes(check_after_ms=FAR_MS))
    ids: list[str] = []
    for _ in range(MANY // BATCH):
        ids += begun_ids(await client.roundtrip(request))
    client.close()
    return ids


async def open_count(server: FaultServer) -> int:
    """When the service has seen all that lies in the log."""
    metrics = await read_metrics(HOST, server.port)
    return round(total(metrics, "transactions_open"))

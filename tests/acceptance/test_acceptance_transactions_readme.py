"""What README.md says of transactions, run word for word against a real server."""

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from sqlalchemy.exc import IntegrityError
from tests.acceptance.fault_disk import MIB
from tests.acceptance.fault_server import FaultServer
from tests.acceptance.transaction_reader import KILLED, Reader
from tests.integration.cli_process import halfpast

from halfpast_loadtest.queue_reader import read_topics
from halfpast_loadtest.server_process import HOST

pytestmark = pytest.mark.asyncio
CREATED, TIMEOUT = "order-created", "order-timeout"
ORDER = {"order": 17}
SETTINGS = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(4 * MIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE": str(MIB // 4),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(MIB // 2),
}


class Readme:
    """Its snippets, a server, and readers who begin with an empty database."""

    def __init__(self, text: str, folder: Path, *, is_async: bool) -> None:
        self.transaction = snippet(text, "client.transaction(")
        self.producer = snippet(text, "halfpast.TransactionalProducer(")
        self.server = FaultServer(folder / "data", settings=SETTINGS)
        self._folder = folder
        self._is_async = is_async
        self._numbers = itertools.count()

    def reader(self) -> Reader:
        path = self._folder / f"orders-{next(self._numbers)}.sqlite"
        return Reader(self.address, str(path), is_async=self._is_async)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server.port}"

    async def get(self, path: str) -> dict[str, Any]:
        client = self.server.client()
        answer = await client.request("GET", path)
        client.close()
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        return found

    async def ids(self, state: str) -> list[str]:
        """Transactions in a state, the oldest first."""
        page = await self.get(f"/v1/transactions?state={state}")
        return [one["id"] for one in page["transactions"]]

    async def until_settled(self) -> None:
        deadline = time.monotonic() + 15
        while await self.ids("in_doubt"):
            assert time.monotonic() < deadline, "it stays in doubt"
            await asyncio.sleep(0.05)

    async def delivered(self, topic: str) -> list[object]:
        client = self.server.patient()
        found = await read_topics(client, [topic])
        client.close()
        return [msgspec.json.decode(one.data) for one in found]


def snippet(text: str, mark: str) -> str:
    """The one block of Python that holds this."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [found] = [block for block in blocks if mark in block]
    return found


@pytest_asyncio.fixture(params=["session", "async session"])
async def readme(
    request: pytest.FixtureRequest, repository_root: Path, tmp_path: Path
) -> AsyncIterator[Readme]:
    text = (repository_root / "README.md").read_text()
    found = Readme(text, tmp_path, is_async=request.param == "async session")
    try:
        await found.server.start_ready()
        client = found.server.client()
        quick = {"check_after_ms": 200, "check_interval_ms": 200}
        await client.request("PUT", "/v1/producer-groups/orders", quick)
        client.close()
        yield found
        assert await found.server.stop() == 0, found.server.log
    finally:
        found.server.kill()


async def test_what_is_written_of_transactions_is_so(readme: Readme) -> None:
    await leaving_the_block_commits_and_an_error_rolls_back(readme)
    await the_database_is_asked(readme, "before_commit", "rolled_back")
    assert await readme.delivered(CREATED) == [ORDER]
    await the_database_is_asked(readme, "after_commit", "committed")
    assert await readme.delivered(CREATED) == [ORDER, ORDER]


async def leaving_the_block_commits_and_an_error_rolls_back(readme: Readme) -> None:
    reader = readme.reader()
    await reader.run(readme.transaction)
    assert reader.orders() == [17]
    assert await readme.delivered(CREATED) == [ORDER]
    [transaction_id] = await readme.ids("committed")
    event = await readme.get(f"/v1/events/{transaction_id[:-4]}0002")
    assert (event["topic"], event["state"]) == (TIMEOUT, "scheduled")
    due_in = datetime.fromisoformat(event["deliver_at"]) - datetime.now(UTC)
    assert timedelta(minutes=29) < due_in <= timedelta(minutes=30)
    with pytest.raises(IntegrityError):
        await reader.run(readme.transaction)  # there is such an order
    assert reader.orders() == [17]
    assert await readme.delivered(CREATED) == [ORDER]
    assert await readme.ids("in_doubt") == []
    assert len(await readme.ids("rolled_back")) == 1
    await reader.close()


async def the_database_is_asked(readme: Readme, moment: str, outcome: str) -> None:
    """The process dies at this moment of its local transaction."""
    reader = readme.reader()
    before = await readme.delivered(CREATED)
    assert reader.run_and_die(readme.transaction, moment) == KILLED
    [transaction_id] = await readme.ids("in_doubt")
    assert await readme.delivered(CREATED) == before
    shown = halfpast("tx", "list", server=readme.address)
    assert transaction_id in shown.stdout, shown
    assert readme.producer.count("    ...") == 1, "the place of the reader's own work"
    running = readme.producer.replace("    ...", "    await until_settled()")
    await reader.run(running, until_settled=readme.until_settled)
    assert transaction_id in await readme.ids(outcome)
    assert reader.orders() == [17] * (outcome == "committed")
    await reader.close()

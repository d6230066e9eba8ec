"""Pages of transactions in doubt, over two lists that the service has apart."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, serve
from tests.integration.api_stub import StubServices

from halfpast_txn.transactions import (
    ListTransactions,
    Transaction,
    TransactionPage,
    TransactionState,
)

pytestmark = pytest.mark.asyncio
PARKED, PREPARED = TransactionState.PARKED, TransactionState.PREPARED


class Shelves(StubServices):
    """Two parked and three prepared transactions.

    Stricter than the service may be: a page's token leads nowhere in another state,
    the last page has none, and `slice_max` makes pages short.
    """

    slice_max = 1000

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ListTransactions] = []

    async def list(self, request: ListTransactions) -> TransactionPage:
        self.asked.append(request)
        assert request.limit > 0
        count = {PARKED: 2, PREPARED: 3}[TransactionState(request.state)]
        first = 0
        if request.after:
            assert request.after[0] == request.state + 100
            first = request.after[1]
        last = min(count, first + min(request.limit, self.slice_max))
        found = [_transaction(request.state, n) for n in range(first, last)]
        more = last < count
        token = bytes((request.state + 100, last)) if more else b""
        return TransactionPage(found, token)


def _transaction(state: int, number: int) -> Transaction:
    return Transaction(
        transaction_id=bytes((state, number)) + bytes(14),
        state=state,
        group="shop",
        reference=f"{TransactionState(state).name.lower()} {number}",
        begun_ms=0,
        message_count=1,
        checks=0,
        check_max=1,
        check_interval_ms=100,
        next_ms=0,
    )


ALL = ["parked 0", "parked 1", "prepared 0", "prepared 1", "prepared 2"]


@pytest_asyncio.fixture
async def shelves() -> Shelves:
    return Shelves()


@pytest_asyncio.fixture
async def api(shelves: Shelves, tmp_path: Path) -> AsyncIterator[Api]:
    async with serve(*shelves.all, tmp_path) as api:
        yield api


async def pages(api: Api, query: str) -> list[list[str]]:
    found: list[list[str]] = []
    token = ""
    while len(found) < 20:
        page = (await api.get(f"/v1/transactions?{query}{token}")).body
        found.append([it["reference"] for it in page["transactions"]])
        if page["next_page_token"] is None:
            break
        token = f"&page_token={page['next_page_token']}"
    return found


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, [[it] for it in ALL]),
        (2, [ALL[:2], ALL[2:4], ALL[4:]]),
        (3, [ALL[:3], ALL[3:]]),
        (4, [ALL[:4], ALL[4:]]),
        (5, [ALL]),
        (1000, [ALL]),
    ],
)
async def test_pages_go_from_one_list_to_the_next(
    api: Api, limit: int, expected: list[list[str]]
) -> None:
    assert await pages(api, f"limit={limit}") == expected


async def test_short_pages_are_passed_on(api: Api, shelves: Shelves) -> None:
    shelves.slice_max = 1
    expected = [ALL[:1], ALL[1:3], ALL[3:4], ALL[4:]]
    assert await pages(api, "limit=3") == expected


async def test_one_state_is_one_list(api: Api, shelves: Shelves) -> None:
    expected = [ALL[2:4], ALL[4:]]
    assert await pages(api, "limit=2&state=prepared&producer_group=g") == expected
    assert {(it.state, it.group) for it in shelves.asked} == {(PREPARED, "g")}

"""What the server says of the transactions of a producer group."""

from collections.abc import AsyncIterator
from datetime import datetime

import msgspec

from halfpast_loadtest.message import to_ms
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.transaction_check import Outcome

STATES = ("in_doubt", "committed", "rolled_back")
PAGE_SIZE = 1000


async def open_count(client: PatientClient, group: str) -> int:
    """How many transactions of a group have no outcome, parked ones included."""
    return len([one async for one in _listed(client, group, "in_doubt")])


async def outcomes_of_group(client: PatientClient, group: str) -> dict[str, Outcome]:
    """Every transaction of a group, by its id."""
    return {
        one.id: Outcome(
            state=one.state,
            decided_ms=None if one.decided_at is None else to_ms(one.decided_at),
            source=one.source,
        )
        for state in STATES
        async for one in _listed(client, group, state)
    }


async def _listed(
    client: PatientClient, group: str, state: str
) -> "AsyncIterator[_View]":
    path = f"/v1/transactions?producer_group={group}&state={state}&limit={PAGE_SIZE}"
    token = ""
    while True:
        answer = await client.request("GET", path + token)
        page = _PAGE.decode(answer.body)
        for one in page.transactions:
            yield one
        if not page.next_page_token:
            return
        token = f"&page_token={page.next_page_token}"


class _View(msgspec.Struct):
    id: str
    state: str
    decided_at: datetime | None = None
    source: str = ""


class _Page(msgspec.Struct):
    transactions: list[_View]
    next_page_token: str | None = None


_PAGE = msgspec.json.Decoder(_Page)

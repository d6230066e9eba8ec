"""The SDK's calls about many events, against a real server."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.api_server import running_api

import halfpast

HOUR = timedelta(hours=1)


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncGenerator[halfpast.Client]:
    async with running_api(tmp_path) as api, halfpast.Client(api.address) as client:
        yield client


async def fill(client: halfpast.Client, count: int = 10) -> None:
    await client.batch(
        halfpast.NewEvent(
            topic="orders", data=n, key=f"key-{n % 2}", tag="t", delay=HOUR
        )
        for n in range(count)
    )


@pytest.mark.asyncio
async def test_events_are_counted_moved_and_cancelled(client: halfpast.Client) -> None:
    await fill(client)
    begun = await client.cancel_events(topic="orders", dry_run=True)
    counted = await client.wait_for_operation(begun.id)
    assert counted.state is halfpast.OperationState.DONE
    assert (counted.dry_run, counted.matched, counted.changed) == (True, 10, 0)
    begun = await client.reschedule_events(key="key-0", shift=-HOUR / 2)
    moved = await client.wait_for_operation(begun.id)
    assert (moved.changed, moved.shift) == (5, -HOUR / 2)
    soon = datetime.now(UTC) + 0.75 * HOUR
    begun = await client.cancel_events(topic="orders", due_before=soon)
    cancelled = await client.wait_for_operation(begun.id)
    assert (cancelled.changed, cancelled.progress) == (5, 1.0)
    assert cancelled.filter["topic"] == "orders"
    left = [event async for event in client.events(topic="orders", data=True)]
    assert sorted(event.data for event in left) == [1, 3, 5, 7, 9]
    found = [it.id async for it in client.operations(page_size=2)]
    assert found == [cancelled.id, moved.id, counted.id]
    with pytest.raises(halfpast.Conflict):
        await client.stop_operation(cancelled.id)


@pytest.mark.asyncio
async def test_a_repeated_wish_begins_nothing_new(client: halfpast.Client) -> None:
    await fill(client)
    first = await client.cancel_events(topic="orders", idempotency_key="once")
    again = await client.cancel_events(topic="orders", idempotency_key="once")
    assert first.id == again.id


@pytest.mark.asyncio
async def test_what_is_coming_is_counted(client: halfpast.Client) -> None:
    await fill(client)
    found = await client.due("orders", resolution=halfpast.Resolution.HOUR)
    assert (found.topic, found.pending, found.count, found.late) == (
        "orders",
        10,
        10,
        0,
    )
    assert found.exact
    assert sum(bucket.count for bucket in found.buckets) == 10
    everything = await client.due(start=found.start, end=found.end)
    assert everything.topic is None
    assert everything.count == 10


@pytest.mark.asyncio
async def test_wishes_that_cannot_be_meant_are_not_sent() -> None:
    client = halfpast.Client()
    with pytest.raises(ValueError, match="which events"):
        await client.cancel_events()
    with pytest.raises(ValueError, match="which events"):
        await client.cancel_events(every=True, tag="x")
    with pytest.raises(ValueError, match="shift or deliver_at"):
        await client.reschedule_events(every=True)
    with pytest.raises(ValueError, match="time zone"):
        await client.cancel_events(due_after=datetime(2030, 1, 1))

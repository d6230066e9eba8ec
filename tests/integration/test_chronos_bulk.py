"""Bulk operations and counts on real RocksDB, across restarts and lost brokers."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.chronos_rig import DelayRig, now_ms, open_rig

from halfpast_chronos import bulk_service
from halfpast_chronos.delay_server import Cancel, EventState, ListEvents
from halfpast_chronos.due_calls import AskDue
from halfpast_chronos.due_histogram import HistogramQuery
from halfpast_chronos.operation import (
    BeginBulk,
    Bulk,
    BulkAction,
    CancelOperation,
    EventFilter,
    GetOperation,
    ListOperations,
    Operation,
)
from halfpast_chronos.operation_errors import (
    InvalidPageToken,
    OperationEnded,
    UnknownOperation,
)
from halfpast_core_store.broker import Empty
from halfpast_core_store.errors import CoreError, IdempotencyConflict

FAR_MS = 3_600_000
EVER_MS = 2**62


@pytest_asyncio.fixture(params=[False, True], ids=["direct", "socket"])
async def rig(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[DelayRig, None]:
    async with open_rig(tmp_path, over_socket=request.param) as rig:
        yield rig


async def begin(rig: DelayRig, number: int, bulk: Bulk) -> bytes:
    request = BeginBulk(number.to_bytes(16, "big"), bulk, now_ms())
    begun = await rig.delay.begin_bulk(request)
    return begun.operation.operation_id


async def ended(rig: DelayRig, operation_id: bytes) -> Operation:
    async with asyncio.timeout(30):
        while True:
            found = await rig.delay.get_operation(GetOperation(operation_id))
            if not found.is_running:
                return found
            await asyncio.sleep(0.01)


async def pending(rig: DelayRig) -> int:
    found = await rig.delay.ask_due(AskDue(0, 0, EVER_MS, EVER_MS))
    assert found.exact
    assert sum(count for _, count in found.buckets) == found.pending
    return found.pending


@pytest.mark.asyncio
async def test_thousands_are_cancelled_and_the_others_fire(rig: DelayRig) -> None:
    start = now_ms()
    far = [start + FAR_MS + n for n in range(3000)]
    await rig.schedule(*far, tag=b"go")
    kept = await rig.schedule(start + 1500, start + 1600, tag=b"stay")
    wish = Bulk(BulkAction.CANCEL, EventFilter(tag=b"go"))
    done = await ended(rig, await begin(rig, 1, wish))
    assert (done.matched, done.changed, done.scanned) == (3000, 3000, 3002)
    assert done.expected == 3002
    assert {a.event_id for a in await rig.wait_for(*kept)} == set(kept)
    assert await pending(rig) == 0
    page = await rig.delay.list_events(ListEvents(state=EventState.CANCELLED))
    assert len(page.events) == 100


@pytest.mark.asyncio
async def test_what_is_cancelled_amid_the_firing_is_either(rig: DelayRig) -> None:
    start = now_ms()
    ids = await rig.schedule(*[start + n // 4 for n in range(4000)])
    done = await ended(rig, await begin(rig, 1, Bulk(BulkAction.CANCEL)))
    async with asyncio.timeout(20):
        while await pending(rig):
            await rig.wait_for()
    fired = {arrival.event_id for arrival in await rig.arrivals()}
    assert len(fired) == len(await rig.arrivals())
    assert len(fired) + done.changed == len(ids)
    for event_id in ids[:: len(ids) // 50]:
        outcome = (await rig.delay.cancel(Cancel(event_id))).outcome
        assert outcome == ("too_late" if event_id in fired else "cancelled")


@pytest.mark.asyncio
async def test_an_operation_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_service, "CHANGED_MAX", 50)
    async with open_rig(tmp_path, over_socket=True) as rig:
        start = now_ms() + FAR_MS
        await rig.schedule(*[start + n for n in range(3000)])
        wish = Bulk(BulkAction.RESCHEDULE, shift_ms=FAR_MS)
        operation_id = await begin(rig, 1, wish)
        changed: list[int] = []
        for _ in range(3):
            await rig.close_delay()
            await rig.open_delay()
            found = await rig.delay.get_operation(GetOperation(operation_id))
            changed.append(found.changed)
        assert changed == sorted(changed)
        done = await ended(rig, operation_id)
        assert done.changed == 3000
        due = await rig.delay.ask_due(AskDue(0, 0, EVER_MS, 1000))
        first, last = due.buckets[0][0], due.buckets[-1][0]
        assert start + FAR_MS - 1000 <= first <= last <= start + FAR_MS + 3000


@pytest.mark.asyncio
async def test_a_broker_that_goes_amid_an_operation_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_service, "CHANGED_MAX", 20)
    async with open_rig(tmp_path, over_socket=True) as rig:
        start = now_ms() + FAR_MS
        await rig.schedule(*[start + n for n in range(2000)])
        wish = Bulk(BulkAction.RESCHEDULE, shift_ms=-60_000)
        operation_id = await begin(rig, 1, wish)
        for _ in range(3):
            await rig.close_broker(0.0)
            await rig.open_broker()
            await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            while True:
                try:
                    done = await ended(rig, operation_id)
                    break
                except CoreError:
                    await asyncio.sleep(0.05)
        assert done.changed == 2000
        due = await rig.delay.ask_due(AskDue(0, 0, EVER_MS, 1000))
        assert due.pending == 2000
        assert due.buckets[-1][0] < start - 57_000
        status = await rig.delay.status(Empty())
        assert status.gauges["timers_claimed"] == 0
        assert status.gauges["operations_running"] == 0


@pytest.mark.asyncio
async def test_an_operation_is_stopped(rig: DelayRig) -> None:
    start = now_ms() + FAR_MS
    await rig.schedule(*[start + n for n in range(3000)])
    operation_id = await begin(rig, 1, Bulk(BulkAction.CANCEL))
    try:
        stopped = await rig.delay.cancel_operation(CancelOperation(operation_id))
    except OperationEnded:
        stopped = await ended(rig, operation_id)
    assert not stopped.is_running
    again = await rig.delay.get_operation(GetOperation(operation_id))
    assert again == stopped
    assert await pending(rig) == 3000 - stopped.changed
    page = await rig.delay.list_operations(ListOperations())
    assert page.operations == [stopped]
    with pytest.raises(UnknownOperation):
        await rig.delay.get_operation(GetOperation(b"?" * 16))


@pytest.mark.asyncio
async def test_an_idempotency_key_begins_one_operation(rig: DelayRig) -> None:
    await rig.schedule(now_ms() + FAR_MS)

    async def ask(number: int, fingerprint: bytes) -> bytes:
        wish = Bulk(BulkAction.CANCEL, dry_run=True)
        begun = await rig.delay.begin_bulk(
            BeginBulk(number.to_bytes(16, "big"), wish, now_ms(), b"key", fingerprint)
        )
        return begun.operation.operation_id

    found = await asyncio.gather(*(ask(n, b"same") for n in range(5)))
    assert len(set(found)) == 1
    with pytest.raises(IdempotencyConflict):
        await ask(9, b"other")


@pytest.mark.asyncio
async def test_counts_survive_a_restart(tmp_path: Path) -> None:
    async with open_rig(tmp_path, over_socket=False) as rig:
        start = now_ms() // 1000 * 1000 + FAR_MS
        await rig.schedule(*[start + n // 10 for n in range(5000)])
        await rig.schedule(now_ms())
        await rig.close_delay()
        await rig.open_delay()
        found = await rig.delay.ask_due(AskDue(0, start, start + 10_000, 1000))
        assert found.exact
        assert found.buckets == [(start, 5000)]
        assert rig.service._core.history.is_exact  # pyright: ignore[reportPrivateUsage]
        assert found.late == 0


@pytest.mark.asyncio
async def test_what_is_late_is_told_with_its_reason(tmp_path: Path) -> None:
    async with open_rig(tmp_path, over_socket=True) as rig:
        await rig.schedule(now_ms() + 100)
        await rig.close_broker(0.0)
        await asyncio.sleep(2.2)
        core = rig.service._core  # pyright: ignore[reportPrivateUsage]
        query = HistogramQuery(core, AskDue(0, 0, EVER_MS, EVER_MS))
        while query.step():
            pass
        found = query.answer()
        assert found.late == 1
        (topic,) = found.late_topics
        assert topic.reasons == {"overloaded": 1}
        assert topic.oldest_ms
        await rig.open_broker()


@pytest.mark.asyncio
async def test_a_token_of_another_list_is_refused(rig: DelayRig) -> None:
    await rig.schedule(now_ms() + FAR_MS, now_ms() + FAR_MS)
    page = await rig.delay.list_events(ListEvents(limit=1))
    with pytest.raises(InvalidPageToken):
        await rig.delay.list_events(
            ListEvents(state=EventState.DELIVERED, after=page.next_token)
        )

"""The Delay Server beside a broker, directly and over sockets: the same promises."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.chronos_rig import (
    CHRONOS,
    DelayRig,
    check_arrivals,
    now_ms,
    open_rig,
)

from halfpast_chronos.delay_server import (
    Cancel,
    EventState,
    GetEvent,
    Happening,
    ListEvents,
    Replace,
    Reschedule,
)
from halfpast_chronos.errors import AlreadyCancelled, AlreadyDelivered, StaleVersion
from halfpast_chronos.service import DelayService
from halfpast_core_store.broker import Empty
from halfpast_core_store.errors import CoreError, FenceLost, FolderInUse
from halfpast_core_store.record import RecordFlag, RecordKind, decode_record

FAR_MS = 3_600_000


@pytest_asyncio.fixture(params=["direct", "socket"])
async def rig(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[DelayRig]:
    async with open_rig(tmp_path, request.param == "socket") as rig:
        yield rig


async def state_of(rig: DelayRig, event_id: bytes) -> int:
    event = (await rig.delay.get_event(GetEvent(event_id))).event
    assert event is not None
    return event.state


async def pending_ids(rig: DelayRig) -> list[bytes]:
    """All that is scheduled, page by page."""
    found: list[bytes] = []
    request = ListEvents(limit=17)
    while True:
        page = await rig.delay.list_events(request)
        found += [event.event_id for event in page.events]
        if not page.next_token:
            return found
        request.after = page.next_token


# --- delivery -------------------------------------------------------------------


@pytest.mark.asyncio
async def test_timers_are_delivered_each_once_and_never_early(rig: DelayRig) -> None:
    start = now_ms()
    ids = await rig.schedule(*[start + 20 + n // 4 for n in range(400)], body=b"x")
    ids += await rig.schedule(start - 5, start)
    check_arrivals(await rig.wait_for(*ids), ids)
    event = (await rig.delay.get_event(GetEvent(ids[0]))).event
    assert event is not None
    assert event.state == EventState.DELIVERED
    assert event.record is None
    assert event.finished_ms >= event.due_ms
    counters = (await rig.delay.status(Empty())).counters
    assert counters["fired_total"] == 402
    assert counters["early_total"] == 0


@pytest.mark.asyncio
async def test_large_timers_due_at_once_all_arrive(rig: DelayRig) -> None:
    # Together they exceed the largest frame, so they cannot go in one.
    due = now_ms() + 700
    ids: list[bytes] = []
    for _ in range(12):
        ids += await rig.schedule(due, body=bytes(1024 * 1024))
    check_arrivals(await rig.wait_for(*ids), ids)


@pytest.mark.asyncio
async def test_a_large_batch_is_applied_in_slices(rig: DelayRig) -> None:
    due = now_ms() + 1_500
    ids = await rig.schedule(*[due] * 2_500)
    assert sorted(await pending_ids(rig)) == sorted(ids)
    check_arrivals(await rig.wait_for(*ids), ids)


# --- decisions ------------------------------------------------------------------


@pytest.mark.asyncio
async def test_cancel_tells_the_truth(rig: DelayRig) -> None:
    soon, never = await rig.schedule(now_ms(), now_ms() + FAR_MS)
    await rig.wait_for(soon)
    assert (await rig.delay.cancel(Cancel(soon))).outcome == "too_late"
    assert (await rig.delay.cancel(Cancel(never))).outcome == "cancelled"
    assert (await rig.delay.cancel(Cancel(never))).outcome == "cancelled"
    assert (await rig.delay.cancel(Cancel(rig.fresh_id()))).outcome == "not_found"
    with pytest.raises(AlreadyCancelled):
        await rig.delay.reschedule(Reschedule(never, now_ms()))
    with pytest.raises(AlreadyDelivered):
        await rig.delay.reschedule(Reschedule(soon, now_ms()))


@pytest.mark.asyncio
async def test_reschedule_and_deliver_now(rig: DelayRig) -> None:
    one, two = await rig.schedule(now_ms() + FAR_MS, now_ms() + FAR_MS)
    moved = await rig.delay.reschedule(Reschedule(one, now_ms() + 30, version=1))
    assert moved.version == 2
    with pytest.raises(StaleVersion):
        await rig.delay.reschedule(Reschedule(one, now_ms() + FAR_MS, version=1))
    now = await rig.delay.reschedule(Reschedule(two, 0, deliver_now=True))
    assert [what for _, what in now.timeline][:2] == [
        Happening.SCHEDULED,
        Happening.PROMOTED,
    ]
    check_arrivals(await rig.wait_for(one, two), [one, two])


@pytest.mark.asyncio
async def test_concurrent_puts_of_one_key_make_one_event(rig: DelayRig) -> None:
    due = now_ms() + FAR_MS
    flags = {"key": b"cart-1", "flags": RecordFlag.UPSERT}
    records = [await rig.record(due + n, **flags) for n in range(50)]
    made = await asyncio.gather(*[rig.delay.replace(Replace(r)) for r in records])
    assert sum(put.created for put in made) == 1
    assert len({put.event.event_id for put in made}) == 1
    (pending,) = await pending_ids(rig)
    event = (await rig.delay.get_event(GetEvent(pending))).event
    assert event is not None
    assert event.version == 50
    await rig.delay.reschedule(Reschedule(pending, 0, deliver_now=True))
    check_arrivals(await rig.wait_for(pending), [pending])


@pytest.mark.asyncio
async def test_concurrent_decisions_make_one_sequence(rig: DelayRig) -> None:
    (event_id,) = await rig.schedule(now_ms() + FAR_MS)

    async def move(number: int) -> str:
        request = Reschedule(event_id, now_ms() + FAR_MS + number)
        try:
            await rig.delay.reschedule(request)
        except AlreadyCancelled:
            return "refused"
        return "moved"

    async def cancel() -> str:
        return (await rig.delay.cancel(Cancel(event_id))).outcome

    calls = [cancel() if n % 10 == 5 else move(n) for n in range(100)]
    answers = await asyncio.gather(*calls)
    assert [a for a in answers[5::10] if a != "cancelled"] == []
    records = [r for r in await rig.timer_records() if r.event_id == event_id]
    assert [r.kind for r in records[1:-1]] == [RecordKind.RESCHEDULE] * (
        answers.count("moved")
    )
    assert records[-1].kind == RecordKind.CANCEL
    assert [r.version for r in records[1:]] == list(range(2, len(records) + 1))
    assert await state_of(rig, event_id) == EventState.CANCELLED


@pytest.mark.asyncio
async def test_cancels_that_race_with_firing_all_agree(rig: DelayRig) -> None:
    start = now_ms()
    ids = await rig.schedule(*[start + 10 + n for n in range(60)])

    async def cancel(event_id: bytes, wait_s: float) -> str:
        await asyncio.sleep(wait_s)
        return (await rig.delay.cancel(Cancel(event_id))).outcome

    waits = [
        (event_id, 0.001 * (n + k)) for n, event_id in enumerate(ids) for k in (5, 9)
    ]
    outcomes = await asyncio.gather(*[cancel(i, wait_s) for i, wait_s in waits])
    await asyncio.sleep(0.05)
    found = await rig.arrivals()
    arrived = {arrival.event_id for arrival in found}
    assert len(found) == len(arrived)
    for (event_id, _), outcome in zip(waits, outcomes, strict=True):
        assert outcome == ("too_late" if event_id in arrived else "cancelled")


# --- restarts -------------------------------------------------------------------


@pytest.mark.asyncio
async def test_pending_timers_survive_a_restart_of_chronos(rig: DelayRig) -> None:
    start = now_ms()
    soon = await rig.schedule(*[start + 50 + n for n in range(100)])
    far = await rig.schedule(*[start + FAR_MS + n for n in range(50)])
    await rig.delay.cancel(Cancel(far[0]))
    await rig.close_delay()
    while_away = await rig.schedule(now_ms(), now_ms() + 60)
    await rig.open_delay()
    check_arrivals(await rig.wait_for(*soon, *while_away), soon + while_away)
    assert await pending_ids(rig) == far[1:]


@pytest.mark.asyncio
async def test_a_deleted_index_is_rebuilt_from_the_log(rig: DelayRig) -> None:
    start = now_ms()
    far = await rig.schedule(*[start + FAR_MS + n for n in range(50)])
    (done,) = await rig.schedule(start)
    await rig.wait_for(done)
    await rig.delay.cancel(Cancel(far[3]))
    await rig.delay.reschedule(Reschedule(far[0], start + 2 * FAR_MS))
    before = await pending_ids(rig)
    await rig.close_delay()
    shutil.rmtree(rig.folder / "data" / "chronos")
    await rig.open_delay()
    assert await pending_ids(rig) == before
    assert await state_of(rig, done) == EventState.DELIVERED
    assert await state_of(rig, far[3]) == EventState.CANCELLED
    check_arrivals(await rig.arrivals(), [done])


@pytest.mark.asyncio
async def test_the_folder_is_for_one_at_a_time(rig: DelayRig) -> None:
    with pytest.raises(FolderInUse):
        await DelayService.open(rig.folder / "data", rig.broker, CHRONOS)
    (event_id,) = await rig.schedule(now_ms() + 5)
    await rig.wait_for(event_id)  # the first one has not been disturbed


@pytest.mark.asyncio
@pytest.mark.parametrize("by", ["firing", "decision", "flush"])
async def test_who_loses_the_role_fails(rig: DelayRig, by: str) -> None:
    (far,) = await rig.schedule(now_ms() + FAR_MS)
    other = await DelayService.open(rig.folder / "other", rig.broker, CHRONOS)
    soon: list[bytes] = []
    if by == "firing":
        soon = await rig.schedule(now_ms() + 20)
    elif by == "decision":
        with pytest.raises(FenceLost):
            await rig.delay.cancel(Cancel(far))
    failed = asyncio.shield(rig.service.failed)
    with pytest.raises(FenceLost):
        await asyncio.wait_for(failed, 20)
    check_arrivals(await rig.wait_for(*soon), soon)
    with pytest.raises(CoreError):
        await rig.delay.cancel(Cancel(far))
    assert (await other.cancel(Cancel(far))).outcome == "cancelled"
    await other.close()


@pytest.mark.asyncio
async def test_a_restarted_broker_is_found_again(tmp_path: Path) -> None:
    async with open_rig(tmp_path, over_socket=True) as rig:
        wanted: list[bytes] = []
        for grace_s in (0.0, 0.0, 1.0):
            start = now_ms()
            wanted += await rig.schedule(*[start + n // 3 for n in range(600)])
            (far,) = await rig.schedule(start + FAR_MS)
            await asyncio.sleep(0.05)  # amid the firing
            await rig.close_broker(grace_s)
            await rig.open_broker()
            wanted += await rig.schedule(now_ms())
            found = await rig.wait_for(*wanted)
            assert (await rig.delay.cancel(Cancel(far))).outcome == "cancelled"
            check_arrivals(found, wanted)
            assert not rig.service.failed.done()
        gauges = (await rig.delay.status(Empty())).gauges
        assert gauges["delay_server_ready"] == 1
        assert gauges["timers_claimed"] == 0


@pytest.mark.asyncio
async def test_the_records_of_an_event_come_back_whole(rig: DelayRig) -> None:
    (event_id,) = await rig.schedule(
        now_ms() + FAR_MS, body=b"body", tag=b"tag", key=b"key", properties=b"\x80"
    )
    event = (await rig.delay.get_event(GetEvent(event_id))).event
    assert event is not None
    assert event.record is not None
    record = decode_record(event.record)
    assert (record.body, record.tag, record.key) == (b"body", b"tag", b"key")
    assert event.timeline[0][1] == Happening.SCHEDULED

"""Recurring schedules on a real broker and a real Delay Server, also over sockets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.chronos_rig import DelayRig, open_rig

from halfpast_chronos.errors import (
    BadCron,
    NeverOccurs,
    ScheduleEnded,
    StaleVersion,
    UnknownSchedule,
    UnknownTimeZone,
)
from halfpast_chronos.recurrence import CatchUp, Plan
from halfpast_chronos.recurring_calls import (
    CreateSchedule,
    EndSchedule,
    GetSchedule,
    ListSchedules,
    PauseSchedule,
    Progress,
    ScheduleState,
)
from halfpast_core_store.broker import FindEvent
from halfpast_core_store.errors import IdempotencyConflict
from halfpast_core_store.record import RecordFlag, decode_record

pytestmark = pytest.mark.asyncio
EVERY_SECOND = Plan(interval_ms=1000, catch_up=CatchUp.FIRE_ALL)


@pytest_asyncio.fixture(params=[False, True], ids=["in process", "over sockets"])
async def rig(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[DelayRig]:
    async with open_rig(tmp_path, request.param) as rig:
        yield rig


async def create(rig: DelayRig, plan: Plan, **fields: Any) -> bytes:
    request = CreateSchedule(await rig.record(0, body=b"tick"), plan, **fields)
    return (await rig.delay.create_schedule(request)).schedule.schedule_id


async def progress(rig: DelayRig, schedule_id: bytes) -> Progress:
    got = await rig.delay.get_schedule(GetSchedule(schedule_id))
    assert got.schedule is not None
    return got.schedule.progress


async def wait_for_count(rig: DelayRig, count: int) -> None:
    async with asyncio.timeout(20):
        while True:
            if len(await rig.arrivals()) >= count:
                return
            await asyncio.sleep(0.01)


def check_complete(dues_ms: list[int]) -> None:
    """Each second, none twice, none left out."""
    assert dues_ms == [dues_ms[0] + 1000 * n for n in range(len(dues_ms))]


async def test_it_fires_and_is_found_by_its_id(rig: DelayRig) -> None:
    schedule_id = await create(rig, EVERY_SECOND)
    await wait_for_count(rig, 2)
    arrivals = await rig.arrivals()
    check_complete([it.due_ms for it in arrivals])
    assert all(it.stored_ms >= it.due_ms for it in arrivals)
    for it in arrivals:
        found = await rig.broker.find_event(FindEvent(it.event_id))
        assert found.record is not None
        assert decode_record(found.record).flags & RecordFlag.OCCURRENCE
    known = await progress(rig, schedule_id)
    assert known.count >= 2


async def test_errors_cross_over(rig: DelayRig) -> None:
    for plan, error in (
        (Plan(cron="x"), BadCron),
        (Plan(cron="* * * * *", time_zone="Mars"), UnknownTimeZone),
        (Plan(interval_ms=1000, until_ms=5), NeverOccurs),
    ):
        with pytest.raises(error) as caught:
            await create(rig, plan)
        assert str(caught.value)
    with pytest.raises(UnknownSchedule):
        await rig.delay.pause_schedule(PauseSchedule(bytes(16), True))
    key = {"dedup_key": b"k" * 16}
    schedule_id = await create(rig, EVERY_SECOND, **key, fingerprint=b"1")
    assert await create(rig, EVERY_SECOND, **key, fingerprint=b"1") == schedule_id
    with pytest.raises(IdempotencyConflict):
        await create(rig, EVERY_SECOND, **key, fingerprint=b"2")
    with pytest.raises(StaleVersion):
        await rig.delay.end_schedule(EndSchedule(schedule_id, 9))
    await rig.delay.end_schedule(EndSchedule(schedule_id))
    with pytest.raises(ScheduleEnded):
        await rig.delay.pause_schedule(PauseSchedule(schedule_id, True))
    page = await rig.delay.list_schedules(ListSchedules(state=ScheduleState.ENDED))
    assert [it.schedule_id for it in page.schedules] == [schedule_id]


async def test_a_stop_and_a_start_lose_nothing(rig: DelayRig) -> None:
    await create(rig, EVERY_SECOND)
    await wait_for_count(rig, 1)
    await rig.close_delay()
    await asyncio.sleep(2.1)  # it stands still for two occurrences
    await rig.open_delay()
    await wait_for_count(rig, 4)
    check_complete([it.due_ms for it in await rig.arrivals()])


async def test_a_broker_that_goes_away_loses_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, over_socket=True) as rig:
        await create(rig, EVERY_SECOND)
        for round_count in (1, 2, 3):
            await wait_for_count(rig, round_count)
            await rig.close_broker(grace_s=0)
            await rig.open_broker()
        await wait_for_count(rig, 5)
        check_complete([it.due_ms for it in await rig.arrivals()])


async def test_many_decide_at_once(rig: DelayRig) -> None:
    schedule_id = await create(rig, EVERY_SECOND)
    requests = [PauseSchedule(schedule_id, n % 2 == 0) for n in range(20)]
    await asyncio.gather(*(rig.delay.pause_schedule(it) for it in requests))
    known = await progress(rig, schedule_id)
    assert known.version <= 21
    ends = [rig.delay.end_schedule(EndSchedule(schedule_id)) for _ in range(5)]
    ended = await asyncio.gather(*ends)
    assert {it.progress.version for it in ended} == {known.version + 1}
    count = len(await rig.arrivals())
    assert (await progress(rig, schedule_id)).count == count

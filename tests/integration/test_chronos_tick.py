"""The alarm wakes when it was asked to, never before."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import uvloop

from halfpast_chronos.tick import Tick


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Alarm:
    """A tick and the times at which it woke us."""

    def __init__(self) -> None:
        self.woken_ms: list[int] = []
        self.happened = asyncio.Event()
        self.tick = Tick(asyncio.get_running_loop(), self._wake)

    def _wake(self) -> None:
        self.woken_ms.append(now_ms())
        self.happened.set()

    async def next(self) -> int:
        """When it woke next."""
        await asyncio.wait_for(self.happened.wait(), 20)
        self.happened.clear()
        return self.woken_ms[-1]


@pytest_asyncio.fixture
async def alarm() -> AsyncIterator[Alarm]:
    alarm = Alarm()
    yield alarm
    alarm.tick.close()


async def never_early(alarm: Alarm) -> None:
    for wait_ms in (0, 1, 2, 3, 5, 8, 13, 21):
        at_ms = now_ms() + wait_ms
        alarm.tick.set(at_ms)
        assert await alarm.next() >= at_ms


@pytest.mark.asyncio
async def test_it_is_never_early(alarm: Alarm) -> None:
    await never_early(alarm)


def test_it_is_never_early_on_uvloop() -> None:
    async def main() -> None:
        alarm = Alarm()
        await never_early(alarm)
        alarm.tick.close()

    uvloop.run(main())


@pytest.mark.asyncio
async def test_an_earlier_time_replaces_a_later_one(alarm: Alarm) -> None:
    alarm.tick.set(now_ms() + 3_600_000)
    soon = now_ms() + 10
    alarm.tick.set(soon)
    assert await alarm.next() >= soon


@pytest.mark.asyncio
async def test_a_later_time_replaces_an_earlier_one(alarm: Alarm) -> None:
    alarm.tick.set(now_ms() + 5)
    later = now_ms() + 40
    alarm.tick.set(later)
    assert await alarm.next() >= later
    assert len(alarm.woken_ms) == 1


@pytest.mark.asyncio
async def test_a_past_time_wakes_at_once(alarm: Alarm) -> None:
    for at_ms in (now_ms() - 1000, 1, 0, -5):
        alarm.tick.set(at_ms)
        await alarm.next()


@pytest.mark.asyncio
async def test_never_means_never(alarm: Alarm) -> None:
    alarm.tick.set(now_ms() + 5)
    alarm.tick.set(None)
    await asyncio.sleep(0.03)
    assert alarm.woken_ms == []


@pytest.mark.asyncio
async def test_the_same_time_can_be_set_again_after_it_has_woken(
    alarm: Alarm,
) -> None:
    at_ms = now_ms() + 2
    for _ in range(3):
        alarm.tick.set(at_ms)
        assert await alarm.next() >= at_ms


@pytest.mark.asyncio
async def test_a_time_ten_years_away_can_be_set(alarm: Alarm) -> None:
    alarm.tick.set(now_ms() + 10 * 366 * 86_400_000)
    await asyncio.sleep(0.01)
    assert alarm.woken_ms == []

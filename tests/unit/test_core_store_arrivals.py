"""Waking waiters: everybody of a topic, or one of a group after the other."""

import asyncio

import pytest

from halfpast_core_store.arrivals import Arrivals, Wanted
from halfpast_core_store.record import Family
from halfpast_core_store.topics import SYS_FIRED, SYS_SCHEDULE, SYS_TRANS_OP
from halfpast_core_store.topics import USER_TOPIC_ID_MIN as TOPIC

PATIENCE_S = 60.0


async def settled() -> None:
    """Let all tasks run until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


def waiting(
    arrivals: Arrivals, count: int, group: str = ""
) -> list["asyncio.Task[bool]"]:
    return [
        asyncio.create_task(arrivals.wait(TOPIC, PATIENCE_S, group))
        for _ in range(count)
    ]


@pytest.mark.asyncio
async def test_everybody_without_a_group_is_woken() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    tasks = waiting(arrivals, 3)
    await settled()
    arrivals.arrived([TOPIC])
    assert await asyncio.gather(*tasks) == [True, True, True]


@pytest.mark.asyncio
async def test_of_each_group_the_one_who_waits_longest_is_woken() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    first, second = waiting(arrivals, 2, "a")
    (other,) = waiting(arrivals, 1, "b")
    await settled()
    arrivals.arrived([TOPIC])
    assert await first
    assert await other
    assert not second.done()
    arrivals.pass_on(TOPIC, "a")
    assert await second


@pytest.mark.asyncio
async def test_each_arrival_wakes_another_one() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    tasks = waiting(arrivals, 2, "a")
    await settled()
    arrivals.arrived([TOPIC])
    arrivals.arrived([TOPIC])
    assert await asyncio.gather(*tasks) == [True, True]


@pytest.mark.asyncio
async def test_who_goes_away_when_woken_wakes_the_next() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    first, second = waiting(arrivals, 2, "a")
    await settled()
    arrivals.arrived([TOPIC])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second


@pytest.mark.asyncio
async def test_time_is_up() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    assert not await arrivals.wait(TOPIC, 0.0, "a")
    arrivals.arrived([TOPIC])  # nobody is left behind to be woken in vain
    arrivals.pass_on(TOPIC, "a")


@pytest.mark.asyncio
async def test_closing_sends_all_home() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    tasks = [*waiting(arrivals, 1), *waiting(arrivals, 2, "a")]
    await settled()
    arrivals.close()
    assert await asyncio.gather(*tasks) == [False, False, False]
    assert not await arrivals.wait(TOPIC, PATIENCE_S)


# --- those who follow the log ---------------------------------------------------


def following(arrivals: Arrivals, own_wait_ms: int) -> "asyncio.Task[bool]":
    wanted = Wanted(Family.TIMERS, SYS_FIRED, own_wait_ms)
    return asyncio.create_task(arrivals.wait_family(wanted, PATIENCE_S))


@pytest.mark.asyncio
async def test_what_others_write_wakes_who_follows_at_once() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    task = following(arrivals, 60_000)
    await settled()
    arrivals.arrived([TOPIC, SYS_TRANS_OP])
    await settled()
    assert not task.done()
    arrivals.arrived([SYS_FIRED, SYS_SCHEDULE])
    assert await task


@pytest.mark.asyncio
async def test_what_is_his_own_wakes_who_follows_later() -> None:
    arrivals = Arrivals(asyncio.get_running_loop())
    task, patient = following(arrivals, 1), following(arrivals, 60_000)
    await settled()
    arrivals.arrived([SYS_FIRED])
    arrivals.arrived([SYS_FIRED])
    await settled()
    assert not task.done()
    assert await task
    assert not patient.done()
    arrivals.close()
    assert not await patient

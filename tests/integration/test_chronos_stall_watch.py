"""The watch on a real loop that really stands still."""

import asyncio
import time

import pytest

from halfpast_chronos.stall_watch import INTERVAL_S, StallWatch


async def seen(watch: StallWatch, at_least_ms: int) -> None:
    """Wait until such a stall was counted."""
    name = f'loop_stalls_total{{at_least_ms="{at_least_ms}"}}'
    for _ in range(1000):
        if watch.counts.counters()[name]:
            return
        await asyncio.sleep(INTERVAL_S)
    raise AssertionError(watch.counts.counters())


@pytest.mark.asyncio
async def test_a_loop_that_stands_still_is_seen_and_that_it_only_waited() -> None:
    watch = StallWatch(asyncio.get_running_loop())
    time.sleep(0.12)  # noqa: ASYNC251 this is what it is there for
    await seen(watch, 100)
    gauges = watch.counts.gauges()
    assert gauges['loop_stall_ms_max{since="start"}'] >= 109
    assert gauges['loop_stall_ms_max{since="minute"}'] >= 109
    assert gauges["loop_stall_busy_ms_max"] < 100
    watch.close()


@pytest.mark.asyncio
async def test_a_loop_that_computes_is_busy() -> None:
    watch = StallWatch(asyncio.get_running_loop())
    until = time.thread_time() + 0.08
    while time.thread_time() < until:
        pass
    await seen(watch, 50)
    assert watch.counts.gauges()["loop_stall_busy_ms_max"] >= 50
    watch.close()

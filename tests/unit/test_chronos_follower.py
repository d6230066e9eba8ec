"""Following goes on where it was left, whoever asks and whoever goes."""

import asyncio
from typing import cast

import pytest
from tests.unit.chronos_line import START_MS, Line, event_id, schedule_record

from halfpast_chronos.core import DelayCore, timer_count
from halfpast_chronos.decisions import Command, decide_reschedule
from halfpast_chronos.delay_server import Reschedule
from halfpast_core_store.broker import Broker, Follow, Followed, FollowedFrame
from halfpast_core_store.claim_waiters import ClaimWaiters
from halfpast_core_store.follower import APPLY_COUNT, Follower, slice_end
from halfpast_core_store.record import Family, RecordKind, encode_record


class ListBroker:
    """Follows the list of a `Line`, at most `count` frames at a time."""

    def __init__(self, line: Line, count: int = 1) -> None:
        self.line = line
        self.count = count

    async def follow(self, request: Follow) -> Followed:
        await asyncio.sleep(0)
        rest = [f for f in self.line.frames if f.position >= request.position]
        found = rest[: self.count]
        position = found[-1].end if found else self.line.log_end
        return Followed(found, position, self.line.log_end)


class CountingCore(DelayCore):
    """Remembers which slices it has applied."""

    slices: list[tuple[int, int, int]]

    def apply_slice(self, frame: FollowedFrame, start: int, stop: int) -> list[bytes]:
        self.slices.append((frame.position, start, stop))
        return super().apply_slice(frame, start, stop)


def follower_of(line: Line) -> tuple[CountingCore, Follower]:
    core = CountingCore(line.index, line.clock, line.config)
    core.slices = []
    line.core = core
    waiters = ClaimWaiters(core, asyncio.get_running_loop())
    broker = cast(Broker, ListBroker(line))
    return core, Follower(
        core, broker, waiters, lambda: None, Family.TIMERS, timer_count
    )


def frame_of(line: Line, *numbers: int) -> None:
    line.append_records([schedule_record(n, START_MS + n) for n in numbers])


@pytest.mark.asyncio
async def test_catching_up_applies_all_in_slices() -> None:
    line = Line()
    core, follower = follower_of(line)
    frame_of(line, *range(250))
    frame_of(line, 250)
    await follower.catch_up()
    assert core.position == line.log_end
    assert core.scheduled_count == 251
    assert len(core.slices) == 4


@pytest.mark.asyncio
async def test_many_followers_apply_each_record_once() -> None:
    line = Line()
    core, follower = follower_of(line)
    for first in range(0, 900, 300):
        frame_of(line, *range(first, first + 300))
    await asyncio.gather(*[follower.catch_up() for _ in range(5)])
    assert core.scheduled_count == 900


@pytest.mark.asyncio
async def test_a_frame_that_was_left_half_applied_is_not_begun_anew() -> None:
    # Beginning anew would release a claim that somebody else has taken since.
    line = Line()
    core, follower = follower_of(line)
    line.schedule(1, START_MS + 5_000)
    move = decide_reschedule(core, Reschedule(event_id(1), START_MS + 6_000))
    assert isinstance(move, Command)
    line.append_records(
        [
            *move.request.runs[0].records,
            *[schedule_record(n, START_MS + n) for n in range(2, 500)],
        ]
    )
    task = asyncio.create_task(follower.catch_up())
    while not core.slices[1:]:  # noqa: ASYNC110
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert core.position < line.log_end
    again = decide_reschedule(core, Reschedule(event_id(1), START_MS + 7_000))
    assert isinstance(again, Command)
    await follower.catch_up()
    assert core.claims == {event_id(1)}
    assert core.scheduled_count == 499
    starts = [start for position, start, _ in core.slices if position]
    assert starts == sorted(set(starts))


@pytest.mark.asyncio
async def test_a_frame_without_records_moves_the_position() -> None:
    line = Line()
    core, follower = follower_of(line)
    line.append_records([])
    await follower.catch_up()
    assert core.position == line.log_end


def test_a_slice_is_weighed_by_its_timers() -> None:
    fired = encode_record(RecordKind.FIRED, body=bytes(25 * APPLY_COUNT))
    small = schedule_record(1, START_MS)
    assert slice_end([fired, fired, small], 0, timer_count) == 1
    assert slice_end([small, fired, small], 0, timer_count) == 2
    assert slice_end([small] * (APPLY_COUNT + 1), 0, timer_count) == APPLY_COUNT
    assert (
        slice_end([small] * (APPLY_COUNT + 1), APPLY_COUNT, timer_count)
        == APPLY_COUNT + 1
    )
    assert slice_end([], 0, timer_count) == 0

"""The clock goes from one thing that is due to the next, and waits for each."""

import asyncio
from pathlib import Path

import pytest

from halfpast_api.clock.clock_file import ClockFile
from halfpast_api.clock.mover import ClockMover
from halfpast_api.problems import Refusal
from halfpast_core_store.virtual_clock import VirtualClock

pytestmark = pytest.mark.asyncio
T0 = 1_767_225_600_000


class Part:
    """Something is due at each of these times; dealing with it takes some rounds."""

    def __init__(self, clock: VirtualClock, *due_ms: int, rounds: int = 3) -> None:
        self._clock = clock
        self._due = sorted(due_ms)
        self._rounds = rounds
        self._left = 0
        self.done: list[int] = []
        loop = asyncio.get_running_loop()
        self._alarm = clock.alarm(self._ring, loop.call_soon)
        self._alarm.set(self._due[0] if self._due else None)

    def _ring(self) -> None:
        self._left = self._rounds

    async def settle(self) -> bool:
        if not self._left:
            return False
        self._left -= 1
        if not self._left:
            self.done.append(self._clock.now_ms)
            self._due = [it for it in self._due if it > self._clock.now_ms]
            self._alarm.set(self._due[0] if self._due else None)
        return True


class Rig:
    def __init__(self, folder: Path, **options: float) -> None:
        self.clock = VirtualClock(T0)
        self.parts: list[Part] = []
        self.file = ClockFile.open(folder, T0)
        self.mover = ClockMover(
            self.clock, self.parts, lambda: False, self.file, **options
        )

    def part(self, *due_ms: int, rounds: int = 3) -> Part:
        part = Part(self.clock, *due_ms, rounds=rounds)
        self.parts.append(part)
        return part


async def test_all_that_is_due_is_dealt_with_at_its_own_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    one, other = rig.part(T0 + 10, T0 + 30), rig.part(T0 + 20, T0 + 30, T0 + 90)
    moved = await rig.mover.move(lambda now_ms: now_ms + 50)
    assert (moved.from_ms, moved.now_ms, moved.stops) == (T0, T0 + 50, 3)
    assert moved.is_there
    assert one.done == [T0 + 10, T0 + 30]
    assert other.done == [T0 + 20, T0 + 30]
    assert rig.file.now_ms == T0 + 50


async def test_it_never_goes_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(Refusal) as refused:
        await rig.mover.move(lambda now_ms: now_ms - 1)
    assert refused.value.code == "clock_goes_forward"
    assert (rig.clock.now_ms, rig.file.now_ms) == (T0, T0)


async def test_whoever_takes_long_comes_there_in_several_requests(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, budget_s=0)
    part = rig.part(T0 + 10, T0 + 20)
    first = await rig.mover.move(lambda _: T0 + 50)
    assert (first.now_ms, first.stops, first.is_there) == (T0 + 10, 1, False)
    assert rig.file.now_ms == T0 + 10
    await rig.mover.move(lambda _: T0 + 50)
    last = await rig.mover.move(lambda _: T0 + 50)
    assert (last.now_ms, last.is_there) == (T0 + 50, True)
    assert part.done == [T0 + 10, T0 + 20]


async def test_one_that_never_ends_keeps_the_clock_where_it_is(tmp_path: Path) -> None:
    rig = Rig(tmp_path, patience_s=0)
    rig.part(T0 + 10, rounds=2**60)
    with pytest.raises(Refusal) as refused:
        await rig.mover.move(lambda _: T0 + 50)
    assert refused.value.code == "clock_stuck"
    assert rig.clock.now_ms == T0 + 10
    assert ClockFile.open(tmp_path, None).now_ms == T0 + 10


async def test_those_who_move_it_take_turns(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    part = rig.part(*range(T0 + 5, T0 + 50, 5))
    moves = (rig.mover.move(lambda now_ms: now_ms + 10) for _ in range(3))
    found = await asyncio.gather(*moves)
    assert [it.now_ms for it in found] == [T0 + 10, T0 + 20, T0 + 30]
    assert part.done == [*range(T0 + 5, T0 + 31, 5)]

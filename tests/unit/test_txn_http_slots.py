"""How many calls may be on their way at once. Nothing here waits for time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from halfpast_txn.http_slots import Slots


class Crowd:
    """Callers that hold their slot until they are let go."""

    def __init__(self) -> None:
        self.slots = Slots()
        self.inside: list[int] = []
        self.doors: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    def come(self, count: int, count_max: int) -> None:
        for _ in range(count):
            door = asyncio.Event()
            self.doors.append(door)
            visit = self._visit(len(self.tasks), count_max, door)
            self.tasks.append(asyncio.create_task(visit))

    async def leave(self, *numbers: int) -> None:
        for number in numbers:
            self.doors[number].set()
        await settle()

    async def _visit(self, number: int, count_max: int, door: asyncio.Event) -> None:
        async with self.slots.taken(count_max):
            self.inside.append(number)
            await door.wait()
            self.inside.remove(number)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_first_come_first_served() -> None:
    crowd = Crowd()
    crowd.come(5, 2)
    await settle()
    assert crowd.inside == [0, 1]
    await crowd.leave(1)
    assert crowd.inside == [0, 2]
    await crowd.leave(0, 2)
    assert crowd.inside == [3, 4]
    await crowd.leave(3, 4)
    assert crowd.slots.is_idle


@pytest.mark.asyncio
async def test_the_number_may_change() -> None:
    crowd = Crowd()
    crowd.come(4, 2)
    await settle()
    crowd.come(1, 4)
    await settle()
    assert crowd.inside == [0, 1, 2, 3], "the fifth stands in line behind them"
    crowd.come(1, 1)
    await crowd.leave(0, 1, 2)
    assert crowd.inside == [3]
    await crowd.leave(3)
    assert crowd.inside == [4]
    await crowd.leave(4)
    assert crowd.inside == [5]
    await crowd.leave(5)
    assert crowd.slots.is_idle


async def _cancel_waiting(crowd: Crowd) -> None:
    crowd.tasks[1].cancel()
    await crowd.leave(0)


async def _cancel_while_a_slot_comes_free(crowd: Crowd) -> None:
    """It is cancelled, and before it has run again its turn comes."""
    crowd.doors[0].set()
    crowd.tasks[1].cancel()
    await settle()


async def _cancel_admitted(crowd: Crowd) -> None:
    """It is let in and cancelled before it has run again."""
    crowd.doors[0].set()
    await asyncio.sleep(0)
    crowd.tasks[1].cancel()
    await settle()


async def _cancel_inside(crowd: Crowd) -> None:
    await crowd.leave(0)
    crowd.tasks[1].cancel()
    await settle()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "cancel",
    [
        _cancel_waiting,
        _cancel_while_a_slot_comes_free,
        _cancel_admitted,
        _cancel_inside,
    ],
)
async def test_a_cancelled_caller_takes_no_slot_away(
    cancel: Callable[[Crowd], Awaitable[None]],
) -> None:
    crowd = Crowd()
    crowd.come(3, 1)
    await settle()
    await cancel(crowd)
    assert crowd.inside[-1:] == [2]
    assert crowd.tasks[1].cancelled()
    await crowd.leave(2)
    assert crowd.slots.is_idle

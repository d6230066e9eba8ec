"""Questions wait for whoever takes them: bounded, and nobody is woken in vain."""

import asyncio

import pytest
from tests.unit.txn_deciding import soon, turns

from halfpast_txn.check_desk import POLLER_S, TIDY_COUNT, TOTAL_MAX, CheckDesk


def everything(transaction_id: bytes, check: int) -> bool:
    return True


def nothing(transaction_id: bytes, check: int) -> bool:
    return False


def desk_of(count_max: int = 100) -> CheckDesk:
    return CheckDesk(count_max, asyncio.get_running_loop())


def an_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def polling(desk: CheckDesk, group: str = "g") -> asyncio.Task[None]:
    return asyncio.create_task(desk.arrival(group, 60))


@pytest.mark.asyncio
async def test_a_question_is_taken_once_and_the_oldest_first() -> None:
    desk = desk_of()
    for number in range(5):
        desk.put("g", an_id(number), 1)
    desk.put("other", an_id(9), 4)
    assert desk.waiting_count == 6
    assert desk.take("g", 2) == [(an_id(0), 1), (an_id(1), 1)]
    assert [one for one, _ in desk.take("g", 100)] == [an_id(n) for n in (2, 3, 4)]
    assert desk.take("g", 1) == desk.take("nobody", 1) == []
    assert desk.take("other", 1) == [(an_id(9), 4)]
    assert desk.waiting_count == 0


@pytest.mark.asyncio
async def test_the_latest_check_back_of_a_transaction_replaces_the_one_before() -> None:
    desk = desk_of()
    desk.put("g", an_id(1), 1)
    desk.put("g", an_id(2), 1)
    desk.put("g", an_id(1), 2)
    assert desk.waiting_count == 2
    assert desk.take("g", 9) == [(an_id(2), 1), (an_id(1), 2)]


@pytest.mark.asyncio
async def test_of_too_many_the_oldest_gives_way() -> None:
    desk = desk_of(count_max=3)
    for number in range(5):
        desk.put("g", an_id(number), 1)
    assert desk.dropped_count == 2
    assert [one for one, _ in desk.take("g", 9)] == [an_id(n) for n in (2, 3, 4)]


@pytest.mark.asyncio
async def test_a_crowd_of_groups_is_bounded_too() -> None:
    # Each of them has been asked once, and none of them will ever come.
    desk = desk_of(count_max=3)
    for number in range(100):
        desk.put(f"group-{number}", an_id(number), 1)
    assert desk.waiting_count == TOTAL_MAX * 3
    assert desk.dropped_count == 100 - TOTAL_MAX * 3
    desk.tidy(everything)
    assert len(desk._desks) == TOTAL_MAX * 3  # pyright: ignore[reportPrivateUsage]
    assert desk.take("group-99", 9) == [(an_id(99), 1)]


@pytest.mark.asyncio
async def test_questions_that_want_no_answer_any_more_are_dropped() -> None:
    desk = desk_of(count_max=1_000)
    for number in range(250):
        desk.put(f"group-{number % 7}", an_id(number), 1)

    def even(transaction_id: bytes, check: int) -> bool:
        return check == 1 and transaction_id[-1] % 2 == 0

    desk.tidy(even)
    assert desk.waiting_count == 250 - TIDY_COUNT // 2  # a bit at a time
    for _ in range(3):
        desk.tidy(even)
    assert desk.waiting_count == 125
    for _ in range(3):
        desk.tidy(nothing)
    assert desk.waiting_count == 0
    assert desk.dropped_count == 0


@pytest.mark.asyncio
async def test_desks_at_which_nobody_is_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = desk_of()
    loop = asyncio.get_running_loop()
    desk.polled("polled")
    desk.put("waiting", an_id(1), 1)
    poller = polling(desk, "polling")
    await asyncio.sleep(0)
    assert desk.has_poller("polled")
    assert desk.has_poller("polling")
    assert not desk.has_poller("waiting")
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now + POLLER_S + 1)
    assert not desk.has_poller("polled")
    desk.tidy(everything)
    desk.tidy(everything)
    assert set(desk._desks) == {"waiting", "polling"}  # pyright: ignore[reportPrivateUsage]
    monkeypatch.undo()
    desk.put("polling", an_id(2), 1)
    await soon(poller)
    assert desk.take("polling", 1) == [(an_id(2), 1)]


# --- pollers ----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_one_question_wakes_one_poller() -> None:
    desk = desk_of()
    pollers = [polling(desk) for _ in range(3)]
    await asyncio.sleep(0)
    desk.put("other", an_id(9), 1)
    desk.put("g", an_id(1), 1)
    await turns(lambda: pollers[0].done())
    assert [poller.done() for poller in pollers] == [True, False, False]
    desk.put("g", an_id(2), 1)
    desk.put("g", an_id(3), 1)
    await soon(asyncio.gather(*pollers))


@pytest.mark.asyncio
async def test_a_poller_that_goes_hands_its_waking_on() -> None:
    desk = desk_of()
    first, second = polling(desk), polling(desk)
    await asyncio.sleep(0)
    desk.put("g", an_id(1), 1)
    first.cancel()  # it has been woken, and does not know yet
    await soon(second)
    assert first.cancelled() or first.done()
    assert desk.take("g", 1) == [(an_id(1), 1)]


@pytest.mark.asyncio
async def test_a_poller_that_goes_leaves_nothing_behind() -> None:
    desk = desk_of()
    poller = polling(desk)
    await asyncio.sleep(0)
    assert desk.has_poller("g")
    poller.cancel()
    await asyncio.gather(poller, return_exceptions=True)
    assert not desk.has_poller("g")


@pytest.mark.asyncio
async def test_waiting_ends_by_itself() -> None:
    desk = desk_of()
    await soon(desk.arrival("g", 0.001))
    assert not desk.has_poller("g")


@pytest.mark.asyncio
async def test_all_can_be_sent_home() -> None:
    desk = desk_of()
    pollers = [polling(desk, group) for group in "aabbc"]
    await asyncio.sleep(0)
    desk.wake_all()
    await soon(asyncio.gather(*pollers))

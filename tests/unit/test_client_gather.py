"""Gathering publishes: who travels with whom, and what becomes of each caller."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from halfpast.errors import Problem, ServerUnreachable, api_problem
from halfpast.gather import Gatherer, GatherLimits
from halfpast.model import EventState, Published

pytestmark = pytest.mark.asyncio
Results = Sequence[Published | Exception]


class Sent:
    """Notes the batches; answers when it is let, with what `answer` makes."""

    def __init__(self, answer: Callable[[bytes], Published | Exception]) -> None:
        self.batches: list[list[bytes]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._answer = answer

    async def __call__(self, batch: Sequence[bytes]) -> Results:
        self.batches.append([*batch])
        await self.may_answer.wait()
        return [self._answer(item) for item in batch]


def published(item: bytes) -> Published:
    return Published(id=item.decode(), topic="t", state=EventState.STORED)


async def publish(gatherer: Gatherer[bytes, Published], item: bytes) -> Published:
    return await gatherer.add(item, len(item))


async def test_callers_of_one_turn_share_a_batch_and_get_their_own_answer() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits())
    answers = await asyncio.gather(*(publish(gatherer, b"%d" % n) for n in range(20)))
    assert [answer.id for answer in answers] == [str(n) for n in range(20)]
    assert len(sent.batches) == 1


async def test_a_lone_caller_waits_for_nobody() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits(linger_s=3600))
    assert (await publish(gatherer, b"1")).id == "1"
    assert (await publish(gatherer, b"2")).id == "2"
    assert sent.batches == [[b"1"], [b"2"]]


async def test_a_batch_is_closed_by_count_and_by_bytes() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits(count_max=3))
    await asyncio.gather(*(publish(gatherer, b"x") for _ in range(8)))
    assert [len(batch) for batch in sent.batches] == [3, 3, 2]
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits(size_max=10))
    await asyncio.gather(*(publish(gatherer, b"1234") for _ in range(5)))
    assert [len(batch) for batch in sent.batches] == [2, 2, 1]
    await publish(gatherer, b"x" * 100)  # larger than any batch: alone
    assert sent.batches[-1] == [b"x" * 100]


async def test_while_enough_are_under_way_the_next_batch_grows() -> None:
    sent = Sent(published)
    sent.may_answer.clear()
    gatherer = Gatherer(sent, GatherLimits(in_flight=1, linger_s=3600))
    tasks: list[asyncio.Task[Published]] = []
    for number in range(5):
        tasks.append(asyncio.create_task(publish(gatherer, b"%d" % number)))
        for _ in range(4):
            await asyncio.sleep(0)
    assert sent.batches == [[b"0"]]
    sent.may_answer.set()
    await asyncio.gather(*tasks)
    assert sent.batches == [[b"0"], [b"1", b"2", b"3", b"4"]]


async def test_the_wait_for_others_is_bounded() -> None:
    sent = Sent(published)
    sent.may_answer.clear()
    gatherer = Gatherer(sent, GatherLimits(in_flight=1, linger_s=0.001))
    first = asyncio.create_task(publish(gatherer, b"1"))
    await asyncio.sleep(0)
    second = asyncio.create_task(publish(gatherer, b"2"))
    while len(sent.batches) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    sent.may_answer.set()
    await asyncio.gather(first, second)


async def test_one_bad_event_fails_alone() -> None:
    refusal = api_problem(Problem(status=422, code="invalid"))

    def answer(item: bytes) -> Published | Exception:
        return refusal if item == b"bad" else published(item)

    gatherer = Gatherer(Sent(answer), GatherLimits())
    good, bad = await asyncio.gather(
        publish(gatherer, b"good"),
        publish(gatherer, b"bad"),
        return_exceptions=True,
    )
    assert isinstance(good, Published)
    assert bad is refusal


@pytest.mark.parametrize("error", [ServerUnreachable("u", "why"), ZeroDivisionError()])
async def test_a_lost_batch_fails_each_caller_with_an_error_of_its_own(
    error: Exception,
) -> None:
    async def send(batch: Sequence[bytes]) -> Results:
        raise error

    gatherer = Gatherer(send, GatherLimits())
    results = await asyncio.gather(
        *(publish(gatherer, b"x") for _ in range(2)), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(error)] * 2
    assert results[0] is not results[1]


async def test_a_cancelled_caller_is_left_out() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits())
    gone = asyncio.create_task(publish(gatherer, b"gone"))
    stays = asyncio.create_task(publish(gatherer, b"stays"))
    asyncio.get_running_loop().call_soon(gone.cancel)
    await asyncio.wait((gone, stays))
    assert sent.batches in ([[b"stays"]], [[b"gone", b"stays"]])
    assert stays.result().id == "stays"


async def test_what_counts_for_several_fills_a_batch_sooner() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits(count_max=10))
    await asyncio.gather(*(gatherer.add(b"x", 1, count) for count in (4, 6, 1, 99, 9)))
    assert [len(batch) for batch in sent.batches] == [2, 1, 1, 1]


async def test_a_result_that_nobody_waits_for_is_reported() -> None:
    sent = Sent(published)
    sent.may_answer.clear()
    unclaimed: list[Published] = []
    gatherer = Gatherer(sent, GatherLimits(), unclaimed.append)
    gone = asyncio.create_task(publish(gatherer, b"gone"))
    stays = asyncio.create_task(publish(gatherer, b"stays"))
    while not sent.batches:  # noqa: ASYNC110
        await asyncio.sleep(0)
    gone.cancel()
    sent.may_answer.set()
    await asyncio.wait((gone, stays))
    assert [one.id for one in unclaimed] == ["gone"]


async def test_drain_waits_for_every_answer() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits())
    task = asyncio.create_task(publish(gatherer, b"1"))
    await asyncio.sleep(0)
    await gatherer.drain()
    assert sent.batches == [[b"1"]]
    assert (await task).id == "1"

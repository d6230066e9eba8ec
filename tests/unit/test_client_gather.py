"""Gathering publishes: who travels with whom, and what becomes of each caller."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from halfpast.errors import ApiProblem, Problem, ServerUnreachable, api_problem
from halfpast.gather import Gathered, Gatherer, GatherLimits
from halfpast.model import EventState, Published

pytestmark = pytest.mark.asyncio
Results = list[Published | ApiProblem]


class Sent:
    """Notes the batches; answers when it is let, with what `answer` makes."""

    def __init__(self, answer: Callable[[Gathered], Published | ApiProblem]) -> None:
        self.batches: list[list[bytes]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._answer = answer

    async def __call__(self, batch: Sequence[Gathered]) -> Results:
        self.batches.append([gathered.packed for gathered in batch])
        await self.may_answer.wait()
        return [self._answer(gathered) for gathered in batch]


def published(gathered: Gathered) -> Published:
    return Published(
        id=gathered.packed.decode(), topic=gathered.topic, state=EventState.STORED
    )


async def test_callers_of_one_turn_share_a_batch_and_get_their_own_answer() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits())
    answers = await asyncio.gather(
        *(gatherer.publish("t", b"%d" % n) for n in range(20))
    )
    assert [answer.id for answer in answers] == [str(n) for n in range(20)]
    assert len(sent.batches) == 1


async def test_a_lone_caller_waits_for_nobody() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits(linger_s=3600))
    assert (await gatherer.publish("t", b"1")).id == "1"
    assert (await gatherer.publish("t", b"2")).id == "2"
    assert sent.batches == [[b"1"], [b"2"]]


async def test_a_batch_is_closed_by_count_and_by_bytes() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits(count_max=3))
    await asyncio.gather(*(gatherer.publish("t", b"x") for _ in range(8)))
    assert [len(batch) for batch in sent.batches] == [3, 3, 2]
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits(size_max=10))
    await asyncio.gather(*(gatherer.publish("t", b"1234") for _ in range(5)))
    assert [len(batch) for batch in sent.batches] == [2, 2, 1]
    await gatherer.publish("t", b"x" * 100)  # larger than any batch: alone
    assert sent.batches[-1] == [b"x" * 100]


async def test_while_enough_are_under_way_the_next_batch_grows() -> None:
    sent = Sent(published)
    sent.may_answer.clear()
    gatherer = Gatherer(sent, GatherLimits(in_flight=1, linger_s=3600))
    tasks: list[asyncio.Task[Published]] = []
    for number in range(5):
        tasks.append(asyncio.create_task(gatherer.publish("t", b"%d" % number)))
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
    first = asyncio.create_task(gatherer.publish("t", b"1"))
    await asyncio.sleep(0)
    second = asyncio.create_task(gatherer.publish("t", b"2"))
    while len(sent.batches) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    sent.may_answer.set()
    await asyncio.gather(first, second)


async def test_one_bad_event_fails_alone() -> None:
    refusal = api_problem(Problem(status=422, code="invalid"))

    def answer(gathered: Gathered) -> Published | ApiProblem:
        return refusal if gathered.packed == b"bad" else published(gathered)

    gatherer = Gatherer(Sent(answer), GatherLimits())
    good, bad = await asyncio.gather(
        gatherer.publish("t", b"good"),
        gatherer.publish("t", b"bad"),
        return_exceptions=True,
    )
    assert isinstance(good, Published)
    assert bad is refusal


@pytest.mark.parametrize("error", [ServerUnreachable("u", "why"), ZeroDivisionError()])
async def test_a_lost_batch_fails_each_caller_with_an_error_of_its_own(
    error: Exception,
) -> None:
    async def send(batch: Sequence[Gathered]) -> Results:
        raise error

    gatherer = Gatherer(send, GatherLimits())
    results = await asyncio.gather(
        *(gatherer.publish("t", b"x") for _ in range(2)), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(error)] * 2
    assert results[0] is not results[1]


async def test_a_cancelled_caller_is_left_out() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits())
    gone = asyncio.create_task(gatherer.publish("t", b"gone"))
    stays = asyncio.create_task(gatherer.publish("t", b"stays"))
    asyncio.get_running_loop().call_soon(gone.cancel)
    await asyncio.wait((gone, stays))
    assert sent.batches in ([[b"stays"]], [[b"gone", b"stays"]])
    assert stays.result().id == "stays"


async def test_drain_waits_for_every_answer() -> None:
    sent = Sent(published)
    gatherer = Gatherer(sent, GatherLimits())
    task = asyncio.create_task(gatherer.publish("t", b"1"))
    await asyncio.sleep(0)
    await gatherer.drain()
    assert sent.batches == [[b"1"]]
    assert (await task).id == "1"

"""The broker on real files, directly and over a socket: one suite for both."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from tests.integration.core_store_rig import Rig, bodies, open_rig

from halfpast_core_store.broker import (
    Acquire,
    Append,
    CommitOffsets,
    Dedup,
    DescribeTopic,
    Empty,
    EnsureTopic,
    FindEvent,
    Follow,
    GroupPolicy,
    Hold,
    ListGroups,
    ListTopics,
    Pop,
    Pull,
    ResolveTopics,
    Run,
    Settle,
    SettleAction,
    TopicNames,
)
from halfpast_core_store.errors import (
    FenceLost,
    IdempotencyConflict,
    OffsetOutOfRange,
    QueuesShrink,
    RequestTooLarge,
    TooEarly,
    UnknownQueue,
    UnknownTopic,
)
from halfpast_core_store.group_standing import DescribeGroup
from halfpast_core_store.record import Family, RecordKind, encode_record
from halfpast_core_store.topics import SYS_SCHEDULE

Result = TypeVar("Result")
WAIT_MS = 20_000  # long enough that only being woken ends it


@pytest_asyncio.fixture(params=["direct", "socket"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, request.param == "socket") as opened:
        yield opened


async def soon(waiting: Awaitable[Result]) -> Result:
    """The result, which must come well before a long poll would end by itself."""
    return await asyncio.wait_for(waiting, 5)


async def begun(waiting: Awaitable[Result]) -> "asyncio.Task[Result]":
    """A call that has reached the broker, and has nothing to give yet."""
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0.05)
    assert not task.done()
    return task


async def pop(rig: Rig, **options: object) -> list[bytes]:
    request = Pop("readers", "orders")
    for name, value in options.items():
        setattr(request, name, value)
    return bodies((await rig.broker.pop(request)).messages)


# --- topics ---------------------------------------------------------------------


@pytest.mark.asyncio
async def test_topics_are_made_once_however_many_ask(rig: Rig) -> None:
    requests = [ResolveTopics(["orders", f"t{i % 3}"], True, 2) for i in range(20)]
    answers = await asyncio.gather(*map(rig.broker.resolve_topics, requests))
    found = {topic for answer in answers for topic in answer.topics}
    assert len(found) == 4
    listed = await rig.broker.list_topics(ListTopics())
    assert [topic.name for topic in listed.topics] == ["orders", "t0", "t1", "t2"]
    assert len({topic.id for topic in listed.topics}) == 4


@pytest.mark.asyncio
async def test_a_topic_whose_first_caller_went_away_is_still_made_once(
    rig: Rig,
) -> None:
    first = asyncio.ensure_future(rig.topic("orders", 3))
    await asyncio.sleep(0)
    first.cancel()
    others = await asyncio.gather(*[rig.topic("orders", 3) for _ in range(5)])
    assert len({topic.id for topic in others}) == 1
    await rig.publish(b"x")
    await rig.restart()
    assert (await rig.topic("orders")) == others[0]
    assert await pop(rig) == [b"x"]


@pytest.mark.asyncio
async def test_topics_are_resolved_ensured_and_described(rig: Rig) -> None:
    (missing,) = (await rig.broker.resolve_topics(ResolveTopics(["no"]))).topics
    assert missing is None
    made = await rig.broker.ensure_topic(EnsureTopic("orders", 2))
    wider = await rig.broker.ensure_topic(EnsureTopic("orders", 3))
    assert (made.id, wider.queue_count) == (wider.id, 3)
    with pytest.raises(QueuesShrink):
        await rig.broker.ensure_topic(EnsureTopic("orders", 2))
    await rig.publish(b"a", b"b", queue=2)
    found = await rig.broker.describe_topic(DescribeTopic("orders"))
    assert [(q.offset_min, q.offset_max) for q in found.queues] == [
        (0, 0),
        (0, 0),
        (0, 2),
    ]
    named = await rig.broker.topics_by_id(TopicNames([made.id, 9999]))
    assert named.topics == [wider, None]
    with pytest.raises(UnknownTopic, match="no topic 'nobody'"):
        await rig.broker.describe_topic(DescribeTopic("nobody"))


# --- publish and pull -------------------------------------------------------------


@pytest.mark.asyncio
async def test_what_was_published_is_pulled_in_order(rig: Rig) -> None:
    await asyncio.gather(*[rig.publish(b"%d" % i) for i in range(50)])
    found = await rig.broker.pull(Pull("orders", 0, 0, 100))
    assert sorted(bodies(found.messages)) == sorted(b"%d" % i for i in range(50))
    assert [m.offset for m in found.messages] == list(range(50))
    assert (found.next_offset, found.offset_min, found.offset_max) == (50, 0, 50)
    rest = await rig.broker.pull(Pull("orders", 0, 48, 100))
    assert rest.messages == found.messages[48:]


@pytest.mark.asyncio
async def test_a_pull_outside_of_the_queue_is_an_error(rig: Rig) -> None:
    await rig.publish(b"a")
    for offset in (-1, 2, 2**40):
        with pytest.raises(OffsetOutOfRange) as raised:
            await rig.broker.pull(Pull("orders", 0, offset))
        assert (raised.value.offset, raised.value.offset_max) == (offset, 1)
    for queue in (-1, 1):
        with pytest.raises(UnknownQueue):
            await rig.broker.pull(Pull("orders", queue, 0))


@pytest.mark.asyncio
async def test_a_long_pull_is_woken_by_a_message(rig: Rig) -> None:
    await rig.topic()
    waiting = await begun(rig.broker.pull(Pull("orders", 0, 0, wait_ms=WAIT_MS)))
    await rig.publish(b"other", topic="other")
    await rig.publish(b"a")
    assert bodies((await soon(waiting)).messages) == [b"a"]


@pytest.mark.asyncio
async def test_a_long_pull_ends_with_nothing_when_its_time_is_up(rig: Rig) -> None:
    await rig.topic()
    started = time.monotonic()
    found = await rig.broker.pull(Pull("orders", 0, 0, wait_ms=60))
    assert time.monotonic() - started >= 0.059
    assert (found.messages, found.next_offset) == ([], 0)


@pytest.mark.asyncio
async def test_the_same_request_twice_is_stored_once(rig: Rig) -> None:
    topic = await rig.topic()
    key = Dedup(b"k" * 16, b"f" * 16, b"i" * 16, time.time_ns())
    request = Append([Run(topic.id, 0, [rig.record(b"a")])], dedup=key)
    answers = await asyncio.gather(*[rig.broker.append(request) for _ in range(5)])
    assert sum(answer.replayed is None for answer in answers) == 1
    await rig.restart()
    assert (await rig.broker.append(request)).replayed == key
    request.dedup = Dedup(key.key, b"g" * 16, key.base_id, key.accepted_ns)
    with pytest.raises(IdempotencyConflict):
        await rig.broker.append(request)
    assert await pop(rig) == [b"a"]


@pytest.mark.asyncio
async def test_too_early_and_too_large_are_errors(rig: Rig) -> None:
    due_ms = time.time_ns() // 1_000_000 + 60_000
    with pytest.raises(TooEarly):
        await rig.broker.append(Append([], due_max_ms=due_ms))
    topic = await rig.topic()
    large = rig.record(bytes(4 * 1024 * 1024))
    with pytest.raises(RequestTooLarge):
        await rig.broker.append(Append([Run(topic.id, 0, [large])]))


@pytest.mark.asyncio
async def test_an_undurable_append_is_durable_a_little_later(rig: Rig) -> None:
    topic = await rig.topic()
    run = Run(topic.id, 0, [rig.record(b"a")])
    await rig.broker.append(Append([run], durable=False))
    assert await soon(pop(rig, wait_ms=WAIT_MS)) == [b"a"]


@pytest.mark.asyncio
async def test_an_event_is_found(rig: Rig) -> None:
    topic = await rig.topic()
    record = rig.record(b"a")
    answer = await rig.broker.append(Append([Run(topic.id, 0, [record])]))
    found = await rig.broker.find_event(FindEvent(record[16:32]))
    assert (found.record, found.stored_ms) == (record, answer.stored_ms)
    assert (await rig.broker.find_event(FindEvent(bytes(16)))).record is None


# --- consumer groups ----------------------------------------------------------------


@pytest.mark.asyncio
async def test_pop_acknowledge_refuse_and_extend(rig: Rig) -> None:
    await rig.publish(b"a", b"b", b"c")
    popped = await rig.broker.pop(Pop("readers", "orders", invisible_ms=WAIT_MS))
    assert bodies(popped.messages) == [b"a", b"b", b"c"]
    ack, nack, extend = [[message.receipt] for message in popped.messages]
    settle = rig.broker.settle
    (done,) = (await settle(Settle("readers", SettleAction.ACK, ack))).results
    (back,) = (await settle(Settle("readers", SettleAction.NACK, nack, 0))).results
    (more,) = (await settle(Settle("readers", SettleAction.EXTEND, extend, 50))).results
    assert [done.code, back.code, more.code] == ["", "", ""]
    assert await pop(rig) == [b"b"]
    assert await soon(pop(rig, wait_ms=WAIT_MS)) == [b"c"]
    (late,) = (
        await settle(Settle("readers", SettleAction.ACK, [more.receipt]))
    ).results
    assert late.code == "receipt_expired"


@pytest.mark.asyncio
async def test_a_long_pop_is_woken_by_a_message(rig: Rig) -> None:
    await rig.topic()
    waiting = await begun(pop(rig, wait_ms=WAIT_MS))
    await rig.publish(b"a")
    assert await soon(waiting) == [b"a"]


@pytest.mark.asyncio
async def test_a_burst_goes_to_those_who_wait_each_message_once(rig: Rig) -> None:
    await rig.topic()
    waiting = [await begun(pop(rig, wait_ms=500, count=10)) for _ in range(5)]
    await asyncio.gather(*[rig.publish(b"%d" % i) for i in range(30)])
    got = [body for bodies in await asyncio.gather(*waiting) for body in bodies]
    while more := await pop(rig):
        got += more
    assert sorted(got) == sorted(b"%d" % i for i in range(30))


@pytest.mark.asyncio
async def test_a_long_pop_gets_what_comes_back(rig: Rig) -> None:
    await rig.publish(b"a")
    assert await pop(rig, invisible_ms=200) == [b"a"]
    started = time.monotonic()
    assert await soon(pop(rig, wait_ms=WAIT_MS)) == [b"a"]
    assert time.monotonic() - started >= 0.1


@pytest.mark.asyncio
async def test_a_long_pop_is_woken_by_a_refusal(rig: Rig) -> None:
    await rig.publish(b"a")
    popped = await rig.broker.pop(Pop("readers", "orders", invisible_ms=WAIT_MS))
    waiting = await begun(pop(rig, wait_ms=WAIT_MS))
    receipts = [popped.messages[0].receipt]
    await rig.broker.settle(Settle("readers", SettleAction.NACK, receipts, 10))
    assert await soon(waiting) == [b"a"]


@pytest.mark.asyncio
async def test_a_long_pop_that_had_too_much_in_flight_goes_on(rig: Rig) -> None:
    policy = GroupPolicy(in_flight_max=1)
    await rig.publish(b"a", b"b")
    request = Pop("readers", "orders", invisible_ms=WAIT_MS, policy=policy)
    popped = await rig.broker.pop(request)
    assert bodies(popped.messages) == [b"a"]
    waiting = await begun(pop(rig, wait_ms=WAIT_MS, policy=policy))
    receipts = [popped.messages[0].receipt]
    await rig.broker.settle(Settle("readers", SettleAction.ACK, receipts))
    assert await soon(waiting) == [b"b"]


@pytest.mark.asyncio
async def test_a_long_pop_looks_through_much_that_it_does_not_want(rig: Rig) -> None:
    for _ in range(5):
        await rig.publish(*[b"hay"] * 1000, tag=b"hay")
    await rig.publish(b"needle", tag=b"needle")
    assert await soon(pop(rig, wait_ms=WAIT_MS, tags=["needle"])) == [b"needle"]


@pytest.mark.asyncio
async def test_dead_letters_are_found_in_the_topic_of_their_group(rig: Rig) -> None:
    await rig.publish(b"poison")
    popped = await rig.broker.pop(Pop("readers", "orders"))
    policy = GroupPolicy(attempts_max=1)
    receipts = [popped.messages[0].receipt]
    await rig.broker.settle(
        Settle("readers", SettleAction.NACK, receipts, None, policy)
    )
    letters = await rig.broker.pull(Pull("%DLQ%readers", 0, 0))
    assert bodies(letters.messages) == [b"poison"]


@pytest.mark.asyncio
async def test_groups_are_listed_described_and_set_back(rig: Rig) -> None:
    await rig.publish(b"a", b"b", b"c")
    assert await pop(rig, count=2) == [b"a", b"b"]
    assert (await rig.broker.list_groups(ListGroups())).names == ["readers"]
    found = await rig.broker.describe_group(DescribeGroup("readers", "orders"))
    assert (found.queues[0].offset, found.in_flight) == (2, 2)
    await rig.broker.commit_offsets(CommitOffsets("readers", "orders", {0: 1}))
    assert await pop(rig) == [b"b", b"c"]
    for offsets in ({0: 4}, {0: -1}):
        with pytest.raises(OffsetOutOfRange):
            await rig.broker.commit_offsets(CommitOffsets("readers", "orders", offsets))
    with pytest.raises(UnknownQueue):
        await rig.broker.commit_offsets(CommitOffsets("readers", "orders", {1: 0}))


# --- following ------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_follower_is_woken_by_what_it_wants_only(rig: Rig) -> None:
    request = Follow(0, Family.TIMERS, wait_ms=WAIT_MS)
    waiting = await begun(rig.broker.follow(request))
    await rig.publish(b"message")
    await asyncio.sleep(0.05)
    assert not waiting.done()
    timer = encode_record(RecordKind.SCHEDULE, body=b"timer")
    await rig.broker.append(Append([Run(SYS_SCHEDULE, 0, [timer])]))
    found = await soon(waiting)
    assert [frame.records for frame in found.frames] == [[timer]]
    assert found.next_position == found.log_end
    assert request.position == 0, "the caller's request is the caller's"


@pytest.mark.asyncio
async def test_a_follower_whose_time_is_up_goes_on_from_the_end(rig: Rig) -> None:
    await rig.publish(b"message")
    found = await rig.broker.follow(Follow(0, Family.TIMERS, wait_ms=20))
    assert (found.frames, found.next_position) == ([], found.log_end)
    with pytest.raises(OffsetOutOfRange):
        await rig.broker.follow(Follow(found.log_end + 8, Family.TIMERS))


@pytest.mark.asyncio
async def test_roles_are_fenced(rig: Rig) -> None:
    old = await rig.broker.acquire(Acquire("chronos"))
    new = await rig.broker.acquire(Acquire("chronos"))
    with pytest.raises(FenceLost):
        await rig.broker.append(Append([], fence_role="chronos", fence_token=old.token))
    with pytest.raises(FenceLost):
        await rig.broker.hold(Hold("chronos", old.token, 0))
    await rig.broker.hold(Hold("chronos", new.token, 0))
    await rig.restart()
    with pytest.raises(FenceLost) as raised:
        await rig.broker.hold(Hold("chronos", new.token, 0))
    assert not raised.value.held


# --- life -----------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_everything_is_there_after_a_restart(rig: Rig) -> None:
    await rig.publish(b"a", b"b", b"c")
    popped = await rig.broker.pop(Pop("readers", "orders", 2, invisible_ms=WAIT_MS))
    receipts = [message.receipt for message in popped.messages]
    await rig.broker.settle(Settle("readers", SettleAction.ACK, receipts[:1]))
    await rig.restart()
    assert await pop(rig) == [b"c"]
    results = await rig.broker.settle(Settle("readers", SettleAction.ACK, receipts))
    assert [r.code for r in results.results] == ["receipt_expired", ""]
    found = await rig.broker.describe_group(DescribeGroup("readers", "orders"))
    assert found.in_flight == 1


@pytest.mark.asyncio
async def test_who_waits_is_sent_home_when_the_broker_closes(rig: Rig) -> None:
    await rig.publish(b"a")
    await pop(rig, invisible_ms=60)
    waiting: list[asyncio.Future[Any]] = [
        await begun(pop(rig, wait_ms=WAIT_MS, group="others", tags=["none"])),
        await begun(rig.broker.pull(Pull("orders", 0, 1, wait_ms=WAIT_MS))),
        await begun(rig.broker.follow(Follow(0, Family.TIMERS, wait_ms=WAIT_MS))),
    ]
    await asyncio.sleep(0.02)  # the hidden message is ready just as we close
    await soon(rig.restart())
    ended, _ = await asyncio.wait(waiting, timeout=5)
    assert len(ended) == 3
    assert all(future.exception() or True for future in ended)


@pytest.mark.asyncio
async def test_the_status_counts(rig: Rig) -> None:
    await rig.publish(b"a", b"b")
    status = await rig.broker.status(Empty())
    assert status.counters["log_records_total"] == 3  # the topic is one
    assert status.counters["log_frames_total"] == 2
    assert status.counters['lane_refused_total{lane="send"}'] == 0
    assert status.gauges["store_writable"] == 1
    assert status.gauges["log_durable_position"] > 0

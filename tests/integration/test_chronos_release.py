"""The release of topics by a real Delay Server, in process and over sockets."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.chronos_rig import CHRONOS, DelayRig, now_ms, open_rig

from halfpast_chronos.delay_server import Event, EventState, GetEvent
from halfpast_chronos.errors import EventNotDead, UnknownEvent
from halfpast_chronos.release_calls import AskTopics, ListDead, Redrive, TopicState
from halfpast_chronos.topic_controls import CLOSED, OPEN, TopicControl
from halfpast_core_store.broker import Append, Empty, Run
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.topics import SYS_SCHEDULE

QUICK = replace(CHRONOS, attempts_max=3, retry_initial_ms=10, retry_max_ms=20)


class Controls:
    """Set by the test. Only who looks at `revision` sees a change."""

    def __init__(self) -> None:
        self.revision = 0
        self.topics: dict[str, TopicControl] = {}
        self.asked: list[str] = []

    def set(self, name: str, control: TopicControl) -> None:
        self.topics[name] = control
        self.revision += 1

    def topic_control(self, name: str) -> TopicControl:
        self.asked.append(name)
        return self.topics.get(name, OPEN)

    async def refresh(self) -> None:
        """What the test has set is there already."""


@pytest.fixture
def controls() -> Controls:
    return Controls()


@pytest_asyncio.fixture(params=[False, True], ids=["in process", "over sockets"])
async def rig(
    request: pytest.FixtureRequest, tmp_path: Path, controls: Controls
) -> AsyncGenerator[DelayRig]:
    async with open_rig(tmp_path, request.param, controls, QUICK) as opened:
        yield opened


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while True:
            if await look():
                return
            await asyncio.sleep(0.005)


async def event(rig: DelayRig, event_id: bytes) -> Event:
    found = (await rig.delay.get_event(GetEvent(event_id))).event
    assert found is not None
    return found


async def until_dead(rig: DelayRig, event_id: bytes) -> Event:
    async def look() -> bool:
        return (await event(rig, event_id)).state == EventState.DEAD

    await until(look)
    return await event(rig, event_id)


async def state_of(rig: DelayRig) -> TopicState:
    info = await rig.topic()
    (state,) = (await rig.delay.topic_states(AskTopics([info.id]))).topics
    return state


@pytest.mark.asyncio
async def test_a_topic_is_asked_about_once_and_then_fires(
    rig: DelayRig, controls: Controls
) -> None:
    first = await rig.schedule(now_ms())
    await rig.wait_for(*first)
    more = await rig.schedule(*[now_ms() + 5] * 20)
    await rig.wait_for(*more)
    assert controls.asked == ["orders"]


@pytest.mark.asyncio
async def test_a_change_that_is_heeded_applies_at_once(
    rig: DelayRig, controls: Controls
) -> None:
    controls.set("orders", TopicControl(is_paused=True))
    waiting = await rig.schedule(now_ms(), now_ms() + 3_600_000)
    state = await state_of(rig)
    assert state.release_state == "paused"
    assert (state.pending, state.due_now) == (2, 1)
    assert await rig.arrivals() == []
    controls.set("orders", OPEN)
    await rig.delay.heed_settings(Empty())
    await rig.wait_for(waiting[0])
    assert (await state_of(rig)).release_state == "open"
    controls.set("orders", TopicControl(is_paused=True))
    await rig.delay.heed_settings(Empty())
    assert (await state_of(rig)).release_state == "paused"
    info = await rig.topic()
    counts = await rig.delay.pending_counts(AskTopics([info.id, info.id + 1]))
    assert counts.counts == [1, 0]


@pytest.mark.asyncio
async def test_a_change_that_nobody_tells_of_is_seen(
    rig: DelayRig, controls: Controls
) -> None:
    controls.set("orders", TopicControl(is_paused=True))
    (waiting,) = await rig.schedule(now_ms())
    assert (await state_of(rig)).release_state == "paused"
    controls.set("orders", OPEN)
    await rig.wait_for(waiting)


@pytest.mark.asyncio
async def test_an_event_dies_is_listed_and_redriven(
    rig: DelayRig, controls: Controls
) -> None:
    controls.set("orders", TopicControl(closed=CLOSED))
    (failing,) = await rig.schedule(now_ms(), body=b"precious")
    dead = await until_dead(rig, failing)
    assert (dead.attempts, dead.reason) == (3, CLOSED)
    page = await rig.delay.list_dead(ListDead())
    assert [it.event_id for it in page.events] == [failing]
    assert (await state_of(rig)).dead == 1
    controls.set("orders", OPEN)
    await rig.delay.heed_settings(Empty())
    redriven = await rig.delay.redrive(Redrive(failing))
    assert redriven.version == 2
    (arrival,) = await rig.wait_for(failing)
    assert arrival.body == b"precious"
    with pytest.raises(UnknownEvent):
        await rig.delay.redrive(Redrive(bytes(16)))
    (waiting,) = await rig.schedule(now_ms() + 3_600_000)
    with pytest.raises(EventNotDead):
        await rig.delay.redrive(Redrive(waiting))


@pytest.mark.asyncio
async def test_what_goes_to_a_topic_that_nobody_knows_dies(rig: DelayRig) -> None:
    record = encode_record(
        RecordKind.SCHEDULE,
        topic_id=999_999,
        event_id=rig.fresh_id(),
        born_ms=now_ms(),
        due_ms=now_ms(),
    )
    await rig.broker.append(Append([Run(SYS_SCHEDULE, 0, [record])]))
    dead = await until_dead(rig, record[16:32])
    assert dead.reason.startswith("unknown_topic")
    (good,) = await rig.schedule(now_ms())
    await rig.wait_for(good)


@pytest.mark.asyncio
async def test_all_of_it_outlives_a_restart(rig: DelayRig, controls: Controls) -> None:
    controls.set("orders", TopicControl(closed=CLOSED))
    (failing,) = await rig.schedule(now_ms())
    dead = await until_dead(rig, failing)
    controls.set("orders", TopicControl(is_paused=True))
    (waiting,) = await rig.schedule(now_ms())
    await rig.close_delay()
    await rig.open_delay()
    assert await event(rig, failing) == dead
    assert (await state_of(rig)).release_state == "paused"
    assert await rig.arrivals() == []
    controls.set("orders", OPEN)
    await rig.delay.redrive(Redrive(failing))
    await rig.wait_for(failing, waiting)


@pytest.mark.asyncio
async def test_a_closed_topic_holds_up_no_other(
    rig: DelayRig, controls: Controls
) -> None:
    controls.set("closed", TopicControl(closed=CLOSED))
    closed = await rig.topic("closed")
    due_ms = now_ms() + 100
    records = [
        encode_record(
            RecordKind.SCHEDULE,
            topic_id=closed.id,
            event_id=rig.fresh_id(),
            born_ms=now_ms(),
            due_ms=due_ms,
        )
        for _ in range(3_000)
    ]
    await rig.broker.append(Append([Run(SYS_SCHEDULE, 0, records)]))
    wanted = await rig.schedule(*range(due_ms, due_ms + 200, 10))
    found = await rig.wait_for(*wanted)
    lateness_ms = [it.stored_ms - it.due_ms for it in found]
    assert min(lateness_ms) >= 0
    assert max(lateness_ms) < 5_000  # they are tried again for minutes

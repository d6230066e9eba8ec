"""The release of topics, on the event loop: asked about, and what is dead redriven."""

import asyncio

from halfpast_core_store.follower import Follower

from .core import DelayCore
from .decider import Decider
from .delay_server import Event, EventPage
from .failing_decisions import decide_redrive
from .release_calls import (
    AskTopics,
    ListDead,
    PendingCounts,
    Redrive,
    TopicState,
    TopicStates,
)
from .release_state import list_dead, topic_state


class ReleaseService:
    """Answers for one Delay Server."""

    def __init__(self, core: DelayCore, decider: Decider, follower: Follower) -> None:
        self._core = core
        self._decider = decider
        self._follower = follower

    async def states(self, request: AskTopics) -> TopicStates:
        await self._follower.catch_up()
        return TopicStates([await self._state(it) for it in request.topic_ids])

    async def _state(self, topic_id: int) -> TopicState:
        for state in topic_state(self._core, topic_id):
            if state is not None:
                return state
            await asyncio.sleep(0)
        raise AssertionError("the last one is the answer")

    async def pending(self, request: AskTopics) -> PendingCounts:
        await self._follower.catch_up()
        return PendingCounts(
            [self._core.due_counts.pending(it) for it in request.topic_ids]
        )

    async def redrive(self, request: Redrive) -> Event:
        decided = await self._decider.decide(
            lambda: decide_redrive(self._core, request)
        )
        event = self._core.event(decided.event_id)
        assert event is not None
        record = self._core.record_of(decided.event_id, event)
        return event.public(decided.event_id, record)

    async def list_dead(self, request: ListDead) -> EventPage:
        await self._follower.catch_up()
        return list_dead(self._core, request)

"""Recurring schedules as others ask for them: decided, seen through, shown."""

import asyncio

from halfpast_core_store.follower import Follower

from . import recurring_state as stored
from .core import DelayCore
from .decider import Decider
from .decisions import Command, event_text
from .errors import UnknownSchedule
from .recurring import Recurring
from .recurring_calls import (
    ChangeSchedule,
    CreatedSchedule,
    CreateSchedule,
    EndSchedule,
    GetSchedule,
    GotSchedule,
    ListSchedules,
    PauseSchedule,
    Schedule,
    SchedulePage,
)
from .recurring_decisions import (
    Known,
    decide_change,
    decide_create,
    decide_end,
    decide_pause,
)
from .recurring_listing import ScheduleListing

FORGET_COUNT = 50


class RecurringService:
    """The part of `DelayService` that is about schedules."""

    def __init__(self, core: DelayCore, decider: Decider, follower: Follower) -> None:
        self._core = core
        self._recurring = Recurring(core)
        self._decide = decider.decide
        self._follower = follower

    async def create(self, request: CreateSchedule) -> CreatedSchedule:
        core, recurring = self._core, self._recurring
        decided = await self._decide(lambda: decide_create(core, recurring, request))
        if isinstance(decided, Known):
            return CreatedSchedule(self._schedule(decided.schedule_id), True)
        return CreatedSchedule(self._schedule(decided.event_id))

    async def change(self, request: ChangeSchedule) -> Schedule:
        core, recurring = self._core, self._recurring
        decided = await self._decide(lambda: decide_change(core, recurring, request))
        return self._schedule(decided.event_id)

    async def pause(self, request: PauseSchedule) -> Schedule:
        core, recurring = self._core, self._recurring
        return self._shown(
            await self._decide(lambda: decide_pause(core, recurring, request))
        )

    async def end(self, request: EndSchedule) -> Schedule:
        core, recurring = self._core, self._recurring
        return self._shown(
            await self._decide(lambda: decide_end(core, recurring, request))
        )

    async def get(self, request: GetSchedule) -> GotSchedule:
        await self._follower.catch_up()
        if self._recurring.progress(request.schedule_id) is None:
            return GotSchedule(None)
        return GotSchedule(self._schedule(request.schedule_id))

    async def list(self, request: ListSchedules) -> SchedulePage:
        await self._follower.catch_up()
        listing = ScheduleListing(self._core, request)
        more = True
        while more:
            more = listing.step()
            await asyncio.sleep(0)
        return listing.page()

    async def forget_all(self, history_ms: int) -> None:
        """Forget those that ended longer ago than that."""
        until_ms = self._core.now_ms() - history_ms
        more = True
        while more:
            more = self._recurring.forget(until_ms, FORGET_COUNT)
            await asyncio.sleep(0)

    def counters(self) -> dict[str, float]:
        return {"occurred_total": self._recurring.fired_count}

    def _shown(self, decided: Known | Command) -> Schedule:
        if isinstance(decided, Known):
            return self._schedule(decided.schedule_id)
        return self._schedule(decided.event_id)

    def _schedule(self, schedule_id: bytes) -> Schedule:
        progress = self._recurring.progress(schedule_id)
        if progress is None:
            raise UnknownSchedule(event_text(schedule_id))
        record = self._recurring.record(schedule_id)
        return stored.public(schedule_id, progress, record)

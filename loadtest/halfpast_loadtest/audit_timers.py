"""Delayed messages of every fate."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from halfpast_loadtest.audit_calls import AuditCalls
from halfpast_loadtest.audit_journal import REFUSED_FATES, TIMER_FATES, Journal
from halfpast_loadtest.audit_transactions import TOPICS

HOUR_MS = 3_600_000
SOON_MS = 400
CANCEL_WITHIN_MS = 3_000
DELAYS_MS = {
    **dict.fromkeys(TIMER_FATES, HOUR_MS),
    "fired": SOON_MS,
    "cancelled": CANCEL_WITHIN_MS,
    "bulk_cancelled": CANCEL_WITHIN_MS,
}
"""Those that are changed later are far enough away until then."""
TICKS = "ticks"
CLOSED = {"dead": "closed", "redriven": "closed-for-a-while"}
CHANGED = ("fired", "moved", "now", "bulk_moved", "replaced", "redriven")
"""What arrives in the end."""


class AuditTimers:
    """`count` of each fate, `refused` that their topic does not take, and one recurring
    schedule that occurs `ticks` times."""

    def __init__(
        self, calls: AuditCalls, journal: Journal, chance: random.Random
    ) -> None:
        self._calls = calls
        self._journal = journal
        self._chance = chance
        self._scheduled_s = 0.0

    async def schedule(self, count: int, refused: int) -> None:
        for fate in TIMER_FATES:
            events = [self._event(fate, number) for number in range(count)]
            if fate == "replaced":
                for number, event in enumerate(events):
                    await self._put(event, number)
                continue
            for event_id, topic in await self._calls.publish(events):
                self._journal.timers[event_id] = topic, fate
        for fate in REFUSED_FATES:
            topic = self._calls.name(CLOSED[fate])
            wanted = {"topic": topic, "data": fate, "delay_ms": CANCEL_WITHIN_MS}
            for event_id, _ in await self._calls.publish([wanted] * refused):
                self._journal.timers[event_id] = topic, fate
            if refused:
                await self._accept(topic, is_open=False)
        self._scheduled_s = time.monotonic()
        await self._cancel()
        await self._change_many("bulk_cancelled", "cancel", {})

    async def change(self) -> None:
        """Whatever is to be moved, delivered now, replaced or given another chance."""
        calls = self._calls
        for event_id, (_, fate) in self._of("moved", "now"):
            path = f"/v1/events/{event_id}"
            if fate == "moved":
                await calls.ask("PATCH", path, {"delay_ms": 30})
            else:
                await calls.post(f"{path}:deliver-now", {})
        for number, (event_id, (topic, _)) in enumerate(self._of("replaced")):
            event = {"topic": topic, "data": "new", "delay_ms": 30}
            assert await self._put(event, number) == event_id
        soon = datetime.now(UTC) + timedelta(milliseconds=50)
        at = {"deliver_at": soon.isoformat(timespec="milliseconds")}
        await self._change_many("bulk_moved", "reschedule", at)
        await self._redrive()

    async def recur(self, ticks: int) -> None:
        """A schedule whose times have passed: all of them come at once."""
        if not ticks:
            return
        calls = self._calls
        start = datetime.now(UTC) - timedelta(seconds=ticks + 1)
        topic = calls.name(TICKS)
        given = {
            "topic": topic,
            "data": "tick",
            "interval_ms": 1000,
            "start_at": start.isoformat(timespec="milliseconds"),
            "times": ticks,
            "catch_up": "fire_all",
        }
        await calls.post("/v1/schedules", given)
        await calls.until(partial(self._ticked, topic, ticks))

    async def settle(self) -> None:
        """Until all that was due has come: nothing is merely late."""
        for fate, state in {"dead": "dead", "bulk_cancelled": "cancelled"}.items():
            await self._settle(fate, state)
        for event_id, _ in self._of(*CHANGED):
            await self._calls.until(partial(self._is, event_id, {"delivered"}))
        passed_s = time.monotonic() - self._scheduled_s
        await asyncio.sleep(max(0.0, CANCEL_WITHIN_MS / 1000 + 0.1 - passed_s))

    # --- one by one -----------------------------------------------------------------

    def _event(self, fate: str, number: int) -> dict[str, Any]:
        delay_ms = DELAYS_MS[fate]
        if fate == "fired":
            delay_ms = self._chance.randint(1, delay_ms)
        topic = self._calls.name(TOPICS[number % len(TOPICS)])
        tag = fate.replace("_", "-")
        return {"topic": topic, "data": number, "delay_ms": delay_ms, "tag": tag}

    async def _put(self, event: dict[str, Any], number: int) -> str:
        topic = event["topic"]
        body = {name: it for name, it in event.items() if name != "topic"}
        path = f"/v1/topics/{topic}/events/named-{number}"
        event_id: str = (await self._calls.ask("PUT", path, body))["id"]
        self._journal.timers[event_id] = topic, "replaced"
        return event_id

    async def _cancel(self) -> None:
        """What the answer says is what counts: it may be too late."""
        for event_id, (topic, _) in self._of("cancelled"):
            want = frozenset({200, 409})
            path = f"/v1/events/{event_id}"
            told = await self._calls.ask("DELETE", path, b"", want)
            if told.get("outcome") != "cancelled":
                self._journal.timers[event_id] = topic, "fired"

    async def _change_many(self, fate: str, verb: str, more: dict[str, Any]) -> None:
        topics = sorted({topic for _, (topic, _) in self._of(fate)})
        for topic in topics:
            chosen = {"topic": topic, "tag": fate.replace("_", "-"), **more}
            begun = await self._calls.post(f"/v1/events:{verb}", chosen)
            await self._calls.until(partial(self._is_done, begun["id"]))

    async def _settle(self, fate: str, state: str) -> None:
        """Until they are so; or delivered, because we came too late."""
        for event_id, (topic, _) in self._of(fate):
            done = {state, "delivered"}
            await self._calls.until(partial(self._is, event_id, done))
            if await self._calls.state(event_id) != state:
                self._journal.timers[event_id] = topic, "fired"

    async def _redrive(self) -> None:
        await self._settle("redriven", "dead")
        for topic in {topic for _, (topic, _) in self._of("redriven")}:
            await self._accept(topic, is_open=True)
        for event_id, _ in self._of("redriven"):
            await self._calls.post(f"/v1/events/{event_id}:redrive", {})

    async def _accept(self, topic: str, *, is_open: bool) -> None:
        await self._calls.ask("PATCH", f"/v1/topics/{topic}", {"accepting": is_open})

    # --- looking --------------------------------------------------------------------

    def _of(self, *fates: str) -> list[tuple[str, tuple[str, str]]]:
        return [it for it in self._journal.timers.items() if it[1][1] in fates]

    async def _is(self, event_id: str, states: set[str]) -> bool:
        return await self._calls.state(event_id) in states

    async def _is_done(self, operation_id: str) -> bool:
        told = await self._calls.get(f"/v1/operations/{operation_id}")
        return bool(told["state"] == "done")

    async def _ticked(self, topic: str, ticks: int) -> bool:
        """Whether all of them are there; they are named by what is there."""
        described = await self._calls.get(f"/v1/topics/{topic}")
        for queue in range(described["queues"]):
            path = f"/v1/topics/{topic}/queues/{queue}/messages?offset=0&max=1000"
            for message in (await self._calls.get(path))["messages"]:
                self._journal.occurrences[message["id"]] = topic
        return len(self._journal.occurrences) >= ticks

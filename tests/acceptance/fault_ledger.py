"""What producers were promised while faults struck, and whether it was kept.

| answer | has to be so after all |
|---|---|
| 201 | once in the log, not before its time; or scheduled, if it is due far later |
| 503, 500, or none | at most once: the outcome is unknown |
| 507 | never: it says that nothing was stored |
"""

import asyncio
import dataclasses
import itertools
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from tests.acceptance.crash_producer import FAR_MS

from halfpast_loadtest.delivery_check import (
    Expectation,
    Fate,
    Problem,
    check_log,
    check_queues,
    check_states,
    due_set,
)
from halfpast_loadtest.errors import NotSent, OutcomeUnknown
from halfpast_loadtest.event_request import event_body, parse_accepted, state_or_code
from halfpast_loadtest.http_wire import Response, WireClient
from halfpast_loadtest.message import Message, now_ms
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.queue_reader import read_topics

TOPICS = ("fault-orders", "fault-payments")
STORE_FULL = 507
FOUND = frozenset({200, 404})


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What producers send. `far_share` of the events is due in an hour."""

    producers: int = 4
    body_bytes: int = 1500
    delayed_share: float = 0.3
    far_share: float = 0.1
    delay_ms_max: int = 600


class Ledger:
    """Sends events and notes each promise. One for all servers of a data folder."""

    def __init__(self, load: Load | None = None, *, seed: int = 1) -> None:
        self.load = load or Load()
        self.expectations: dict[str, Expectation] = {}
        self.refusals: list[Response] = []
        self.late_promises = 0
        """How many 201 one process gave to what came after its first failure."""
        self._numbers = itertools.count()
        self._chance = random.Random(seed)
        self._unknown_since_s: float | None = None

    def count(self, fate: Fate) -> int:
        return sum(one.fate is fate for one in self.expectations.values())

    def server_started(self) -> None:
        """A new process may acknowledge again, whatever the last one did."""
        self._unknown_since_s = None

    async def send(
        self, client: WireClient, topic: str = "", delay_ms: int | None = None
    ) -> Response | None:
        """One event; None if there was no answer. Raises NotSent."""
        serial = f"e{next(self._numbers):06d}"
        filling = "x" * self._chance.randint(1, self.load.body_bytes)
        data = msgspec.json.encode({"serial": serial, "filling": filling})
        one = Expectation(
            serial=serial,
            topic=topic or self._chance.choice(TOPICS),
            fate=Fate.AT_MOST_ONCE,
            data=data,
            due_floor_ms=now_ms() + (delay_ms or 0),
        )
        began_s = time.monotonic()
        try:
            answer = await client.request(
                "POST",
                f"/v1/topics/{one.topic}/events",
                event_body(data, delay_ms=delay_ms),
            )
        except OutcomeUnknown:
            answer = None
        self.expectations[serial] = self._noted(one, answer, began_s)
        return answer

    def _noted(
        self, one: Expectation, answer: Response | None, began_s: float
    ) -> Expectation:
        if answer is None or answer.status in (500, 503):
            self._unknown_since_s = self._unknown_since_s or time.monotonic()
            return one
        if answer.status == STORE_FULL:
            self.refusals.append(answer)
            return dataclasses.replace(one, fate=Fate.NEVER)
        assert answer.status == 201, answer
        if self._unknown_since_s is not None and began_s > self._unknown_since_s:
            self.late_promises += 1
        told = parse_accepted(answer.body)
        return dataclasses.replace(
            one, fate=Fate.ONCE, event_id=told.event_id, due_ms=due_set(told.due_ms)
        )

    def some_delay_ms(self) -> int | None:
        """As the load has it: none, a short one, or one beyond every test."""
        drawn = self._chance.random()
        if drawn < self.load.far_share:
            return FAR_MS
        if drawn < self.load.delayed_share:
            return self._chance.randint(0, self.load.delay_ms_max)
        return None

    async def send_until(
        self, clients: Iterable[WireClient], stop: asyncio.Event
    ) -> None:
        """All clients at once, until `stop` or until nobody listens any more."""

        async def produce(client: WireClient) -> None:
            while not stop.is_set():
                try:
                    await self.send(client, delay_ms=self.some_delay_ms())
                except NotSent:
                    return
            client.close()

        async with asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(produce(client))

    async def problems(self, client: PatientClient) -> list[Problem]:
        """What the log and the events' states say against the promises."""
        messages = await self._all_messages(client)
        now = now_ms()
        known = [
            dataclasses.replace(one, fate=Fate.WAITING)
            if one.fate is Fate.ONCE and min(one.due_ms, default=0) > now
            else one
            for one in self.expectations.values()
        ]
        states: dict[str, str] = {}
        for one in known:
            if one.fate is Fate.WAITING:
                answer = await client.request(
                    "GET", f"/v1/events/{one.event_id}", want=FOUND
                )
                states[one.event_id] = state_or_code(answer.body)
        return [
            *check_log(known, messages),
            *check_queues(messages),
            *check_states(known, states, messages, now),
        ]

    async def _all_messages(self, client: PatientClient) -> list[Message]:
        """Everything in the log, when all that is due soon has had time to come."""
        due_ms = now_ms() + self.load.delay_ms_max + 500
        wanted = sum(
            one.fate is Fate.ONCE and min(one.due_ms, default=0) < due_ms
            for one in self.expectations.values()
        )
        deadline = time.monotonic() + self.load.delay_ms_max / 1000 + 5
        while True:
            messages = await read_topics(client, TOPICS)
            ids = {message.id for message in messages}
            there = sum(one.event_id in ids for one in self.expectations.values())
            if there >= wanted or time.monotonic() > deadline:
                if self.count(Fate.AT_MOST_ONCE):  # it may come a little later still
                    await asyncio.sleep(self.load.delay_ms_max / 1000)
                return await read_topics(client, TOPICS)
            await asyncio.sleep(0.1)

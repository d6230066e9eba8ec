"""One connection that publishes, schedules, cancels and moves while servers die.

It goes on when an answer fails to come: with a coin's toss it asks again with the
same idempotency key, or leaves the outcome open. What it does follows its seed.
"""

import asyncio
import random
from dataclasses import dataclass, field

import msgspec
from tests.acceptance.crash_journal import Acked, Change, Changed, Journal, Sent

from halfpast_loadtest.errors import NotSent, OutcomeUnknown, RequestFailed
from halfpast_loadtest.event_request import (
    batch_body,
    due_body,
    event_body,
    parse_accepted,
    parse_batch,
    problem_code,
)
from halfpast_loadtest.http_wire import Response, WireClient, request_bytes
from halfpast_loadtest.message import now_ms

TOPICS = ("crash-orders", "crash-payments", "crash-refunds")
FAR_MS = 3_600_000
KEYS_PER_PRODUCER = 3


@dataclass(slots=True)
class Tally:
    """What happened, to show that the run was no idle one."""

    counts: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, what: str, count: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + count


@dataclass(slots=True, kw_only=True)
class _Pending:
    """A scheduled event that may be changed."""

    serial: str
    event_id: str


class CrashProducer:
    """Works until its task is told to stop. All randomness comes from the seed."""

    def __init__(
        self,
        name: str,
        client: WireClient,
        journal: Journal,
        tally: Tally,
        *,
        seed: int,
        delay_ms_max: int,
    ) -> None:
        self._name = name
        self._client = client
        self._journal = journal
        self._tally = tally
        self._delay_ms_max = delay_ms_max
        self._chance = random.Random(f"{seed}/{name}")
        self._count = 0
        self._pending: list[_Pending] = []
        self._replayable: list[tuple[bytes, str]] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Do random things until `stop` is set."""
        actions = {
            self._publish: 45,
            self._schedule: 25,
            self._batch: 8,
            self._cancel: 8,
            self._move: 8,
            self._promote: 2,
            self._replay: 4,
        }
        while not stop.is_set():
            [action] = self._chance.choices([*actions], [*actions.values()])
            await action()
            await asyncio.sleep(self._chance.uniform(0, 0.004))

    async def _publish(self) -> None:
        key = f"{self._name}-{self._chance.randrange(KEYS_PER_PRODUCER)}"
        keyed = self._chance.random() < 0.5
        sent = self._event(lane=key if keyed else "")
        body = event_body(sent.data.encode(), key=key if keyed else None)
        await self._send_one(sent, body)

    async def _schedule(self) -> None:
        delay_ms = self._chance.randint(0, self._delay_ms_max)
        if self._chance.random() < 0.1:
            delay_ms = FAR_MS
        asked_ms = now_ms()
        sent = self._event(due_floor_ms=asked_ms + delay_ms)
        if self._chance.random() < 0.5:
            sent.due_ms = asked_ms + delay_ms
            body = event_body(sent.data.encode(), due_ms=sent.due_ms)
        else:
            body = event_body(sent.data.encode(), delay_ms=delay_ms)
        await self._send_one(sent, body)

    async def _batch(self) -> None:
        atomic = self._chance.random() < 0.5
        group = f"{self._name}-batch-{self._count}" if atomic else ""
        asked_ms = now_ms()
        events: list[Sent] = []
        for _ in range(self._chance.randint(2, 40)):
            sent = self._event()
            sent.atomic_group = group
            if self._chance.random() < 0.5:
                sent.due_ms = asked_ms + self._chance.randint(0, self._delay_ms_max)
                sent.due_floor_ms = sent.due_ms
            events.append(sent)
        body = batch_body(
            [
                event_body(sent.data.encode(), topic=sent.topic, due_ms=sent.due_ms)
                for sent in events
            ],
            atomic=atomic,
        )
        self._journal.write(*events)
        answer = await self._ask("/v1/events:batch", body, key=events[0].serial)
        if answer is None:
            self._tally.add("unknown events of batches", len(events))
            return
        self._need(answer, 200)
        for sent, item in zip(events, parse_batch(answer.body), strict=True):
            if item.accepted is not None:
                self._acknowledged(sent, item.accepted.event_id, item.accepted.due_ms)
            elif item.status < 500:
                raise RequestFailed("an event of a batch", item.status, answer.body)

    async def _cancel(self) -> None:
        if (pending := self._take_pending()) is None:
            return
        path = f"/v1/events/{pending.event_id}"
        self._journal.write(Change(serial=pending.serial))
        answer = await self._change(request_bytes("DELETE", path))
        if answer is not None:
            outcomes = {200: "cancelled", 404: "not_found", 409: "too_late"}
            self._need(answer, *outcomes)
            outcome = outcomes[answer.status]
            self._journal.write(Changed(serial=pending.serial, outcome=outcome))
            self._tally.add(outcome)

    async def _move(self) -> None:
        if (pending := self._take_pending()) is None:
            return
        due_ms = now_ms() + self._chance.randint(0, self._delay_ms_max)
        path = f"/v1/events/{pending.event_id}"
        self._journal.write(Change(serial=pending.serial, due_ms=due_ms))
        answer = await self._change(request_bytes("PATCH", path, due_body(due_ms)))
        self._note_moved(pending, answer, "moved")

    async def _promote(self) -> None:
        if (pending := self._take_pending()) is None:
            return
        path = f"/v1/events/{pending.event_id}:deliver-now"
        self._journal.write(Change(serial=pending.serial, due_ms=0))
        answer = await self._change(request_bytes("POST", path))
        self._note_moved(pending, answer, "promoted")

    async def _replay(self) -> None:
        """An acknowledged request again, with its key: the same id must come."""
        if not self._replayable:
            return
        request, serial = self._chance.choice(self._replayable)
        answer = await self._once(request)
        if answer is not None:
            self._need(answer, 201)
            accepted = parse_accepted(answer.body)
            self._journal.write(
                Acked(serial=serial, event_id=accepted.event_id, due_ms=accepted.due_ms)
            )
            self._tally.add("replayed")

    async def _send_one(self, sent: Sent, body: bytes) -> None:
        self._journal.write(sent)
        path = f"/v1/topics/{sent.topic}/events"
        answer = await self._ask(path, body, key=sent.serial)
        if answer is None:
            self._tally.add("unknown")
            return
        self._need(answer, 201)
        accepted = parse_accepted(answer.body)
        self._acknowledged(sent, accepted.event_id, accepted.due_ms)

    async def _ask(self, path: str, body: bytes, *, key: str) -> Response | None:
        """POST with the idempotency key or without; retry an unknown outcome or not."""
        headers: dict[str, str] = {}
        if idempotent := self._chance.random() < 0.7:
            headers["Idempotency-Key"] = key
        request = request_bytes("POST", path, body, headers=headers)
        answer = await self._once(request)
        if answer is None and idempotent and self._chance.random() < 0.5:
            self._tally.add("retried with the same key")
            answer = await self._until_answered(request)
        if answer is not None and answer.status == 201 and idempotent:
            self._replayable.append((request, key))
        return answer

    async def _change(self, request: bytes) -> Response | None:
        """A cancel or move may be repeated; half of the unknown ones are."""
        answer = await self._once(request)
        if answer is None and self._chance.random() < 0.5:
            answer = await self._until_answered(request)
        if answer is None:
            self._tally.add("unknown change")
        return answer

    async def _once(self, request: bytes) -> Response | None:
        """Send it once; None if the outcome is unknown. Waits for a connection."""
        while True:
            try:
                answer = await self._client.roundtrip(request)
            except NotSent:
                await asyncio.sleep(0.02)
                continue
            except OutcomeUnknown:
                return None
            return None if answer.status >= 500 else answer

    async def _until_answered(self, request: bytes) -> Response:
        while True:
            if (answer := await self._once(request)) is not None:
                return answer
            await asyncio.sleep(0.02)

    def _event(self, *, lane: str = "", due_floor_ms: int = 0) -> Sent:
        self._count += 1
        serial = f"{self._name}-{self._count:06d}"
        document = {
            "serial": serial,
            "amount": self._chance.randint(1, 10**9),
            "note": "ä" * self._chance.randint(0, 40),
        }
        # One topic per key, so that the key's order can be seen.
        topic = TOPICS[sum(lane.encode()) % len(TOPICS)]
        return Sent(
            serial=serial,
            topic=topic if lane else self._chance.choice(TOPICS),
            data=msgspec.json.encode(document).decode(),
            lane=lane,
            sequence=self._count,
            due_floor_ms=due_floor_ms,
        )

    def _acknowledged(self, sent: Sent, event_id: str, due_ms: int | None) -> None:
        entry = Acked(serial=sent.serial, event_id=event_id, due_ms=due_ms)
        self._journal.write(entry)
        self._tally.add("acked now" if due_ms is None else "acked later")
        if due_ms is not None:
            self._pending.append(_Pending(serial=sent.serial, event_id=event_id))

    def _note_moved(
        self, pending: _Pending, answer: Response | None, what: str
    ) -> None:
        if answer is None:
            return
        self._need(answer, 200, 404, 409)
        entry = Changed(serial=pending.serial, outcome="not_found")
        if answer.status == 200:
            entry.outcome = "moved"
            entry.due_ms = parse_accepted(answer.body).due_ms
            self._pending.append(pending)
            self._tally.add(what)
        elif answer.status == 409:
            code = problem_code(answer.body)
            entry.outcome = "too_late" if code == "already_delivered" else code
        self._journal.write(entry)

    def _take_pending(self) -> _Pending | None:
        """A recent scheduled event, so that most of them are still to come."""
        if not self._pending:
            return None
        recent = range(max(0, len(self._pending) - 30), len(self._pending))
        return self._pending.pop(self._chance.choice(recent))

    def _need(self, answer: Response, *statuses: int) -> None:
        if answer.status not in statuses:
            raise RequestFailed(self._name, answer.status, answer.body)

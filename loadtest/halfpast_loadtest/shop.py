"""The producer of the demo: a shop that publishes, schedules, cancels and moves.

Every request carries an idempotency key or may be repeated as it is, so the shop
gets a definite answer for each, also through a crash, and knows exactly what must
be in the log afterwards.
"""

from collections.abc import Sequence
from dataclasses import replace

from halfpast_loadtest.delivery_check import Expectation, Fate, due_set
from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.event_request import (
    batch_body,
    due_body,
    event_body,
    parse_accepted,
    parse_batch,
    problem_code,
)
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.payloads import Payload, PayloadMaker

ANY_TRUTH = frozenset({200, 404, 409})


class Shop:
    """Publishes through one client and keeps what it was told, by serial."""

    def __init__(self, client: PatientClient, maker: PayloadMaker, run: str) -> None:
        self._client = client
        self._maker = maker
        self._run = run
        self.told: dict[str, Expectation] = {}
        self.scheduled: list[str] = []  # serials of delayed events
        self.cancelled_count = 0
        self.too_late_count = 0
        self.moved_count = 0
        self.replaced_count = 0

    async def publish(self, *, delay_ms: int | None = None) -> None:
        """One event by itself, now or after a delay."""
        payload = self._maker.make()
        asked_ms = now_ms()
        answer = await self._client.request(
            "POST",
            f"/v1/topics/{payload.topic}/events",
            event_body(
                payload.data,
                key=payload.key,
                tag=payload.tag,
                properties=payload.properties,
                delay_ms=delay_ms,
            ),
            headers={"Idempotency-Key": f"{self._run}-{payload.serial}"},
        )
        accepted = parse_accepted(answer.body)
        floor_ms = 0 if delay_ms is None else asked_ms + delay_ms
        self._note(payload, accepted.event_id, accepted.due_ms, floor_ms)

    async def publish_batch(self, due_ms: Sequence[int | None]) -> None:
        """One batch across topics, each event with its due time (None: now)."""
        payloads = [self._maker.make() for _ in due_ms]
        body = batch_body(
            [
                event_body(
                    payload.data,
                    topic=payload.topic,
                    key=payload.key,
                    tag=payload.tag,
                    properties=payload.properties,
                    due_ms=due,
                )
                for payload, due in zip(payloads, due_ms, strict=True)
            ]
        )
        key = f"{self._run}-batch-{payloads[0].serial}"
        answer = await self._client.request(
            "POST", "/v1/events:batch", body, headers={"Idempotency-Key": key}
        )
        for payload, item in zip(payloads, parse_batch(answer.body), strict=True):
            if item.accepted is None:
                raise RequestFailed("an event of a batch", item.status, answer.body)
            self._note(payload, item.accepted.event_id, item.accepted.due_ms, 0)

    async def remind(self, key: str, due_ms: int) -> None:
        """PUT a reminder by the shop's own key; it replaces the one before."""
        payload = self._maker.make("reminders")
        answer = await self._client.request(
            "PUT",
            f"/v1/topics/reminders/events/{key}",
            event_body(payload.data, due_ms=due_ms),
        )
        accepted = parse_accepted(answer.body)
        for serial, told in list(self.told.items()):
            if told.event_id == accepted.event_id:  # its old content will not come
                self.told[serial] = replace(told, fate=Fate.NEVER, event_id="")
                self.scheduled.remove(serial)
                self.replaced_count += 1
        self._note(payload, accepted.event_id, accepted.due_ms, due_ms)

    async def cancel(self, serial: str) -> None:
        """Cancel a scheduled event and believe the answer."""
        told = self.told[serial]
        answer = await self._client.request(
            "DELETE", f"/v1/events/{told.event_id}", want=ANY_TRUTH
        )
        if answer.status == 200:
            self.told[serial] = replace(told, fate=Fate.NEVER)
            self.cancelled_count += 1
        else:
            self._too_late("DELETE", answer.status, answer.body)

    async def move(self, serial: str, due_ms: int) -> None:
        """Reschedule an event to an absolute time."""
        told = self.told[serial]
        answer = await self._client.request(
            "PATCH",
            f"/v1/events/{told.event_id}",
            due_body(due_ms),
            want=ANY_TRUTH,
        )
        if answer.status == 200:
            moved = due_set(due_ms)
            self.told[serial] = replace(told, due_ms=moved, due_floor_ms=due_ms)
            self.moved_count += 1
        else:
            self._too_late("PATCH", answer.status, answer.body)

    def waiting(self, after_ms: int) -> list[str]:
        """Serials of events that are still to be delivered, later than `after_ms`."""
        return [
            serial
            for serial in self.scheduled
            if self.told[serial].fate is Fate.ONCE
            and min(self.told[serial].due_ms) > after_ms
        ]

    @property
    def expected_count(self) -> int:
        """How many messages the log must hold in the end."""
        return sum(told.fate is Fate.ONCE for told in self.told.values())

    def _note(
        self, payload: Payload, event_id: str, due_ms: int | None, floor_ms: int
    ) -> None:
        self.told[payload.serial] = Expectation(
            serial=payload.serial,
            topic=payload.topic,
            fate=Fate.ONCE,
            data=payload.data,
            event_id=event_id,
            due_ms=due_set(due_ms),
            due_floor_ms=floor_ms,
        )
        if due_ms is not None:
            self.scheduled.append(payload.serial)

    def _too_late(self, method: str, status: int, body: bytes) -> None:
        code = problem_code(body)
        if code == "already_delivered":
            self.too_late_count += 1
        elif status != 404:  # of a forgotten event the log will show the loss
            raise RequestFailed(method, status, body)

"""Simulated clients of the API: what they ask, and what they were answered."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.sim_model import Sent, demand
from tests.simulation.sim_settings import QUEUES, TOPICS

from halfpast_chronos.decisions import (
    Busy,
    Command,
    decide_cancel,
    decide_replace,
    decide_reschedule,
)
from halfpast_chronos.delay_server import Cancel, Cancelled, Replace, Reschedule
from halfpast_chronos.errors import DelayError
from halfpast_core_store.broker import Append, Appended, Dedup, Run
from halfpast_core_store.errors import CoreError, FenceLost
from halfpast_core_store.record import RecordFlag, RecordKind, encode_record
from halfpast_core_store.topics import SYS_SCHEDULE

if TYPE_CHECKING:
    from tests.simulation.sim_world import World


class Clients:
    """Producers and schedulers of one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self._model = world.model
        self._ids = 0
        self._sequence = 0
        self._retries: list[bytes] = []

    def _next_id(self) -> bytes:
        self._ids += 1
        return (self._ids << 14).to_bytes(16, "big")

    def publish(self) -> None:
        """Send a few events over topics and queues, at once or later, atomically."""
        base = self._next_id()
        runs: list[Run] = []
        sents: list[Sent] = []
        for i in range(self._random.choice((1, 1, 2, 5))):
            self._sequence += 1
            event_id = (int.from_bytes(base, "big") + i).to_bytes(16, "big")
            topic = self._random.choice(TOPICS)
            queue = self._random.randrange(QUEUES)
            later = self._random.random() < 0.5
            due_ms = self._world.now_ms + self._random.choice((0, 1, 20, 100, 900))
            sent = self._model.send(event_id, due_ms if later else 0, self._sequence)
            sents.append(sent)
            record = self._record(event_id, topic, queue, due_ms if later else 0)
            target = (SYS_SCHEDULE, 0) if later else (topic, queue)
            runs.append(Run(*target, [record]))

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                for sent in sents:
                    sent.acknowledged = True

        self._submit(Append(runs, durable=self._world.durable), done)

    def _record(self, event_id: bytes, topic: int, queue: int, due_ms: int) -> bytes:
        return encode_record(
            RecordKind.SCHEDULE if due_ms else RecordKind.NORMAL,
            topic_id=topic,
            queue_id=queue,
            event_id=event_id,
            born_ms=self._world.now_ms,
            due_ms=due_ms,
            body=self._sequence.to_bytes(4, "big") + bytes(self._random.randint(0, 90)),
        )

    def _submit(
        self, request: Append, done: Callable[[Appended | Exception], None]
    ) -> None:
        with contextlib.suppress(CoreError):
            self._world.store.submit(request, done)

    def publish_keyed(self) -> None:
        """Send with an idempotency key, or try one again that got no answer."""
        answered = self._model.answered
        unanswered = [key for key in self._retries if not answered[key]]
        if unanswered and self._random.random() < 0.6:
            key = self._random.choice(unanswered)
        else:
            key = self._world.rng.bits(128).to_bytes(16, "big")
        base = self._next_id()
        self._model.send(base, 0, 0)
        self._model.keyed[key].append(base)
        self._retries.append(key)
        record = self._record(base, TOPICS[0], QUEUES - 1, 0)
        dedup = Dedup(key, bytes(16), base, self._world.clock.wall_ns)

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                first = answer.replayed.base_id if answer.replayed else base
                self._model.answered[key].add(first)

        self._submit(Append([Run(TOPICS[0], QUEUES - 1, [record])], dedup=dedup), done)

    def decide(self) -> None:
        """Cancel, reschedule, promote or replace some scheduled event."""
        later = [s for s in self._model.sent.values() if s.due_ms and not s.cancel]
        if not later or not self._world.live:
            return
        sent = self._random.choice(later[-20:])
        self._world.catch_up()
        try:
            if self._random.random() < 0.5:
                self._cancel(sent)
            else:
                self._move(sent)
        except DelayError:
            pass

    def _cancel(self, sent: Sent) -> None:
        decision = decide_cancel(self._world.core, Cancel(sent.event_id))
        if isinstance(decision, Busy):
            return
        if isinstance(decision, Cancelled):
            if decision.outcome != "not_found" or sent.acknowledged:
                sent.cancel = decision.outcome
            if decision.outcome == "not_found":
                demand(not sent.acknowledged, 4, "an acknowledged event was not found")
            return
        sent.maybe_cancelled = True

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                sent.cancel = "cancelled"

        self._command(decision, done)

    def _move(self, sent: Sent) -> None:
        due_ms = self._world.now_ms + self._random.choice((-5, 1, 40, 300))
        now = self._random.random() < 0.3
        request = Reschedule(sent.event_id, due_ms, None, now)
        decision = decide_reschedule(self._world.core, request)
        if isinstance(decision, Busy):
            return
        due_ms = self._world.now_ms if now else due_ms
        before = set(sent.dues)
        sent.dues.add(due_ms)

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                sent.dues -= before - {due_ms}

        self._command(decision, done)

    def put(self) -> None:
        """Create or replace by an own key; the last one answered is what counts."""
        if not self._world.live:
            return
        self._world.catch_up()
        key = self._random.choice((b"a", b"b"))
        self._sequence += 1
        due_ms = self._world.now_ms + self._random.choice((1, 50, 300))
        fresh = self._next_id()
        record = encode_record(
            RecordKind.SCHEDULE,
            topic_id=TOPICS[1],
            event_id=fresh,
            born_ms=self._world.now_ms,
            due_ms=due_ms,
            key=key,
            flags=RecordFlag.UPSERT,
            body=bytes(4),
        )
        try:
            decision = decide_replace(self._world.core, Replace(record))
        except DelayError:
            return
        if isinstance(decision, Busy):
            return
        sent = self._model.sent.get(decision.event_id)
        if sent is None:
            sent = self._model.send(decision.event_id, due_ms, 0)
        before = set(sent.dues)
        sent.dues.add(due_ms)

        def done(answer: Appended | Exception) -> None:
            if isinstance(answer, Appended):
                sent.acknowledged = True
                sent.dues -= before - {due_ms}

        self._command(decision, done)

    def _command(
        self, command: Command, done: Callable[[Appended | Exception], None]
    ) -> None:
        request = command.request
        request.fence_role, request.fence_token = "chronos", self._world.token
        core = self._world.core

        def answered(answer: Appended | Exception) -> None:
            if isinstance(answer, FenceLost):
                return
            done(answer)

        try:
            self._world.store.submit(request, answered)
        except CoreError:
            core.release(command.claims)
            core.return_to_wheel(command.event_id)
            return
        if self._world.answer_early:
            done(Appended(0, 0))

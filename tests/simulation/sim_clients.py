"""Simulated clients of the API: what they ask, and what they were answered."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.sim_model import Sent, demand
from tests.simulation.sim_settings import (
    ALL_TOPICS,
    CHOOSY_TOPICS,
    QUEUES,
    TOPICS,
    Focus,
)

from halfpast_chronos.decisions import (
    Command,
    decide_cancel,
    decide_replace,
    decide_reschedule,
)
from halfpast_chronos.delay_server import (
    Cancel,
    Cancelled,
    EventState,
    Replace,
    Reschedule,
)
from halfpast_chronos.errors import DelayError
from halfpast_core_store.broker import Append, Appended, Dedup, Run
from halfpast_core_store.errors import CoreError
from halfpast_core_store.record import RecordFlag, RecordKind, encode_record
from halfpast_core_store.topics import SYS_SCHEDULE

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

FINISHED = (EventState.DELIVERED, EventState.CANCELLED)
STATES = {
    "too_late": EventState.DELIVERED,
    "cancelled": EventState.CANCELLED,
    "already_delivered": EventState.DELIVERED,
    "already_cancelled": EventState.CANCELLED,
    "event_dead": EventState.DEAD,
}
"""What the Delay Server says of an event, and what is so then."""


class Clients:
    """Producers and schedulers of one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self._model = world.model
        self._ids = 0
        self._sequence = 0
        self._retries: list[bytes] = []
        plain = world.focus == Focus.BROKER
        self._delays_ms = (0, 1, 20, 100, 900) if plain else (0, 1, 20, 100, 900, 2500)
        self._counts = (1, 1, 2, 5) if plain else (1, 2, 5, 12)
        self._names = (b"", b"k1", b"k2")
        self._tags = (b"",) if plain else (b"", b"x")
        self._upsert_topics = TOPICS[1:] if plain else (TOPICS[1], CHOOSY_TOPICS[0])

    def _next_id(self) -> bytes:
        self._ids += 1
        return (self._ids << 14).to_bytes(16, "big")

    def publish(self) -> None:
        """Send a few events over topics and queues, at once or later, atomically."""
        base = self._next_id()
        runs: list[Run] = []
        sents: list[Sent] = []
        for i in range(self._random.choice(self._counts)):
            self._sequence += 1
            event_id = (int.from_bytes(base, "big") + i).to_bytes(16, "big")
            topic = self._random.choice(TOPICS)
            queue = self._random.randrange(QUEUES)
            later = self._random.random() < 0.5
            due_ms = self._world.now_ms + self._random.choice(self._delays_ms)
            if later and self._world.focus != Focus.BROKER:
                topic = self._random.choice(ALL_TOPICS)
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
            key=self._random.choice(self._names),
            tag=self._random.choice(self._tags),
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

    # --- decisions ----------------------------------------------------------------

    def decide(self) -> None:
        """Cancel, reschedule, promote or replace some scheduled event."""
        later = [s for s in self._model.sent.values() if s.due_ms and not s.cancel]
        if not later:
            return
        sent = self._random.choice(later[-20:])
        if self._random.random() < 0.5:
            self._cancel(sent)
        else:
            self._move(sent)

    def _cancel(self, sent: Sent) -> None:
        process = self._world.delay
        request = Cancel(sent.event_id)

        def decided() -> Any:
            decision = decide_cancel(process.core, request)
            if isinstance(decision, Command):
                sent.maybe_cancelled = True
            return decision

        def answered(answer: object) -> None:
            if isinstance(answer, Command):
                sent.cancel = "cancelled"
            elif isinstance(answer, Cancelled):
                self._check_state(sent.event_id, answer.outcome)
                if answer.outcome != "not_found":
                    sent.cancel = answer.outcome
                elif sent.acknowledged and not self._is_forgotten(sent.event_id):
                    demand(False, 4, "an acknowledged event was not found")

        process.decide(decided, answered)

    def _is_forgotten(self, event_id: bytes) -> bool:
        timer = self._world.timers.timers.get(event_id)
        finished = timer is not None and timer.state in FINISHED
        return finished and self._world.forgets_events

    def _move(self, sent: Sent) -> None:
        process = self._world.delay
        asked_ms = self._world.now_ms + self._random.choice((-5, 1, 40, 300))
        now = self._random.random() < 0.3
        moved = Moved(sent)

        def decided() -> Any:
            request = Reschedule(sent.event_id, asked_ms, None, now)
            decision = decide_reschedule(process.core, request)
            if isinstance(decision, Command):
                moved.to(self._world.now_ms if now else asked_ms)
            return decision

        def answered(answer: object) -> None:
            if isinstance(answer, Command):
                moved.surely()
            elif isinstance(answer, DelayError):
                self._check_state(sent.event_id, answer.code)

        process.decide(decided, answered)

    def _check_state(self, event_id: bytes, told: str) -> None:
        """What is said to be the reason of a refusal is so by the log."""
        state = STATES.get(told)
        timer = self._world.timers.timers.get(event_id)
        if state is not None:
            true = timer is not None and timer.state == state
            demand(true, 4, f"{event_id.hex()} is {told}, says the server: {timer}")

    def put(self) -> None:
        """Create or replace by an own key; the last one answered is what counts."""
        process = self._world.delay
        key = self._random.choice((b"a", b"b"))
        topic = self._random.choice(self._upsert_topics)
        self._sequence += 1
        due_ms = self._world.now_ms + self._random.choice((1, 50, 300))
        fresh = self._next_id()
        record = encode_record(
            RecordKind.SCHEDULE,
            topic_id=topic,
            event_id=fresh,
            born_ms=self._world.now_ms,
            due_ms=due_ms,
            key=key,
            flags=RecordFlag.UPSERT,
            body=self._sequence.to_bytes(4, "big"),
        )
        request = Replace(record, self._random.choice((None, None, None, 1, 2)))
        moves: list[Moved] = []

        def decided() -> Any:
            decision = decide_replace(process.core, request)
            if isinstance(decision, Command):
                if decision.created:
                    self._check_free(topic, key)
                sent = self._model.sent.get(decision.event_id)
                if sent is None:
                    sent = self._model.send(decision.event_id, due_ms, 0)
                moves.append(Moved(sent))
                moves[-1].to(due_ms)
            return decision

        def answered(answer: object) -> None:
            if isinstance(answer, Command):
                moves[-1].sent.acknowledged = True
                moves[-1].surely()
            elif isinstance(answer, DelayError):
                event_id = process.core.own_event(topic, key)
                if event_id is not None:
                    self._check_state(event_id, answer.code)

        process.decide(decided, answered)

    def _check_free(self, topic: int, key: bytes) -> None:
        """Nothing is pending under this own key."""
        pending = [
            timer.event_id.hex()
            for timer in self._world.timers.timers.values()
            if timer.is_pending and (timer.topic_id, timer.key) == (topic, key)
        ]
        demand(not pending, 4, f"{pending} are there, yet a new one is made")


class Moved:
    """A change of an event's due time, whose answer may never come."""

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self._number = 0

    def to(self, due_ms: int) -> None:
        """It is asked for."""
        self._number = max(self.sent.asked) + 1
        self.sent.asked[self._number] = due_ms

    def surely(self) -> None:
        """It was answered: what was decided before counts no more."""
        for number in [it for it in self.sent.asked if it < self._number]:
            del self.sent.asked[number]

"""A Delay Server's core beside a log that is a plain list, on a clock set by hand."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from halfpast_chronos import keys
from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.core import DelayCore, Firing
from halfpast_chronos.decisions import Busy, Command
from halfpast_chronos.event_state import StoredEvent
from halfpast_chronos.topic_controls import OPEN, TopicControl
from halfpast_core_store.broker import Append, FollowedFrame
from halfpast_core_store.errors import TooEarly
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import (
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_core_store.topics import USER_TOPIC_ID_MIN

START_MS = 1_700_000_000_000
TOPIC = USER_TOPIC_ID_MIN
FRAME_LENGTH = 64


class HandClock:
    """Stands still until somebody moves it. See `ports.Clock`."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ns = now_ms * 1_000_000

    def now_ns(self) -> int:
        return self.ns

    def monotonic_ns(self) -> int:
        return self.ns

    def advance(self, ms: int) -> None:
        self.ns += ms * 1_000_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message that reached its queue."""

    event_id: bytes
    topic_id: int
    due_ms: int
    stored_ms: int
    body: bytes
    queue_id: int = 0


def event_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def schedule_record(number: int, due_ms: int, **fields: Any) -> bytes:
    """A SCHEDULE record of the event `number`."""
    fields.setdefault("topic_id", TOPIC)
    fields.setdefault("body", b"event %d" % number)
    return encode_record(
        RecordKind.SCHEDULE,
        event_id=event_id(number),
        born_ms=START_MS,
        due_ms=due_ms,
        **fields,
    )


def own_record(number: int, due_ms: int, key: bytes, **fields: Any) -> bytes:
    """A SCHEDULE record that goes by the caller's own key."""
    return schedule_record(number, due_ms, key=key, flags=RecordFlag.UPSERT, **fields)


class Line:
    """Appends are durable at once, but applied only by `follow`.

    With `is_controlled`, topics are told about when the core meets them.
    """

    def __init__(self, *, is_controlled: int = False, **config: int) -> None:
        self.clock = HandClock()
        self.config = ChronosConfig(**config)
        self.index = MemoryIndex()
        self.frames: list[FollowedFrame] = []
        self.arrivals: list[Arrival] = []
        self.is_controlled = bool(is_controlled)
        self.controls: dict[int, TopicControl] = {}
        self.core = self._new_core()

    def _new_core(self) -> DelayCore:
        return DelayCore(
            self.index, self.clock, self.config, is_controlled=self.is_controlled
        )

    @property
    def now_ms(self) -> int:
        return self.core.now_ms()

    @property
    def log_end(self) -> int:
        return self.frames[-1].end if self.frames else 0

    # --- the broker's part ------------------------------------------------------

    def append(self, request: Append) -> None:
        """Make a request durable, as one frame. Raises TooEarly as the broker does."""
        if request.due_max_ms > self.now_ms:
            raise TooEarly(request.due_max_ms - self.now_ms)
        system: list[bytes] = []
        for run in request.runs:
            if run.topic_id < USER_TOPIC_ID_MIN:
                system += run.records
            else:
                self._arrive(run.topic_id, run.queue_id, run.records)
        self.append_records(system)

    def append_records(self, records: list[bytes]) -> None:
        start = self.log_end
        stored_ms = max([self.now_ms, *(frame.stored_ms for frame in self.frames[-1:])])
        frame = FollowedFrame(start, start + FRAME_LENGTH, stored_ms, records)
        self.frames.append(frame)

    def _arrive(self, topic_id: int, queue_id: int, records: Iterable[bytes]) -> None:
        for data in records:
            record = decode_record(data)
            assert record.kind == RecordKind.NORMAL
            assert record.topic_id == topic_id
            arrival = Arrival(
                record.event_id,
                topic_id,
                record.due_ms,
                self.now_ms,
                record.body,
                queue_id,
            )
            self.arrivals.append(arrival)

    def follow(self) -> list[bytes]:
        """Apply what is durable; gives the claims that this released."""
        first = self.core.position // FRAME_LENGTH
        released = self.core.apply(self.frames[first:], self.log_end)
        self.meet()
        return released

    def meet(self) -> None:
        """Tell the core about the topics that it has met."""
        strangers = self.core.horizon.strangers
        topics = [keys.timer_topic(prefix) for prefix in strangers]
        strangers.clear()
        for topic in topics:
            self.core.control(topic, self.controls.get(topic, OPEN))

    def control(self, topic: int = TOPIC, **fields: Any) -> None:
        """From now on this topic is released so."""
        self.controls[topic] = TopicControl(**fields)
        self.core.control(topic, self.controls[topic])

    # --- the service's part -----------------------------------------------------

    def schedule(self, number: int, due_ms: int, **fields: Any) -> bytes:
        """Accept one timer; gives its id."""
        self.append_records([schedule_record(number, due_ms, **fields)])
        self.follow()
        return event_id(number)

    def load(self) -> None:
        while self.core.horizon.load(self.now_ms):
            pass

    def send(self, firing: Firing | None) -> None:
        """Let a firing become durable, and apply it."""
        assert firing is not None
        self.append(firing.request)
        self.follow()

    def fire_all(self) -> list[int]:
        """Fire what is due until nothing is; numbers of the events, in order."""
        before = len(self.arrivals)
        while True:
            self.load()
            firing = self.core.fire()
            if firing is None:
                break
            self.send(firing)
        return [number_of(arrival.event_id) for arrival in self.arrivals[before:]]

    def see_through(self, decision: object) -> Command:
        """Append a command and apply it."""
        assert isinstance(decision, Command), decision
        self.append(decision.request)
        released = self.follow()
        assert set(decision.claims) <= set(released)
        return decision

    def crash(self, kept: int) -> None:
        """Lose all but `kept` of the batches since the last flush, start anew."""
        self.index = self.index.crash(kept)
        self.core = self._new_core()
        self.follow()

    def event(self, number: int) -> StoredEvent:
        event = self.core.event(event_id(number))
        assert event is not None
        return event


def number_of(identity: bytes) -> int:
    return int.from_bytes(identity, "big")


def busy_with(decision: object) -> bytes:
    """The claim that a decision has to wait for."""
    assert isinstance(decision, Busy), decision
    return decision.claim

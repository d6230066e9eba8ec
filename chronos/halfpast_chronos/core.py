"""The Delay Server's core: timers as a projection of the log, and what is due.

State changes in one way only: by `apply`, with records that are durable in the
log, in log order. Firing, cancelling and the like only *write* such records; until
one comes back, the timer is `claimed`, and nobody else may decide about it. So a
crash at any point leaves either the record in the log, or nothing.

    claim ──> record appended ──> durable ──> apply: state changes, claim released
       └────> refused (nothing was stored): release

`projection.py` is the half that applies, this the half that decides what to write.
Synchronous and pure; `service.py` and the simulator drive both.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from halfpast_core_store.broker import Append, Lane, Run
from halfpast_core_store.errors import (
    CoreError,
    RequestTooLarge,
    UnknownQueue,
    UnknownTopic,
)
from halfpast_core_store.ports import Clock, Index, IndexBatch
from halfpast_core_store.record import (
    HEADER,
    HEADER_SIZE,
    RecordFlag,
    RecordKind,
    encode_record,
    with_attempt,
    with_kind,
    without_flag,
)
from halfpast_core_store.rpc_errors import FrameTooLarge
from halfpast_core_store.topics import SYS_FIRED

from . import keys
from .bulk_records import row_count
from .clock_watch import ClockWatch
from .config import ChronosConfig
from .event_state import StoredEvent
from .failing import Failing
from .projection import SCHEDULE, TimerProjection
from .topic_controls import TopicControl

GAP = (
    "timers scheduled before this are unknown: the folder chronos/ is new, and the "
    "log does not reach back; restore it from a backup"
)
READ_COUNT = 25
COUNTS_SIZE = 4 * 1024 * 1024  # of the counts, saved with one flush
OTHERS_COUNT = 25  # timers of other kinds in one frame: they may take some thinking
OCCURRED_SIZE = 30  # of one occurrence in an OCCURRED record, about
FIRED_COUNT = 100  # timers in one FIRED record, which is applied in one go
TOO_LARGE = (RequestTooLarge, FrameTooLarge)
REFUSED_FOR_GOOD = (*TOO_LARGE, UnknownTopic, UnknownQueue)
"""To try the same again helps nothing."""


@dataclass(slots=True)
class Firing:
    """Timers on their way into the log, and the request that brings them there."""

    keys: list[bytes]
    request: Append
    message_count: int = 0
    """How many messages they are; a schedule may make several."""


@dataclass(slots=True)
class Became:
    """What a timer of another kind becomes: records for the same frame, the due times
    of the messages among them, and the size of it all."""

    runs: list[Run]
    dues_ms: list[int]
    size: int


Become = Callable[[bytes, bytes, int], Became | None]
"""Given a due timer's key, its record, and how many bytes it may roughly take. None
if it is no timer any longer."""


@dataclass(slots=True)
class Others:
    """Timers of other kinds on their way into one frame."""

    keys: list[bytes] = field(default_factory=list[bytes])
    runs: list[Run] = field(default_factory=list[Run])
    dues_ms: list[int] = field(default_factory=list[int])

    def add(self, key: bytes, became: Became | None) -> int:
        """Gives how many bytes it takes."""
        if became is None:
            return 0
        self.keys.append(key)
        self.runs += became.runs
        self.dues_ms += became.dues_ms
        return became.size


class DelayCore(TimerProjection):
    """The timers, and what to do about them."""

    def __init__(
        self,
        index: Index,
        clock: Clock,
        config: ChronosConfig,
        *,
        is_controlled: bool = False,
    ) -> None:
        super().__init__(index, clock, config, is_controlled=is_controlled)
        self._fire_size = config.fire_size
        self._alone: deque[bytes] = deque()
        """Timers of refused frames, to find out which of them was at fault."""
        self._alone_is_next = False
        self.failing = Failing(self, config)
        self.clock_watch = ClockWatch(clock, config.clock_jump_ms)
        self.is_draining = False
        """Whether what is due since the clock was set forward is fired slowly."""
        self.becomes: dict[int, Become] = {}
        """What timers become whose record is of another kind than SCHEDULE."""
        self.other_timers: list[Callable[[bytes], bytes | None]] = []
        """Each tells the key of the pending timer of this id, if it knows one."""

    # --- firing ---------------------------------------------------------------

    def control(self, topic_id: int, control: TopicControl) -> None:
        """From now on a topic is released like this."""
        self.failing.control(topic_id, control)
        self.horizon.control(
            keys.timer_prefix(topic_id),
            is_held=control.is_paused,
            rate_per_s=control.release_rate_per_s,
        )

    def fire(self) -> Firing | None:
        """What is due now, as one atomic request; the timers are claimed.

        The caller appends it, and calls `refused` if nothing was stored.
        """
        due = self._due()
        fired: list[bytes] = []
        later: list[bytes] = []
        queues: dict[tuple[int, int], list[bytes]] = {}
        others = Others()
        size = 0
        are_retries: bool | None = None
        failing, may_fail = self.failing, self.failing.may_fail
        for looked, (key, data) in enumerate(self._records(due)):
            if size >= self._fire_size:
                later += due[looked:]
                break
            if data is None:
                continue  # it was in the wheel when it went, and was dropped late
            if data[4] != SCHEDULE and len(others.keys) >= OTHERS_COUNT:
                later.append(key)
                continue
            if data[4] != SCHEDULE:
                size += others.add(
                    key, self.becomes[data[4]](key, data, self._fire_size)
                )
                continue
            head = HEADER.unpack_from(data)
            if may_fail and (why := failing.why_not(key, head)):
                size += others.add(key, self._failed(key, head, why))
                continue
            message = with_kind(data, RecordKind.NORMAL)
            if are_retries is None:
                are_retries = head[3] > 0
            elif are_retries != (head[3] > 0):  # lest these fail because of those
                later.append(key)
                continue
            if are_retries:
                message = with_attempt(message, 0)
            if head[2] & RecordFlag.OCCURRENCE:  # it has come into the log before
                message = without_flag(message, RecordFlag.OCCURRENCE)
            queues.setdefault((head[4], head[14]), []).append(message)
            fired.append(key)
            self._fired[key[keys.TIMER_ID_AT :]] = (key, data)
            size += len(data)
        if later:
            self.horizon.add_many(later)
        if not fired and not others.keys:
            return None
        request = fire_request(queues, fired, others)
        count = len(fired) + len(others.dues_ms)
        fired += others.keys
        self.claims.update(key[keys.TIMER_ID_AT :] for key in fired)
        return Firing(fired, request, count)

    def idle_until(self, now_ms: int) -> int:
        """When something may have to be done next, or 0 if there is something now."""
        return 0 if self._alone else self.horizon.idle_until(now_ms)

    def _due(self) -> list[bytes]:
        """What is due, or one that is to go alone: in turn, if there are both."""
        now_ms = self.now_ms()
        self.watch_clock()
        self._alone_is_next = not self._alone_is_next
        if self._alone_is_next and (due := self._next_alone()):
            return due
        found = self.horizon.due(now_ms, self._config.fire_count)
        due = [key for key in found if key[keys.TIMER_ID_AT :] not in self.claims]
        return due or self._next_alone()

    def _next_alone(self) -> list[bytes]:
        while self._alone:
            key = self._alone.popleft()
            is_free = key[keys.TIMER_ID_AT :] not in self.claims
            if is_free and not self.horizon.holds(key):
                return [key]
        return []

    def watch_clock(self) -> None:
        """Drain what is due instead of firing it, while the clock may be wrong."""
        jump = self.clock_watch.jump()
        if jump > 0:
            self.is_draining = True
            self.horizon.turns.drain.set_rate(self._config.drain_rate_per_s)
        elif self.is_draining and (jump < 0 or self.horizon.is_idle(self.now_ms())):
            self.is_draining = False
            self.horizon.turns.drain.set_rate(0)

    def _failed(self, key: bytes, head: tuple[int, ...], reason: str) -> Became:
        """What a timer becomes whose message is not taken."""
        record = self.failing.record(head, key[keys.TIMER_ID_AT :], reason)
        return Became([Run(SYS_FIRED, 0, [record])], [], len(record))

    def _records(self, timers: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        """Timers with their records: those that the horizon kept, the others read a
        few at a time, since one may be 4 MiB."""
        take = self.horizon.take_record
        for at in range(0, len(timers), READ_COUNT):
            part = timers[at : at + READ_COUNT]
            records = [take(key) for key in part]
            missing = [i for i, record in enumerate(records) if record is None]
            if missing:
                found = self.index.get_many([part[i] for i in missing])
                for i, record in zip(missing, found, strict=True):
                    records[i] = record
            yield from zip(part, records, strict=True)

    def refused(self, firing: Firing, error: CoreError | None = None) -> bool:
        """Nothing of this was stored: the timers are due again.

        True if the next request may succeed at once: if some message in this one was
        at fault, it is found by sending each alone, and fails.
        """
        self.release(key[keys.TIMER_ID_AT :] for key in firing.keys)
        for key in firing.keys:
            self._fired.pop(key[keys.TIMER_ID_AT :], None)
        for_good = isinstance(error, REFUSED_FOR_GOOD)
        at_fault = firing.message_count == 1 or not isinstance(error, TOO_LARGE)
        if for_good and len(firing.keys) == 1 <= firing.message_count and at_fault:
            assert error is not None
            self.failing.refuse(firing.keys[0], f"{error.code}: {error}")
            self._alone.append(firing.keys[0])
            return True
        if for_good and not isinstance(error, TOO_LARGE) and len(firing.keys) > 1:
            self._alone.extend(firing.keys)
            return True
        if isinstance(error, TOO_LARGE):  # the broker's frames are small
            self._fire_size = max(1, min(self._fire_size, error.size_max) // 2)
        self.horizon.add_many(firing.keys)
        return False

    def release(self, claims: Iterable[bytes]) -> None:
        """Give up claims whose record was not stored."""
        for claim in claims:
            self.claims.discard(claim)

    def return_to_wheel(self, event_id: bytes) -> None:
        """A claim was given up: if the timer is pending still, it may fire."""
        event = self.event(event_id)
        if event is not None and event.pending:
            self._fired.pop(event_id, None)
            self.horizon.add(keys.timer(event.topic_id, event.timer_ms, event_id))
        for find in self.other_timers if event is None else ():
            if (timer := find(event_id)) is not None:
                self.horizon.add(timer)

    # --- questions ------------------------------------------------------------

    def record_of(self, event_id: bytes, event: StoredEvent) -> bytes | None:
        """The message of an event that is pending or dead."""
        if event.pending:
            return self.index.get(keys.timer(event.topic_id, event.timer_ms, event_id))
        return self.failing.record_of(event_id, event) if event.open else None

    def own_event(self, topic_id: int, key: bytes) -> bytes | None:
        """The id of the event that was put under this key last."""
        return self.index.get(keys.own_key(topic_id, key))

    def counters(self) -> dict[str, float]:
        """Counts since the start, as the metrics show them."""
        return {
            "scheduled_total": self.scheduled_count,
            "fired_total": self.fired_count,
            "cancelled_total": self.cancelled_count,
            **self.failing.counters(),
            **self.clock_watch.counters(),
            **self.lateness.metrics(),
        }

    def gauges(self) -> dict[str, float]:
        """The present state, as the metrics show it."""
        return {
            "timers_in_wheel": len(self.horizon),
            "timers_claimed": len(self.claims),
            "delay_applied_position": self.position,
            "lateness_ms_max": self.lateness.max_ms,
            "timers_pending": self.due_counts.pending_in_all(),
            "timers_counted": float(self.due_counts.is_exact),
            "events_finished": self.history.count,
            "clock_jump_draining": float(self.is_draining),
        }

    # --- upkeep ---------------------------------------------------------------

    def save_position(self) -> int:
        """Enter how far the log has been looked at, also where it had nothing for
        us: what lies before a flushed position may be deleted from the log."""
        batch = self.index.batch()
        batch.put(keys.APPLIED, keys.U64.pack(self.position))
        self.save_counts(batch, COUNTS_SIZE)
        self.index.write(batch)
        return self.position

    def save_counts(self, batch: IndexBatch, size_max: int) -> None:
        """Enter so many bytes of what has been counted."""
        self.history.save(batch)
        is_whole = self.history.is_exact and not self.mid_frame
        self.due_counts.save(batch, size_max, is_whole=is_whole)

    def forget(self, limit: int) -> bool:
        """Delete up to `limit` finished events of which it is time.

        True if there may be more.
        """
        batch = self.index.batch()
        count = self.history.forget(batch, self.now_ms(), limit)
        if count:
            self.due_counts.spoil(batch)
            self.index.write(batch)
        return count == limit


def fire_request(
    queues: dict[tuple[int, int], list[bytes]], fired: list[bytes], others: Others
) -> Append:
    """Messages for their queues and the records that their timers have fired."""
    entries = [keys.fired_entry(key) for key in fired]
    records = [
        encode_record(RecordKind.FIRED, body=b"".join(entries[at : at + FIRED_COUNT]))
        for at in range(0, len(fired), FIRED_COUNT)
    ]
    runs = [Run(topic, queue, some) for (topic, queue), some in queues.items()]
    if records:
        runs.append(Run(SYS_FIRED, 0, records))
    runs += others.runs
    due_max_ms = max([*map(keys.timer_due_ms, fired), *others.dues_ms], default=0)
    return Append(runs, Lane.SYSTEM, due_max_ms=due_max_ms)


def timer_count(record: bytes) -> int:
    """How many timers a record is about: what it costs to apply."""
    if record[4] == RecordKind.OCCURRED:
        return 1 + len(record) // OCCURRED_SIZE
    if record[4] != RecordKind.FIRED:
        return row_count(record) or 1
    return (len(record) - HEADER_SIZE) // keys.FIRED_SIZE

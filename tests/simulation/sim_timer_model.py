"""What the log says of timers, read record by record by a plain model.

Every frame that became durable comes here once, in log order. Each record must fit
what has been before it: so whatever the Delay Server decides on something that is not
true shows at once, and what its index holds can be compared with what the log tells.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.sim_model import demand, is_transactional
from tests.simulation.sim_operation_model import OperationModel
from tests.simulation.sim_schedule_model import ScheduleModel

from halfpast_chronos import keys
from halfpast_chronos.delay_server import EventState
from halfpast_core_store.record import Record, RecordKind
from halfpast_core_store.topics import USER_TOPIC_ID_MIN

if TYPE_CHECKING:
    from tests.simulation.sim_delay import DelayProcess
    from tests.simulation.sim_world import World

DEAD_LETTERS = 11


@dataclass(slots=True)
class Timer:
    """One event. `touched` counts the records about it."""

    event_id: bytes
    topic_id: int
    due_ms: int
    born_ms: int
    key: bytes
    tag: bytes
    body: bytes
    version: int
    state: EventState = EventState.SCHEDULED
    attempts: int = 0
    retry_ms: int = 0
    touched: int = 0
    deaths: int = 0
    by_operation: bool = False
    """Whether an operation has changed it."""

    @property
    def is_pending(self) -> bool:
        return self.state == EventState.SCHEDULED

    @property
    def is_cancelled_by_operation(self) -> bool:
        return self.by_operation and self.state == EventState.CANCELLED

    @property
    def timer_ms(self) -> int:
        return self.retry_ms or self.due_ms

    @property
    def timer(self) -> bytes:
        return keys.timer(self.topic_id, self.timer_ms, self.event_id)


@dataclass(slots=True)
class Frame:
    """What of one frame is of interest: records in their order, and messages."""

    position: int
    stored_ms: int
    records: list[tuple[Record, bytes]] = field(
        default_factory=list[tuple[Record, bytes]]
    )
    messages: dict[bytes, Record] = field(default_factory=dict[bytes, Record])
    """Messages with a due time, until a record accounts for them."""
    is_timer: set[bytes] = field(default_factory=set[bytes])
    """Occurrences that are timers of their own, of which OCCURRED tells."""

    def add(self, topic_id: int, record: Record, data: bytes) -> None:
        """The next record of the frame; those of users' topics are messages."""
        if topic_id < USER_TOPIC_ID_MIN:
            self.records.append((record, data))
            if record.kind == RecordKind.SCHEDULE and is_of_schedule(record):
                self.is_timer.add(record.event_id)
        elif record.due_ms and not is_transactional(record.event_id):
            twice = record.event_id in self.messages
            demand(not twice, 3, f"{record.event_id.hex()} is twice in a frame")
            self.messages[record.event_id] = record


def is_of_schedule(record: Record) -> bool:
    """Whether a recurring schedule has made this message."""
    return b"schedule_occurrence" in record.properties


class TimerModel:
    """All timers, by the log."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.timers: dict[bytes, Timer] = {}
        self.schedules = ScheduleModel(world)
        self.operations = OperationModel(world, self.timers)
        self.position = -1
        self.counts: dict[int, int] = {}
        self._apply = {
            RecordKind.SCHEDULE: self._schedule,
            RecordKind.FIRED: self._fired,
            RecordKind.CANCEL: self._cancel,
            RecordKind.RESCHEDULE: self._move,
            RecordKind.REPLACE: self._move,
            RecordKind.FAILED: self._failed,
            RecordKind.DEAD: self._failed,
            RecordKind.REDRIVEN: self._redriven,
            RecordKind.RECURRING: self._of_schedule,
            RecordKind.OCCURRED: self._of_schedule,
            RecordKind.RECURRING_ENDED: self._of_schedule,
            RecordKind.OPERATION: self._operation,
            RecordKind.BULK_CANCEL: self._operation,
            RecordKind.BULK_RESCHEDULE: self._operation,
        }

    def follow(self, frame: Frame) -> None:
        """The next frame; one that is known already is passed over."""
        if frame.position <= self.position:
            return
        self.position = frame.position
        for record, data in frame.records:
            apply = self._apply.get(RecordKind(record.kind))
            if apply is not None:
                self.counts[record.kind] = self.counts.get(record.kind, 0) + 1
                apply(frame, record, data)
        left = [event_id.hex() for event_id in frame.messages]
        demand(not left, 3, f"{left} were delivered, and nobody said so")
        odd = [event_id.hex() for event_id in frame.is_timer]
        demand(not odd, 8, f"{odd} are timers of schedules, and nobody said so")

    # --- records --------------------------------------------------------------------

    def _schedule(self, _: Frame, record: Record, __: bytes) -> None:
        event_id = record.event_id
        demand(event_id not in self.timers, 2, f"{event_id.hex()} is scheduled twice")
        self.timers[event_id] = Timer(
            event_id,
            record.topic_id,
            record.due_ms,
            record.born_ms,
            record.key,
            record.tag,
            record.body,
            record.version or 1,
        )

    def _known(self, record: Record, event_id: bytes) -> Timer:
        timer = self.timers.get(event_id)
        assert timer is not None, f"{event_id.hex()}: {record.kind} before SCHEDULE"
        timer.touched += 1
        return timer

    def _fired(self, frame: Frame, record: Record, _: bytes) -> None:
        for _, timer_ms, event_id in keys.FIRED_ENTRY.iter_unpack(record.body):
            timer, name = self._known(record, event_id), event_id.hex()
            demand(timer.is_pending, 3, f"{name} fires, and is {timer.state.name}")
            same = timer_ms == timer.timer_ms
            demand(same, 2, f"{name} fires as of {timer_ms}, not {timer.timer_ms}")
            late_ms = frame.stored_ms - timer_ms
            demand(late_ms >= 0, 2, f"{name} fires {-late_ms} ms early")
            timer.state = EventState.DELIVERED
            if is_transactional(event_id):
                continue  # of a transaction
            message = frame.messages.pop(event_id, None)
            demand(message is not None, 2, f"{name} has fired without its message")
            assert message is not None
            told = (message.topic_id, message.due_ms, message.key, message.body)
            meant = (timer.topic_id, timer.due_ms, timer.key, timer.body)
            demand(told == meant, 2, f"{name} was delivered as {told}, not {meant}")

    def _cancel(self, _: Frame, record: Record, __: bytes) -> None:
        timer = self._known(record, record.event_id)
        is_open = timer.state in (EventState.SCHEDULED, EventState.DEAD)
        demand(is_open, 4, f"{record.event_id.hex()} is cancelled when {timer.state}")
        timer.state = EventState.CANCELLED
        timer.version += 1

    def _move(self, _: Frame, record: Record, __: bytes) -> None:
        timer, name = self._known(record, record.event_id), record.event_id.hex()
        demand(timer.is_pending, 4, f"{name} is moved, and is {timer.state.name}")
        next_one = record.version == timer.version + 1
        demand(next_one, 4, f"{name} becomes {record.version} from {timer.version}")
        timer.version, timer.due_ms = record.version, record.due_ms
        timer.attempts = timer.retry_ms = 0
        if record.kind == RecordKind.REPLACE:
            timer.born_ms, timer.tag = record.born_ms, record.tag
            timer.body = record.body

    def _failed(self, _: Frame, record: Record, __: bytes) -> None:
        timer, name = self._known(record, record.event_id), record.event_id.hex()
        demand(timer.is_pending, DEAD_LETTERS, f"{name} fails, and is {timer.state}")
        early_ms = timer.timer_ms - record.born_ms
        demand(early_ms <= 0, DEAD_LETTERS, f"{name} is tried {early_ms} ms too soon")
        attempt = timer.attempts + 1
        told = record.attempt
        demand(told == attempt, DEAD_LETTERS, f"{name} fails {told}., not {attempt}.")
        is_last = attempt == self._world.chronos.attempts_max
        dies = record.kind == RecordKind.DEAD
        demand(dies == is_last, DEAD_LETTERS, f"{name} dies at attempt {attempt}")
        demand(bool(record.body), DEAD_LETTERS, f"{name} fails without a reason")
        timer.attempts, timer.retry_ms = attempt, record.due_ms
        if dies:
            timer.state = EventState.DEAD
            timer.deaths += 1
            return
        pause_ms = record.due_ms - record.born_ms
        chronos = self._world.chronos
        doubled = chronos.retry_initial_ms * 2 ** (attempt - 1)
        meant_ms = min(doubled, chronos.retry_max_ms)
        demand(pause_ms == meant_ms, DEAD_LETTERS, f"{name} waits for {pause_ms} ms")

    def _redriven(self, _: Frame, record: Record, __: bytes) -> None:
        timer, name = self._known(record, record.event_id), record.event_id.hex()
        is_dead = timer.state == EventState.DEAD
        demand(is_dead, DEAD_LETTERS, f"{name} is redriven, and is {timer.state.name}")
        timer.state = EventState.SCHEDULED
        timer.due_ms, timer.version = record.due_ms, record.version
        timer.attempts = timer.retry_ms = 0

    def _of_schedule(self, frame: Frame, record: Record, _: bytes) -> None:
        self.schedules.follow(frame, record)

    def _operation(self, _: Frame, record: Record, __: bytes) -> None:
        self.operations.follow(record)

    # --- comparing ------------------------------------------------------------------

    def check(self, process: "DelayProcess") -> None:
        """The process answers what the log tells, if it has seen all of it."""
        core = process.core
        if core.mid_frame or core.position < self._world.store.log.durable_end:
            return
        self.schedules.check(process)
        wanted = set(self.schedules.timers())
        dead: set[bytes] = set()
        for event_id, timer in self.timers.items():
            self._check_event(process, timer)
            if timer.is_pending:
                wanted.add(timer.timer)
            elif timer.state == EventState.DEAD:
                dead.add(event_id)
        pending = core.index.scan_keys(b"T", b"U", 10_000)
        demand(set(pending) == wanted, 7, f"{set(pending) ^ wanted} are timers, or not")
        listed = {key[-16:] for key in core.index.scan_keys(b"Dd", b"De", 10_000)}
        demand(listed == dead, DEAD_LETTERS, f"{listed ^ dead} are dead, or are not")
        self._check_counts(process, pending)

    def _check_event(self, process: "DelayProcess", timer: Timer) -> None:
        event, name = process.core.event(timer.event_id), timer.event_id.hex()
        if event is None:
            may_be = self._world.forgets_events and timer.state in (
                EventState.DELIVERED,
                EventState.CANCELLED,
            )
            demand(may_be, 7, f"{name} is unknown, and {timer.state.name}")
            return
        told = (event.state, event.due_ms, event.version)
        meant = (timer.state, timer.due_ms, timer.version)
        demand(told == meant, 7, f"{name} stands at {told}, not {meant}")
        if timer.is_pending:
            waits = (event.attempts, event.retry_ms)
            should = (timer.attempts, timer.retry_ms)
            demand(waits == should, DEAD_LETTERS, f"{name} waits {waits}, not {should}")

    def _check_counts(self, process: "DelayProcess", pending: Iterable[bytes]) -> None:
        """Where counts are said to be exact, they are."""
        core = process.core
        counts: dict[int, int] = {}
        for key in pending:
            counts[keys.timer_topic(key)] = counts.get(keys.timer_topic(key), 0) + 1
        for topic in {*counts, *core.due_counts.topic_ids()}:
            if core.due_counts.is_exact_of(topic):
                told, there = core.due_counts.pending(topic), counts.get(topic, 0)
                demand(told == there, 7, f"topic {topic} has {there}, counted {told}")
        if core.history.is_exact:
            finished = len(core.index.scan_keys(b"F", b"G", 10_000))
            told = core.history.count
            demand(told == finished, 7, f"{finished} are finished, counted {told}")

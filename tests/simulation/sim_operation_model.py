"""What the log says of bulk operations: they change what they should, and once."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from tests.simulation.sim_model import demand

from halfpast_chronos import keys
from halfpast_chronos.bulk_records import CANCEL_SIZE, MOVE
from halfpast_chronos.delay_server import EventState
from halfpast_chronos.operation import Bulk, BulkAction, Operation, OperationState
from halfpast_core_store.record import Record, RecordKind

if TYPE_CHECKING:
    from tests.simulation.sim_timer_model import Timer
    from tests.simulation.sim_world import World

PROMISE = 9
_operation = msgspec.msgpack.Decoder(Operation)


@dataclass(slots=True)
class Run:
    """One operation."""

    operation: Operation
    meant: dict[bytes, int]
    """What matched and was pending when it began, and how often it had been touched."""
    changed: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """What it has changed, and how often that had been touched then."""
    count: int = 0


class OperationModel:
    """All operations, by the log."""

    def __init__(self, world: "World", timers: dict[bytes, "Timer"]) -> None:
        self._world = world
        self._timers = timers
        self.known: dict[bytes, Run] = {}
        self.changed = 0
        self.done = 0

    def follow(self, record: Record) -> None:
        """The next record about an operation."""
        if record.kind == RecordKind.OPERATION:
            self._operation(_operation.decode(record.body))
            return
        run = self.known[record.event_id]
        lives = run.operation.state == OperationState.RUNNING
        demand(lives, PROMISE, f"{record.event_id.hex()} is over, yet changes timers")
        bulk = run.operation.bulk
        demand(not bulk.dry_run, PROMISE, "a dry run changes timers")
        if record.kind == RecordKind.BULK_CANCEL:
            for at in range(0, len(record.body), CANCEL_SIZE):
                timer = self._change(run, record.body[at : at + CANCEL_SIZE])
                timer.state = EventState.CANCELLED
                timer.version += 1
            return
        for key, due_ms, version in MOVE.iter_unpack(record.body):
            timer = self._change(run, key)
            name = timer.event_id.hex()
            follows = version == timer.version + 1
            demand(follows, PROMISE, f"{name} becomes {version} from {timer.version}")
            self._check_time(bulk, timer.timer_ms, due_ms, name)
            timer.due_ms, timer.version = due_ms, version
            timer.attempts = timer.retry_ms = 0

    def _change(self, run: Run, key: bytes) -> "Timer":
        """This timer is changed; it must be there, and meant."""
        event_id = key[keys.TIMER_ID_AT :]
        timer, name = self._timers.get(event_id), event_id.hex()
        demand(timer is not None, PROMISE, f"{name} is changed, and no event")
        assert timer is not None
        demand(timer.is_pending, PROMISE, f"{name} is changed, and {timer.state.name}")
        demand(timer.timer == key, PROMISE, f"{name} is changed where it is not")
        meant = matches(run.operation, timer)
        demand(meant, PROMISE, f"{name} is changed, and does not match")
        again = run.changed.get(event_id) == timer.touched
        demand(not again, PROMISE, f"{name} is changed twice")
        timer.touched += 1
        timer.by_operation = True
        run.changed[event_id] = timer.touched
        run.count += 1
        self.changed += 1
        return timer

    def _check_time(self, bulk: Bulk, old_ms: int, new_ms: int, name: str) -> None:
        if bulk.due_ms is not None:
            demand(new_ms == bulk.due_ms, PROMISE, f"{name} goes to {new_ms}")
            return
        assert bulk.shift_ms is not None
        shifted_ms = old_ms + bulk.shift_ms
        latest_ms = self._world.clock.latest_ms
        fits = new_ms == shifted_ms or shifted_ms < new_ms <= latest_ms
        demand(fits, PROMISE, f"{name} goes to {new_ms}, not {shifted_ms}")

    def _operation(self, operation: Operation) -> None:
        run = self.known.get(operation.operation_id)
        if run is None:
            meant = {
                timer.event_id: timer.touched
                for timer in self._timers.values()
                if timer.is_pending and matches(operation, timer)
            }
            self.known[operation.operation_id] = Run(operation, meant)
            return
        follows = operation.version == run.operation.version + 1
        demand(follows, PROMISE, "an operation goes back")
        told = operation.changed
        demand(told == run.count, PROMISE, f"{run.count} were changed, it says {told}")
        run.operation = operation
        if operation.state == OperationState.DONE:
            self.done += 1
            self._check_missed(run)

    def _check_missed(self, run: Run) -> None:
        """What was meant, and nobody has touched since, is changed."""
        bulk = run.operation.bulk
        if bulk.dry_run:
            return
        for event_id, touched in run.meant.items():
            timer = self._timers[event_id]
            if timer.touched != touched or self._stays(bulk, timer):
                continue
            demand(False, PROMISE, f"{event_id.hex()} was missed")

    def _stays(self, bulk: Bulk, timer: "Timer") -> bool:
        """Whether nothing would come of changing it."""
        if bulk.action == BulkAction.CANCEL:
            return False
        if bulk.shift_ms is None:
            return timer.timer_ms == bulk.due_ms
        is_due = timer.timer_ms <= self._world.clock.latest_ms
        return bulk.shift_ms == 0 or (bulk.shift_ms < 0 and is_due)


def matches(operation: Operation, timer: "Timer") -> bool:
    """Whether the operation is about this timer, as it is now."""
    wanted = operation.bulk.filter
    return (
        wanted.topic_id in (0, timer.topic_id)
        and wanted.key in (None, timer.key)
        and wanted.tag in (None, timer.tag)
        and wanted.due_after_ms <= timer.timer_ms < wanted.due_before_ms
        and timer.born_ms <= operation.created_ms
    )

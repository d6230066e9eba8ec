"""Bulk operations beside a log that is a plain list, a slice at a time by hand."""

from typing import Any

from tests.unit.chronos_line import Line

from halfpast_chronos.bulk import BulkSlice
from halfpast_chronos.bulk_records import BulkRecords
from halfpast_chronos.decisions import Command
from halfpast_chronos.operation import (
    BeginBulk,
    Begun,
    Bulk,
    BulkAction,
    EventFilter,
    Operation,
)
from halfpast_chronos.operations import Operations


def operation_id(number: int) -> bytes:
    return b"op" + number.to_bytes(14, "big")


def cancel_of(dry_run: bool = False, **wanted: Any) -> Bulk:
    return Bulk(BulkAction.CANCEL, EventFilter(**wanted), dry_run)


def shift_of(shift_ms: int, **wanted: Any) -> Bulk:
    return Bulk(BulkAction.RESCHEDULE, EventFilter(**wanted), shift_ms=shift_ms)


def move_to(due_ms: int, **wanted: Any) -> Bulk:
    return Bulk(BulkAction.RESCHEDULE, EventFilter(**wanted), due_ms=due_ms)


class BulkLine(Line):
    """A `Line` whose core knows bulk operations."""

    def __init__(self, changed_max: int = 3, **config: int) -> None:
        super().__init__(**config)
        self.changed_max = changed_max
        self._numbers = 0
        self._equip()

    def _equip(self) -> None:
        self.records = BulkRecords(self.core)
        self.operations = Operations(self.core)

    def crash(self, kept: int) -> None:
        self.index = self.index.crash(kept)
        self.core = type(self.core)(self.index, self.clock, self.config)
        self._equip()
        self.follow()

    def begin(self, bulk: Bulk, **options: Any) -> Operation:
        """Make the beginning of an operation durable."""
        self._numbers += 1
        request = BeginBulk(operation_id(self._numbers), bulk, self.now_ms, **options)
        decision = self.operations.decide_begin(request, 0)
        if isinstance(decision, Begun):
            return decision.operation
        return self.operations.get(self.see_through(decision).event_id)

    def plan(self, identity: bytes) -> BulkSlice:
        """What comes next, claimed."""
        self.core.claims.add(identity)
        operation = self.operations.get(identity)
        made = BulkSlice(self.core, self.records, operation, self.changed_max)
        while made.step():
            pass
        return made

    def advance(self, identity: bytes) -> BulkSlice:
        """One slice seen through."""
        made = self.plan(identity)
        self.see_through(made.command(self.operations))
        return made

    def finish(self, operation: Operation) -> Operation:
        """The operation carried out to its end."""
        while self.operations.get(operation.operation_id).is_running:
            self.advance(operation.operation_id)
        return self.operations.get(operation.operation_id)

    def carry_out(self, bulk: Bulk) -> Operation:
        return self.finish(self.begin(bulk))

    def give_up(self, command: Command) -> None:
        """Its frame was refused."""
        self.core.release(command.claims)
        for claim in command.claims:
            self.core.return_to_wheel(claim)

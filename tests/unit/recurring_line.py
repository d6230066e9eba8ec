"""A `Line` that knows recurring schedules."""

from typing import Any

from tests.unit.chronos_line import START_MS, TOPIC, Arrival, Line, event_id

from halfpast_chronos.core import DelayCore
from halfpast_chronos.recurrence import Plan
from halfpast_chronos.recurring import Recurring
from halfpast_chronos.recurring_calls import (
    ChangeSchedule,
    CreateSchedule,
    EndSchedule,
    PauseSchedule,
    Progress,
)
from halfpast_chronos.recurring_decisions import (
    decide_change,
    decide_create,
    decide_end,
    decide_pause,
)
from halfpast_core_store.record import RecordKind, encode_record

SCHEDULE = event_id(7)
MINUTE_MS = 60_000


def message(number: int = 7, **fields: Any) -> bytes:
    """The message of the schedule `number`."""
    fields.setdefault("body", b"tick")
    return encode_record(
        RecordKind.NORMAL,
        topic_id=TOPIC,
        queue_id=2,
        event_id=event_id(number),
        born_ms=START_MS,
        **fields,
    )


class RecurringLine(Line):
    """Appends are durable at once, but applied only by `follow`."""

    recurring: Recurring

    def _new_core(self) -> DelayCore:
        core = super()._new_core()
        self.recurring = Recurring(core)
        return core

    def create(self, plan: Plan, number: int = 7, **request: Any) -> bytes:
        """Make a schedule; gives its id."""
        fields = request.pop("fields", {})
        asked = CreateSchedule(message(number, **fields), plan, **request)
        decided = decide_create(self.core, self.recurring, asked)
        return self.see_through(decided).event_id

    def change(self, plan: Plan, number: int = 7, **fields: Any) -> None:
        version = self.progress(number).version
        asked = ChangeSchedule(
            event_id(number), version, plan, message(number, **fields)
        )
        self.see_through(decide_change(self.core, self.recurring, asked))

    def pause(self, paused: bool = True, number: int = 7) -> object:
        asked = PauseSchedule(event_id(number), paused)
        decided = decide_pause(self.core, self.recurring, asked)
        return self.see_through(decided)

    def end(self, number: int = 7) -> object:
        asked = EndSchedule(event_id(number))
        return self.see_through(decide_end(self.core, self.recurring, asked))

    def progress(self, number: int = 7) -> Progress:
        found = self.recurring.progress(event_id(number))
        assert found is not None
        return found

    def pass_time(self, ms: int) -> list[Arrival]:
        """Let this much time pass at once, then fire; what came of it."""
        before = len(self.arrivals)
        self.clock.advance(ms)
        self.fire_all()
        return self.arrivals[before:]

    def dues(self, ms: int) -> list[int]:
        """The due times of what that fires, from the start."""
        return [arrival.due_ms - START_MS for arrival in self.pass_time(ms)]

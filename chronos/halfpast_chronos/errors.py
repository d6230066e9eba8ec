"""What the Delay Server refuses, and why.

DelayError
├── UnknownEvent        no such timer (or it is forgotten already)
├── AlreadyDelivered    it has fired; nothing can be changed any more
├── AlreadyCancelled    it was cancelled; nothing can be changed any more
├── StaleVersion        it was changed since the caller last looked
├── EventDead           its topic did not take it: redrive it first
├── EventNotDead        only what is dead can be redriven
├── TooManyPending      the topic has as many timers as it may
├── UnknownSchedule     no such recurring schedule
├── ScheduleEnded       it occurs no more, and cannot be changed
└── BadPlan             such a schedule cannot be meant
    ├── BadCron         not a cron expression
    ├── UnknownTimeZone not a time zone
    └── NeverOccurs     no occurrence ever
"""

from halfpast_core_store.errors import CoreError


class DelayError(CoreError):
    """Base of the Delay Server's refusals."""

    code = "delay_error"


class UnknownEvent(DelayError):
    """No scheduled event has this id. Look it up before you change it."""

    code = "unknown_event"

    def __init__(self, event: str) -> None:
        super().__init__(event)
        self.event = event

    def __str__(self) -> str:
        return f"there is no scheduled event {self.event}"


class AlreadyDelivered(DelayError):
    """The event fired at `delivered_ms` (epoch ms)."""

    code = "already_delivered"

    def __init__(self, event: str, delivered_ms: int) -> None:
        super().__init__(event, delivered_ms)
        self.event = event
        self.delivered_ms = delivered_ms

    def __str__(self) -> str:
        return f"event {self.event} has been delivered already"


class AlreadyCancelled(DelayError):
    """The event was cancelled at `cancelled_ms` (epoch ms)."""

    code = "already_cancelled"

    def __init__(self, event: str, cancelled_ms: int) -> None:
        super().__init__(event, cancelled_ms)
        self.event = event
        self.cancelled_ms = cancelled_ms

    def __str__(self) -> str:
        return f"event {self.event} has been cancelled already"


class StaleVersion(DelayError):
    """The event is at `version` now. Read it again and decide anew."""

    code = "stale_version"

    def __init__(self, event: str, version: int) -> None:
        super().__init__(event, version)
        self.event = event
        self.version = version

    def __str__(self) -> str:
        return f"event {self.event} is at version {self.version} now"


class EventDead(DelayError):
    """The event was not taken at `dead_ms` (epoch ms), for the last time."""

    code = "event_dead"

    def __init__(self, event: str, dead_ms: int) -> None:
        super().__init__(event, dead_ms)
        self.event = event
        self.dead_ms = dead_ms

    def __str__(self) -> str:
        return f"event {self.event} is a dead letter"


class EventNotDead(DelayError):
    """The event is scheduled. To have it now, promote it."""

    code = "event_not_dead"

    def __init__(self, event: str) -> None:
        super().__init__(event)
        self.event = event

    def __str__(self) -> str:
        return f"event {self.event} is not a dead letter: it is scheduled"


class TooManyPending(DelayError):
    """The topic may have `pending_max` timers. Retry after `retry_after_ms`."""

    code = "too_many_pending"

    def __init__(self, pending_max: int, retry_after_ms: int = 1000) -> None:
        super().__init__(pending_max, retry_after_ms)
        self.pending_max = pending_max
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        return f"the topic has its {self.pending_max} pending events already"


class UnknownSchedule(DelayError):
    """No recurring schedule has this id."""

    code = "unknown_schedule"

    def __init__(self, schedule: str) -> None:
        super().__init__(schedule)
        self.schedule = schedule

    def __str__(self) -> str:
        return f"there is no schedule {self.schedule}"


class ScheduleEnded(DelayError):
    """The schedule ended at `ended_ms` (epoch ms): make a new one."""

    code = "schedule_ended"

    def __init__(self, schedule: str, ended_ms: int) -> None:
        super().__init__(schedule, ended_ms)
        self.schedule = schedule
        self.ended_ms = ended_ms

    def __str__(self) -> str:
        return f"schedule {self.schedule} has ended and cannot be changed any more"


class BadPlan(DelayError):
    """When the schedule is to occur makes no sense. `field` is what to mend."""

    code = "invalid_schedule"

    def __init__(self, field: str, why: str) -> None:
        super().__init__(field, why)
        self.field = field
        self.why = why

    def __str__(self) -> str:
        return f"{self.field}: {self.why}"


class BadCron(BadPlan):
    """Not a cron expression of five or six fields."""

    code = "invalid_cron"

    def __init__(self, expression: str, why: str) -> None:
        super().__init__("cron", why)
        self.args = (expression, why)
        self.expression = expression

    def __str__(self) -> str:
        return (
            f"{self.expression!r} is not a cron expression ({self.why}); write minute, "
            'hour, day of month, month and day of week, such as "30 2 * * MON-FRI"'
        )


class UnknownTimeZone(BadPlan):
    """No time zone has this name here."""

    code = "unknown_time_zone"

    def __init__(self, name: str) -> None:
        super().__init__("time_zone", name)
        self.args = (name,)
        self.name = name

    def __str__(self) -> str:
        return (
            f"{self.name[:64]!r} is not a time zone; take a name of the IANA database, "
            'such as "Europe/Berlin" or "UTC"'
        )


class NeverOccurs(BadPlan):
    """Nothing is left: until is over, or the expression never matches."""

    code = "never_occurs"

    def __init__(self, field: str) -> None:
        super().__init__(field, "")
        self.args = (field,)

    def __str__(self) -> str:
        if self.field == "until":
            return "until comes before the first occurrence; give a later one"
        return "this never occurs; check the days and months of the cron expression"

"""What the Delay Server refuses, and why.

DelayError
├── UnknownEvent        no such timer (or it is forgotten already)
├── AlreadyDelivered    it has fired; nothing can be changed any more
├── AlreadyCancelled    it was cancelled; nothing can be changed any more
└── StaleVersion        it was changed since the caller last looked
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

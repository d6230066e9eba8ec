"""What the Delay Server must know of a topic: whether and how fast it is released, and
what it takes."""

from dataclasses import dataclass
from typing import Protocol

from halfpast_core_store.record import BODY_SIZE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicControl:
    """How the timers of a topic are released.

    `is_paused`: they wait. `closed`: why the topic takes nothing, so that they fail;
    empty if it does. `release_rate_per_s` 0 is no limit.
    """

    is_paused: bool = False
    closed: str = ""
    release_rate_per_s: int = 0
    body_size_max: int = BODY_SIZE_MAX


OPEN = TopicControl()
CLOSED = "topic_closed: the topic takes no messages"
UNKNOWN = TopicControl(closed="unknown_topic: the broker knows no such topic")


class TopicControls(Protocol):
    """Where they come from. Asked often, so it answers at once.

    `revision` is another number whenever any of them may have changed; `refresh`
    looks whether they have.
    """

    @property
    def revision(self) -> int: ...

    def topic_control(self, name: str) -> TopicControl: ...

    async def refresh(self) -> None: ...


class NoControls:
    """All topics are open."""

    revision = 0

    def topic_control(self, name: str) -> TopicControl:
        return OPEN

    async def refresh(self) -> None:
        """Nothing ever changes."""

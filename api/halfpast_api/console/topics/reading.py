"""Topics as the API shows them, as far as pages need it."""

import msgspec


class Release(msgspec.Struct):
    """What of a topic waits in the Delay Server, and what for."""

    state: str
    pending: int = 0
    due_now: int = 0
    oldest_due_at: str | None = None
    retrying: int = 0
    dead_letters: int = 0
    exact: bool = True


class Queue(msgspec.Struct):
    """What a queue holds."""

    queue: int
    min_offset: int
    max_offset: int


class Topic(msgspec.Struct):
    """Its settings, and how its release stands if that is known."""

    name: str
    queues: int
    max_delay_ms: int
    max_body_bytes: int
    flush: str = "sync"
    description: str = ""
    paused: bool = False
    accepting: bool = True
    release_rate_per_s: int = 0
    max_pending: int = 0
    version: int = 0
    pending: int | None = None
    created_at: str | None = None
    updated_at: str | None = None
    queue_offsets: list[Queue] = []
    release: Release | None = None

    @property
    def release_state(self) -> str:
        """The Delay Server does not look at the settings of a topic where nothing
        waits."""
        if self.release is None or self.release.state != "open":
            return self.release.state if self.release else ""
        return "paused" if self.paused else "open"


class TopicPage(msgspec.Struct):
    topics: list[Topic]
    next_page_token: str | None = None

"""What a consumer group has in flight."""

import msgspec


class InFlight(msgspec.Struct, array_like=True):
    """A message that is not done, hidden until `visible_ms` from all but its holder; if
    it `is_waiting` for its next attempt, from everybody."""

    queue: int
    offset: int
    attempt: int
    visible_ms: int
    is_waiting: bool

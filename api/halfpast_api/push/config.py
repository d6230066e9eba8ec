"""What may be tuned in the push process."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig:
    """Everything about one push process. Read once at its start."""

    invisible_ms: int = 30_000
    """How long messages stay hidden if this process dies; while it lives it extends
    that."""

    wait_ms: int = 5_000
    """How long one pop waits for messages."""

    held_size_max: int = 256 * MIB
    """Bytes of messages held for all endpoints; each may have one beyond."""

    held_size_each: int = 16 * MIB
    """Bytes of messages held for one endpoint; it may have one beyond."""

    in_flight_max: int = 1_000
    """Calls at once to all endpoints; each may make one beyond."""

    in_flight_ordered_max: int = 10_000
    """Messages of one `per_key` endpoint that are not done, on each topic: beyond, new
    ones stay in their queues until some of these are delivered or dead."""

    in_flight_parallel_max: int = 100_000
    """The same of a `parallel` one: most of them wait for another attempt."""

    failures_max: int = 5
    """Failures in a row that open the circuit of an endpoint."""

    back_off_ms: int = 1_000
    """How long an open circuit waits before it tries one call; then twice as long."""

    back_off_ms_max: int = 60_000
    """The longest of these waits."""

    hold_ms_max: int = 3_600_000
    """How long a Retry-After may hold back a whole endpoint."""

    attempts_kept: int = 1_000
    """Attempts that can be looked at, of each endpoint: so many that delivered, and as
    many that did not."""

    origin: str = "halfpast"
    """Who asks in the handshake of CloudEvents (WebHook-Request-Origin)."""

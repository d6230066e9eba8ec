"""Leaves an endpoint alone that does not work, and finds out when it works again.

    closed ──failures_max failures in a row──> open ──back-off over──> half-open
      └───────────success──────────────────────────────────────────────┤
                                         open <──failure, twice as long─┘

Half-open lets a single call through. Time comes in from outside.
"""

from dataclasses import dataclass
from enum import IntEnum


class Circuit(IntEnum):
    """The numbers are what the gauge shows."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitConfig:
    """When calls are held back, and for how long.

    The longest back-off is short beside the intervals of check-backs: each one that
    is held back is lost for its transaction until the next.
    """

    failures_max: int = 5
    back_off_ms: int = 1_000
    back_off_ms_max: int = 30_000


class CircuitBreaker:
    """One per endpoint.

    `enter` gives a permit, and every permit is returned once: by `succeeded`,
    `failed`, or `abandoned` for a call that proved nothing. What calls bring that
    began before the last change of the circuit counts for nothing.
    """

    def __init__(self, config: CircuitConfig) -> None:
        self.circuit = Circuit.CLOSED
        self._config = config
        self._changes = 0
        self._failures = 0
        self._back_off_ms = config.back_off_ms
        self._open_until_ms = 0

    def holds_back(self, now_ms: int) -> bool:
        """Whether `enter` would give no permit."""
        if self.circuit == Circuit.CLOSED:
            return False
        return self.circuit == Circuit.HALF_OPEN or now_ms < self._open_until_ms

    def wait_ms(self, now_ms: int) -> int:
        """How long to leave it alone; 0 if a call may be made, or is being tried."""
        if self.circuit != Circuit.OPEN:
            return 0
        return max(0, self._open_until_ms - now_ms)

    def enter(self, now_ms: int) -> int | None:
        """A permit for one call; None while calls are held back."""
        if self.holds_back(now_ms):
            return None
        if self.circuit == Circuit.OPEN:
            self._change(Circuit.HALF_OPEN)
        return self._changes

    def succeeded(self, permit: int) -> bool:
        """The endpoint answered. True if that closed the circuit."""
        if permit != self._changes:
            return False
        self._failures = 0
        if self.circuit == Circuit.CLOSED:
            return False
        self._back_off_ms = self._config.back_off_ms
        self._change(Circuit.CLOSED)
        return True

    def failed(self, permit: int, now_ms: int) -> bool:
        """The endpoint did not answer. True if that opened a closed circuit."""
        if permit != self._changes:
            return False
        if self.circuit == Circuit.HALF_OPEN:
            doubled = 2 * self._back_off_ms
            self._back_off_ms = min(doubled, self._config.back_off_ms_max)
            self._open(now_ms)
            return False
        self._failures += 1
        if self._failures < self._config.failures_max:
            return False
        self._open(now_ms)
        return True

    def abandoned(self, permit: int) -> None:
        """The call was not made or not finished. The next one may try instead."""
        if permit == self._changes and self.circuit == Circuit.HALF_OPEN:
            self._change(Circuit.OPEN)

    def _open(self, now_ms: int) -> None:
        self._failures = 0
        self._open_until_ms = now_ms + self._back_off_ms
        self._change(Circuit.OPEN)

    def _change(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self._changes += 1

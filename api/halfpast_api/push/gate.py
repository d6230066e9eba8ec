"""Whether an endpoint may be called now: its circuit, its rate, and what it asked for.

Time comes in from outside: `now_ms` of a clock that only goes forward.
"""

from dataclasses import dataclass
from typing import Final

from halfpast_api.push.call_result import CallResult
from halfpast_api.push.config import PushConfig
from halfpast_api.push.rate import Rate
from halfpast_txn.circuit_breaker import Circuit, CircuitBreaker, CircuitConfig

PROBE_MS: Final = 50
"""How soon to ask again while the one call of a half-open circuit is under way."""


@dataclass(slots=True)
class Pass:
    """Leave for one call; to be given back once, with what came of it."""

    permit: int


class Gate:
    """One per endpoint, and per URL: another URL has proved nothing yet."""

    def __init__(self, config: PushConfig, rate_per_s: float) -> None:
        self._config = config
        self._breaker = CircuitBreaker(
            CircuitConfig(
                failures_max=config.failures_max,
                back_off_ms=config.back_off_ms,
                back_off_ms_max=config.back_off_ms_max,
            )
        )
        self._held_until_ms = 0
        self.rate = Rate(rate_per_s)

    @property
    def circuit(self) -> Circuit:
        return self._breaker.circuit

    def wait_ms(self, now_ms: int) -> int:
        """How long until `enter` may give a pass; 0 for now."""
        held_ms = max(0, self._held_until_ms - now_ms)
        return max(held_ms, self._breaker.wait_ms(now_ms), self.rate.wait_ms(now_ms))

    def back_ms(self, now_ms: int) -> int:
        """The same, but for the rate: how long the endpoint is left alone."""
        held_ms = max(0, self._held_until_ms - now_ms)
        return max(held_ms, self._breaker.wait_ms(now_ms))

    def enter(self, now_ms: int) -> Pass | None:
        """Leave for a call; None if it must wait."""
        if self.wait_ms(now_ms):
            return None
        permit = self._breaker.enter(now_ms)
        if permit is None:
            return None
        self.rate.take(now_ms)
        return Pass(permit)

    def leave(self, given: Pass, found: CallResult | None, now_ms: int) -> bool:
        """Learn from a call; None if it was given up. True if that opened the
        circuit."""
        if found is None:
            self._breaker.abandoned(given.permit)
            return False
        if found.retry_after_ms:
            hold_ms = min(found.retry_after_ms, self._config.hold_ms_max)
            self.hold(now_ms + hold_ms)
        if not found.is_broken:
            self._breaker.succeeded(given.permit)
            return False
        return self._breaker.failed(given.permit, now_ms)

    def hold(self, until_ms: int) -> None:
        """Leave the endpoint alone until then."""
        self._held_until_ms = max(self._held_until_ms, until_ms)

"""The machine's own clock and chance behind the `Clock` and `Rng` ports."""

import secrets
import time


class RealClock:
    """See `ports.Clock`."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class RealRng:
    """See `ports.Rng`."""

    def bits(self, count: int) -> int:
        return secrets.randbits(count)

"""Time and chance of one simulated run."""

from random import Random

from tests.simulation.sim_settings import START_NS


class SimClock:
    """Wall time that may jump, monotonic time that does not."""

    def __init__(self) -> None:
        self.wall_ns = START_NS
        self.steady_ns = 0
        self.set_back_ms = 0
        """By how much the wall clock has been set back, all in all."""

    def now_ns(self) -> int:
        return self.wall_ns

    def monotonic_ns(self) -> int:
        return self.steady_ns

    @property
    def latest_ms(self) -> int:
        """No earlier than any wall time that there was so far."""
        return self.wall_ns // 1_000_000 + self.set_back_ms

    def pass_ns(self, ns: int) -> None:
        self.wall_ns += ns
        self.steady_ns += ns

    def jump_ms(self, ms: int) -> None:
        """Somebody sets the wall clock."""
        before_ns = self.wall_ns
        self.wall_ns = max(self.wall_ns + ms * 1_000_000, START_NS)
        self.set_back_ms += max(0, before_ns - self.wall_ns) // 1_000_000


class SimRng:
    """Chance from the seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def bits(self, count: int) -> int:
        return self._random.getrandbits(count)

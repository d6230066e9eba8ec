"""What each topic may release, also of those that have no timers at present."""

from .config import HorizonConfig
from .gate import Gate
from .load_slice import SLICE_MIN
from .reach import Reach, start_of

LIMITED_S = 2  # a topic with a rate has no more in memory than it releases in this


class ReleaseRules:
    """By the prefix of a topic's timers. With `holds_strangers` a topic is held until
    somebody has told what it may release; `strangers` are those that wait for that."""

    def __init__(self, config: HorizonConfig, *, holds_strangers: bool) -> None:
        self._config = config
        self._holds_strangers = holds_strangers
        self._rules: dict[bytes, tuple[bool, Gate]] = {}
        self.strangers: list[bytes] = []

    def set(self, prefix: bytes, *, is_held: bool, rate_per_s: int) -> Gate:
        """From now on this holds. Gives the gate, which knows what has gone before."""
        _, gate = self._rules.get(prefix, (False, Gate()))
        gate.set_rate(rate_per_s)
        self._rules[prefix] = is_held, gate
        return gate

    def new_reach(self, prefix: bytes) -> Reach:
        """For a topic that has timers now. It reaches nothing yet."""
        is_held, gate = self._rules.get(prefix, (self._holds_strangers, None))
        if gate is None and is_held:
            self.strangers.append(prefix)
        gate = gate or Gate()
        reach = Reach(prefix, start_of(prefix), self.share(gate.rate_per_s), gate)
        reach.is_held = is_held
        return reach

    def state(self, prefix: bytes, reach: Reach | None) -> str:
        """One word for what a topic waits for: open | starting | paused |
        rate_limited."""
        is_held, _ = self._rules.get(prefix, (False, None))
        if is_held:
            return "paused"
        if reach is None:
            return "open"
        if reach.is_held and not reach.is_opening:
            return "starting"
        return "rate_limited" if reach.is_limited else "open"

    def share(self, rate_per_s: int) -> int:
        """How many timers a topic may have in memory."""
        count_max = self._config.near_topic_count_max
        if not rate_per_s:
            return count_max
        return min(count_max, max(SLICE_MIN, LIMITED_S * rate_per_s))

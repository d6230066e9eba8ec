"""What topics may release, and whether the Delay Server keeps to it.

Rates are held against a token bucket of its own, which is never less generous than
the real one: it is full after each change, and keeps what it has when a clock is set
back.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.sim_model import demand
from tests.simulation.sim_settings import ALL_TOPICS, CHOOSY_TOPICS, LATE_TOPIC

from halfpast_chronos import keys
from halfpast_chronos.core import Firing
from halfpast_chronos.topic_controls import CLOSED, OPEN, UNKNOWN, TopicControl

if TYPE_CHECKING:
    from tests.simulation.sim_delay import DelayProcess
    from tests.simulation.sim_world import World

PROMISE = 10
BURST_S = 0.1
RATES = (0, 0, 20, 100)
SMALL = 40


class Settings:
    """The settings of topics, as the metadata has them."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        # The Delay Server may not have heard yet that the broker knows no such topic.
        late = self._random.choice((OPEN, UNKNOWN))
        self.controls = {topic: OPEN for topic in ALL_TOPICS} | {LATE_TOPIC: late}

    def change(self) -> None:
        """Somebody sets what a topic may release; mostly the Delay Server is told."""
        topic = self._random.choice((*ALL_TOPICS[:-1], *CHOOSY_TOPICS))
        is_choosy = topic in CHOOSY_TOPICS
        fate = self._random.random()
        if fate < 0.3:
            control = OPEN
        else:
            control = TopicControl(
                is_paused=fate < 0.6,
                closed=CLOSED if is_choosy and fate > 0.75 else "",
                release_rate_per_s=self._random.choice(RATES),
                body_size_max=SMALL
                if is_choosy and self._random.random() < 0.5
                else OPEN.body_size_max,
            )
        self.controls[topic] = control
        if self._random.random() < 0.8:
            self._world.delay.look_at_settings()

    def let_go(self) -> None:
        """Nothing is paused any longer; those that take nothing go on so."""
        for topic, control in self.controls.items():
            self.controls[topic] = TopicControl(
                closed=control.closed, body_size_max=control.body_size_max
            )

    def open_all(self) -> None:
        self.controls = {topic: OPEN for topic in ALL_TOPICS}


@dataclass(slots=True)
class Bucket:
    """A token bucket by wall time."""

    rate_per_s: int
    tokens: float
    now_ms: int

    @classmethod
    def full(cls, rate_per_s: int, now_ms: int) -> "Bucket":
        return cls(rate_per_s, max(1.0, rate_per_s * BURST_S), now_ms)

    def fill(self, now_ms: int) -> None:
        """It is now this time, perhaps earlier than it was."""
        size = max(1.0, self.rate_per_s * BURST_S)
        gained = max(0, now_ms - self.now_ms) * self.rate_per_s / 1000
        self.tokens = min(size, self.tokens + gained)
        self.now_ms = now_ms

    def take(self, count: int) -> bool:
        """Whether so many may go now."""
        self.tokens -= count
        return self.tokens > -0.001


class Releases:
    """Watches one process: what leaves its horizon, and what it fires."""

    def __init__(self, world: "World", process: "DelayProcess") -> None:
        self._world = world
        self._process = process
        self._core = process.core
        self._buckets: dict[int, Bucket] = {}
        self._drain: Bucket | None = None
        self._ahead_ms = self._clock_ahead_ms()
        horizon = self._core.horizon
        due = horizon.due

        def watched(now_ms: int, limit: int) -> list[bytes]:
            found = due(now_ms, limit)
            self._released(found, now_ms)
            return found

        horizon.due = watched  # type: ignore[method-assign]

    def fire(self) -> Firing | None:
        """The core's next firing."""
        core = self._core
        watch = core.clock_watch
        before = watch.forward_count
        ahead_ms = self._clock_ahead_ms()
        jumped = ahead_ms - self._ahead_ms >= self._world.chronos.clock_jump_ms
        self._ahead_ms = ahead_ms
        firing = core.fire()
        noticed = watch.forward_count > before
        demand(noticed == jumped, PROMISE, "a clock that was set forward, or was not")
        if firing is not None:
            for key in firing.keys:
                self._check_paused(key)
        return firing

    def _clock_ahead_ms(self) -> int:
        clock = self._world.clock
        return (clock.wall_ns - clock.steady_ns) // 1_000_000

    def _check_paused(self, key: bytes) -> None:
        topic = keys.timer_topic(key)
        control = self._process.controls[topic]
        demand(not control.is_paused, PROMISE, f"topic {topic} is paused, yet fires")

    def _released(self, found: list[bytes], now_ms: int) -> None:
        for bucket in self._buckets.values():
            bucket.fill(now_ms)
        for key in found:
            self._check_paused(key)
            due_ms = keys.timer_due_ms(key)
            demand(due_ms <= now_ms, 2, f"{key.hex()} is not due at {now_ms}")
            self._check_rate(keys.timer_topic(key), now_ms)
        self._check_drain(len(found), now_ms)

    def _check_rate(self, topic: int, now_ms: int) -> None:
        rate_per_s = self._process.controls[topic].release_rate_per_s
        bucket = self._buckets.get(topic)
        if bucket is None or bucket.rate_per_s != rate_per_s:
            bucket = self._buckets[topic] = Bucket.full(rate_per_s, now_ms)
        within = not rate_per_s or bucket.take(1)
        demand(within, PROMISE, f"topic {topic} releases more than {rate_per_s}/s")

    def _check_drain(self, count: int, now_ms: int) -> None:
        if not self._core.is_draining:
            self._drain = None
            return
        rate_per_s = self._world.chronos.drain_rate_per_s
        if self._drain is None:
            self._drain = Bucket.full(rate_per_s, now_ms)
        self._drain.fill(now_ms)
        within = self._drain.take(count)
        demand(within, PROMISE, f"a backlog is drained faster than {rate_per_s}/s")

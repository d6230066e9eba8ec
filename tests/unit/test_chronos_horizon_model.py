"""The horizon against a plain sorted list: several topics, tiny bounds, any order."""

import random
from collections.abc import Callable

import pytest
from tests.unit.chronos_line import START_MS, event_id

from halfpast_chronos import keys
from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.horizon import Horizon
from halfpast_chronos.reach import NEVER, Reach
from halfpast_core_store.memory_index import MemoryIndex

STEPS = 300
CONFIGS: list[dict[str, int]] = [
    {"near_count_max": 10, "near_topic_count_max": 4, "load_count": 3},
    {"near_count_max": 3, "near_topic_count_max": 1, "load_count": 1},
    {"near_count_max": 6, "near_topic_count_max": 20, "lookahead_ms": 30},
    {"near_count_max": 40, "near_topic_count_max": 3, "lookahead_ms": 50},
    {},
]
GAPS_MS = [0, 0, 1, 2, 17, 40, 60, 1023, 5_000, 400_000]


class Run:
    """One seed: what is in the index is what has to come, and nothing else."""

    def __init__(self, seed: int, prefix_size: int) -> None:
        self.rng = random.Random(seed)
        self.config = ChronosConfig(**self.rng.choice(CONFIGS))
        self.prefix_size = prefix_size
        self.index = MemoryIndex()
        self.now_ms = START_MS
        self.numbers = 0
        self.pending: set[bytes] = set()
        self.held: set[bytes] = set()
        self.on_the_way: list[bytes] = []
        self.restart()

    def restart(self) -> None:
        """A new process: nobody has told it about any topic."""
        self.on_the_way.clear()
        self.horizon = Horizon(
            self.index,
            self.config,
            self.now_ms,
            self.prefix_size,
            holds_strangers=self.prefix_size > 1,
        )
        self.held = set()
        self.meet_strangers()

    def prefix(self, key: bytes) -> bytes:
        return key[: self.prefix_size]

    def new_key(self) -> bytes:
        self.numbers += 1
        due_ms = max(
            0, self.now_ms + self.rng.choice(GAPS_MS) - self.rng.choice([0, 9])
        )
        if self.prefix_size == 1:
            return b"T" + keys.BIG_U64.pack(due_ms) + event_id(self.numbers)
        return keys.timer(self.rng.randint(1, 4), due_ms, event_id(self.numbers))

    # --- what may happen ----------------------------------------------------------

    def store(self) -> None:
        new = [self.new_key() for _ in range(self.rng.choice([1, 1, 3, 30]))]
        batch = self.index.batch()
        for key in new:
            batch.put(key, bytes(self.rng.choice([0, 10])))
        self.index.write(batch)
        self.pending.update(new)
        self.horizon.add_many(new)
        self.meet_strangers()

    def meet_strangers(self) -> None:
        self.held.update(self.horizon.strangers)
        self.horizon.strangers.clear()

    def cancel(self) -> None:
        free = sorted(self.pending - {*self.on_the_way})
        if free:
            self.end(self.rng.choice(free))

    def end(self, key: bytes) -> None:
        batch = self.index.batch()
        batch.delete(key)
        self.index.write(batch)
        self.pending.discard(key)
        self.horizon.discard(key)

    def come_back(self) -> None:
        """A timer leaves, and comes again under its key."""
        free = sorted(self.pending - {*self.on_the_way})
        if free:
            key = self.rng.choice(free)
            self.end(key)
            batch = self.index.batch()
            batch.put(key, b"")
            self.index.write(batch)
            self.pending.add(key)
            self.horizon.add_many([key])
            self.meet_strangers()

    def time_passes(self) -> None:
        self.now_ms += self.rng.choice(GAPS_MS)

    def clock_is_set(self) -> None:
        self.now_ms += self.rng.choice([-3_000, -40, 40, 3_000])

    def load(self) -> None:
        for _ in range(self.rng.choice([1, 2, 30])):
            self.horizon.load(self.now_ms)

    def fire(self) -> None:
        for key in self.horizon.due(self.now_ms, self.rng.choice([1, 4, 100])):
            if key in self.on_the_way:
                continue  # loaded again meanwhile: its claim keeps it from firing
            assert key in self.pending, "fired after its end"
            assert keys_due_ms(key, self.prefix_size) <= self.now_ms, "early"
            assert self.prefix(key) not in self.held, "released though it is held"
            self.on_the_way.append(key)

    def stored(self) -> None:
        while self.on_the_way:
            self.end(self.on_the_way.pop())

    def refused(self) -> None:
        self.horizon.add_many(self.on_the_way)
        self.on_the_way.clear()
        self.meet_strangers()

    def control(self) -> None:
        if self.prefix_size == 1:
            return
        prefix = keys.timer_prefix(self.rng.randint(1, 4))
        is_held = self.rng.random() < 0.4
        rate_per_s = self.rng.choice([0, 0, 5, 1_000])
        self.horizon.control(prefix, is_held=is_held, rate_per_s=rate_per_s)
        self.held.discard(prefix)
        if is_held:
            self.held.add(prefix)

    def forget(self) -> None:
        self.horizon.forget_idle()

    # --- what must hold -----------------------------------------------------------

    def run(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.store, 8),
            (self.cancel, 4),
            (self.come_back, 2),
            (self.time_passes, 6),
            (self.clock_is_set, 1),
            (self.load, 6),
            (self.fire, 10),
            (self.stored, 4),
            (self.refused, 1),
            (self.control, 3),
            (self.forget, 1),
            (self.restart, 1),
        ]
        names, weights = zip(*steps, strict=True)
        for _ in range(STEPS):
            self.rng.choices(names, weights)[0]()
            self.check_bounds()
        self.finish()

    def check_bounds(self) -> None:
        # Twice the bound, and what comes in while as much is being dropped.
        slack = 100
        horizon = self.horizon
        assert len(horizon) <= 2 * self.config.near_count_max + slack
        for reach in horizon._reaches.values():  # pyright: ignore[reportPrivateUsage]
            assert reach.count <= 2 * self.config.near_topic_count_max + slack
        assert len(horizon) == sum(
            reach.count
            for reach in horizon._reaches.values()  # pyright: ignore[reportPrivateUsage]
        )

    def finish(self) -> None:
        """Everything fires that may, at its time, and in the order of a topic."""
        self.refused()
        for prefix in self.horizon.prefixes():
            if self.prefix_size > 1:
                self.horizon.control(prefix, is_held=False)
        self.held.clear()
        dues = sorted({keys_due_ms(key, self.prefix_size) for key in self.pending})
        for due_ms in dues:
            self.now_ms = max(self.now_ms, due_ms)
            self.drain()
            late = [
                key
                for key in self.pending
                if keys_due_ms(key, self.prefix_size) <= self.now_ms
            ]
            assert late == [], "forgotten"
            if self.pending:
                next_ms = self.horizon.next_ms()
                first = min(keys_due_ms(key, self.prefix_size) for key in self.pending)
                assert next_ms <= first, "the alarm is set too late"
        assert len(self.horizon) == 0

    def drain(self) -> None:
        """As the service does it: fire, and load when there is nothing to fire."""
        while True:
            self.fire()
            now_ms = self.now_ms
            if self.on_the_way:
                self.stored()
            elif self.horizon.wants_load(now_ms) and self.horizon.load(now_ms):
                pass
            elif not self.horizon.collect(now_ms):
                return


def keys_due_ms(key: bytes, prefix_size: int) -> int:
    return int(keys.BIG_U64.unpack_from(key, prefix_size)[0])


@pytest.mark.parametrize("seed", range(60))
def test_the_horizon_agrees_with_a_list(seed: int) -> None:
    Run(seed, keys.TIMER_PREFIX_SIZE).run()


@pytest.mark.parametrize("seed", range(20))
def test_the_horizon_of_one_topic_agrees_with_a_list(seed: int) -> None:
    Run(seed, 1).run()


FOUND_AS = {"skip": "forgotten", "hold": "held", "early": "early"}


def run_all(seeds: range) -> None:
    for seed in seeds:
        Run(seed, keys.TIMER_PREFIX_SIZE).run()


@pytest.mark.parametrize("fault", FOUND_AS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_back = Horizon._draw_back  # pyright: ignore[reportPrivateUsage]
    due_ms = Horizon._due_ms  # pyright: ignore[reportPrivateUsage]

    def skip(self: Horizon, reach: Reach) -> None:
        draw_back(self, reach)
        self._behind.note(reach, NEVER)  # pyright: ignore[reportPrivateUsage]

    def hold(self: Horizon, reach: Reach) -> None:
        """Not at all."""

    def early(self: Horizon, key: bytes) -> int:
        return due_ms(self, key) - 1

    name, planted = {
        "skip": ("_draw_back", skip),
        "hold": ("_hold", hold),
        "early": ("_due_ms", early),
    }[fault]
    monkeypatch.setattr(Horizon, name, planted)
    with pytest.raises(AssertionError, match=FOUND_AS[fault]):
        run_all(range(60))

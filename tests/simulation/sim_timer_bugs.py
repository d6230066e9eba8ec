"""Bugs planted into the Delay Server on purpose: see `sim_bugs.py`."""

from collections.abc import Sequence
from typing import Any

from tests.simulation.sim_delay import DelayProcess
from tests.simulation.sim_settings import Focus

from halfpast_chronos import keys
from halfpast_chronos.bulk import BulkSlice
from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.core import DelayCore
from halfpast_chronos.projection import Step
from halfpast_chronos.reach import Reach
from halfpast_chronos.recurring import Recurring
from halfpast_core_store.ports import Clock, Index, IndexBatch
from halfpast_core_store.record import Record, RecordKind

# pyright: reportPrivateUsage=false


class PatchedCore(DelayCore):
    """A core of which `patch` spoils something."""

    def __init__(
        self, index: Index, clock: Clock, config: ChronosConfig, **options: bool
    ) -> None:
        super().__init__(index, clock, config, **options)
        self.patch()

    def patch(self) -> None:
        raise NotImplementedError


class SkipsAMillisecond(PatchedCore):
    """What is due in the last millisecond of a slice counts as loaded."""

    def patch(self) -> None:
        load_slice = self.horizon._load_slice

        def loaded(reach: Reach, now_ms: int) -> None:
            load_slice(reach, now_ms)
            due_ms = keys.timer_due_ms(reach.end)
            reach.end = max(reach.end, reach.prefix + keys.BIG_U64.pack(due_ms + 1))

        self.horizon._load_slice = loaded  # type: ignore[method-assign]


class InsertsTwice(PatchedCore):
    """A timer of a short delay waits by itself, and is loaded all the same."""

    def patch(self) -> None:
        self._short: list[bytes] = []
        add_many = self.horizon.add_many

        def added(new: Sequence[bytes], records: Sequence[bytes] = ()) -> None:
            add_many(new, records)
            soon_ms = self.now_ms() + 30
            self._short += [key for key in new if keys.timer_due_ms(key) < soon_ms]

        self.horizon.add_many = added  # type: ignore[method-assign]

    def _due(self) -> list[bytes]:
        found = super()._due()
        now_ms = self.now_ms()
        due = [key for key in self._short if keys.timer_due_ms(key) <= now_ms]
        self._short = [key for key in self._short if key not in due]
        return found + [
            key for key in due if key[keys.TIMER_ID_AT :] not in self.claims
        ]


class CancelsInIndexOnly(DelayCore):
    """A timer that is cancelled or moved stays in the wheel, with its record."""

    def drop_timer(self, batch: IndexBatch, timer: bytes) -> None:
        self._gone.append(timer)
        batch.delete(timer)


class LeavesOldTimer(DelayCore):
    """An upsert sets a new timer, and forgets the old one."""

    def _apply_move(self, step: Step, record: Record, data: bytes) -> None:
        if record.kind == RecordKind.REPLACE:
            self.drop_timer = lambda batch, timer: None  # type: ignore[method-assign]
            super()._apply_move(step, record, data)
            del self.drop_timer
        else:
            super()._apply_move(step, record, data)


class ReleasesStrangers(PatchedCore):
    """After a restart topics are released before it is known which are paused."""

    def patch(self) -> None:
        rules = self.horizon._rules
        new_reach = rules.new_reach

        def opened(prefix: bytes) -> Reach:
            reach = new_reach(prefix)
            reach.is_held = False
            return reach

        rules.new_reach = opened  # type: ignore[method-assign]
        for reach in self.horizon._reaches.values():
            reach.is_held = False
            self.horizon._behind.opened(reach)


class PausesHalf(PatchedCore):
    """A topic that is paused still releases what was due before."""

    def patch(self) -> None:
        self.horizon.turns.clear = lambda reach: None  # type: ignore[method-assign]


class ForgetsFailures(PatchedCore):
    """A failure that is applied again after a crash is passed over."""

    def patch(self) -> None:
        apply = self.appliers[RecordKind.FAILED]

        def applied(step: Step, record: Record, data: bytes) -> None:
            if self.measures:
                apply(step, record, data)

        self.appliers[RecordKind.FAILED] = applied


class RetriesAtOnce(PatchedCore):
    """What has failed is due again at once."""

    def patch(self) -> None:
        self.failing._retry_ms = lambda attempt: 0  # type: ignore[method-assign]


class DropsDead(PatchedCore):
    """A dead event is deleted with its timer."""

    def patch(self) -> None:
        apply = self.appliers[RecordKind.DEAD]

        def applied(step: Step, record: Record, data: bytes) -> None:
            apply(step, record, data)
            start, end = keys.dead_range(record.topic_id)
            for key in self.index.scan_keys(start, end, 100):
                step.batch.delete(key)

        self.appliers[RecordKind.DEAD] = applied


class ReachesOver(PatchedCore):
    """A near timer that comes in behind a reach is let in, and the reach moves with it,
    over what was dropped when it was drawn back."""

    def patch(self) -> None:
        horizon = self.horizon

        def extended(reach: Reach, key: bytes) -> bool:
            near_ms = horizon._now_ms + self._config.lookahead_ms
            due_ms = keys.timer_due_ms(key)
            if due_ms <= near_ms and not reach.is_held:
                reach.end = reach.prefix + keys.BIG_U64.pack(near_ms + 1)
                return True
            if due_ms < reach.behind_ms:
                horizon._behind.note(reach, due_ms)
            return False

        horizon._extend = extended  # type: ignore[method-assign]


class ForgetsDropped(PatchedCore):
    """A reach is drawn back, but what lies behind it is not looked for there."""

    def patch(self) -> None:
        horizon = self.horizon
        draw_back = horizon._draw_back

        def drawn(reach: Reach) -> None:
            behind_ms = reach.behind_ms
            draw_back(reach)
            horizon._behind.note(reach, behind_ms)

        horizon._draw_back = drawn  # type: ignore[method-assign]


class DrainsFast(DelayCore):
    """What is due after a jump of the clock goes as fast as it can."""

    def watch_clock(self) -> None:
        super().watch_clock()
        self.horizon.turns.drain.set_rate(0)


class ForgetsRates(PatchedCore):
    """A topic's rate holds for what is queued together, not from one to the next."""

    def patch(self) -> None:
        turns = self.horizon.turns
        add = turns.add

        def added(reach: Reach, key: bytes) -> None:
            if reach.due is None:
                reach.gate._full_at_ns = 0
            add(reach, key)

        turns.add = added  # type: ignore[method-assign]


class LosesOccurrences(Recurring):
    """What occurred just before a crash is not applied again: no next timer."""

    def _apply_occurred(self, step: Step, record: Record, _: bytes) -> None:
        if self._core.measures:
            super()._apply_occurred(step, record, _)
        else:
            self._core.unclaim(record.event_id, step.released)


class PassesOverClaimed(BulkSlice):
    """An operation leaves out what somebody else is deciding about."""

    def step(self) -> bool:
        more = super().step()
        if self.busy is not None and self._cursor is not None:
            self._cursor += b"\0"
            self.busy = None
        return more


class IgnoresClaimedByBulk(BulkSlice):
    """An operation changes what is on its way to the log."""

    def step(self) -> bool:
        claims, self._core.claims = self._core.claims, set()
        more = super().step()
        self._core.claims |= claims
        return more


class PassingProcess(DelayProcess):
    make_slice = PassesOverClaimed


class IgnoringProcess(DelayProcess):
    make_slice = IgnoresClaimedByBulk


CORES: dict[str, type[DelayCore]] = {
    "window boundary off by one": SkipsAMillisecond,
    "loader and short delay both insert": InsertsTwice,
    "cancel only removes from the index": CancelsInIndexOnly,
    "upsert leaves the old timer": LeavesOldTimer,
    "pause forgotten after restart": ReleasesStrangers,
    "pause leaves what is due": PausesHalf,
    "failures lost on restart": ForgetsFailures,
    "failed timer retried without back-off": RetriesAtOnce,
    "dead events dropped": DropsDead,
    "drawn-back reach skips what lies behind it": ReachesOver,
    "drawn-back reach forgets what it dropped": ForgetsDropped,
    "backlog after a clock jump not bounded": DrainsFast,
    "rate limit forgotten between bursts": ForgetsRates,
}
PLANTED: dict[str, dict[str, Any]] = {
    **{name: {"make_core": core} for name, core in CORES.items()},
    "occurrence lost between frame and projection": {
        "make_recurring": LosesOccurrences
    },
    "operation passes over what is claimed": {"make_delay": PassingProcess},
    "operation changes what fires": {"make_delay": IgnoringProcess},
}
TIMER_BUGS = {
    name: {**planted, "focus": Focus.TIMERS} for name, planted in PLANTED.items()
}

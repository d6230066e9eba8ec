"""When a schedule occurs: a pure function of its plan.

`after` tells the next *nominal* time, such as the full hour. An occurrence is due at
that time plus its jitter, which follows from the schedule's id and the nominal time,
and is never so long that it reaches the next nominal time. So occurrences keep their
order, and everybody who computes them gets the same times.
"""

from enum import IntEnum
from hashlib import blake2b

import msgspec

from .cron import Cron
from .errors import BadPlan

INTERVAL_MS_MIN = 1_000
INTERVAL_MS_MAX = 3650 * 86_400_000
JITTER_MS_MAX = 86_400_000
FACTOR_MIN = 1.1  # so that the longest pause is soon reached
FACTOR_MAX = 1_000
TIME_MS_MAX = 250_000_000_000_000  # in the year 9892


class CatchUp(IntEnum):
    """What becomes of occurrences that were missed, since nothing ran or the topic
    was paused. Those that do not fire are skipped."""

    FIRE_ONCE = 1  # the last of them fires
    FIRE_ALL = 2  # they all fire, in their order
    SKIP = 3  # none fires; the last does if it is not later than `grace_ms`


class Plan(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """When a schedule occurs. Exactly one of `cron`, `interval_ms`, `first_ms`.

    An interval is counted from `anchor_ms`. So is exponential back-off: the first
    occurrence comes `first_ms` after it, each pause is `factor` times as long as the
    one before, and none is longer than `longest_ms`. With `starts`, the anchor is an
    occurrence itself, and nothing occurs before it. 0 means none for the rest.
    """

    cron: str = ""
    time_zone: str = "UTC"
    interval_ms: int = 0
    first_ms: int = 0
    factor: float = 2.0
    longest_ms: int = INTERVAL_MS_MAX
    anchor_ms: int = 0
    starts: bool = False
    until_ms: int = 0
    times: int = 0
    jitter_ms: int = 0
    catch_up: int = CatchUp.FIRE_ONCE
    grace_ms: int = 60_000


class Recurrence:
    """The nominal times of a plan. Raises BadPlan, BadCron, UnknownTimeZone."""

    def __init__(self, plan: Plan) -> None:
        check(plan)
        self._plan = plan
        self._cron = Cron(plan.cron, plan.time_zone) if plan.cron else None

    def after(self, moment_ms: int) -> int | None:
        """The first nominal time after a moment; None if there is none."""
        plan = self._plan
        if plan.starts:
            moment_ms = max(moment_ms, plan.anchor_ms - 1)
        if self._cron is not None:
            found = self._cron.after(moment_ms)
        elif plan.interval_ms:
            found = self._interval_after(moment_ms)
        else:
            found = self._exponential_after(moment_ms)
        if found is None or found > (plan.until_ms or TIME_MS_MAX):
            return None
        return found

    def _interval_after(self, moment_ms: int) -> int:
        plan = self._plan
        count = (moment_ms - plan.anchor_ms) // plan.interval_ms + 1
        return plan.anchor_ms + max(count, 0 if plan.starts else 1) * plan.interval_ms

    def _exponential_after(self, moment_ms: int) -> int:
        plan = self._plan
        nominal_ms = plan.anchor_ms
        if plan.starts and nominal_ms > moment_ms:
            return nominal_ms
        pause = float(plan.first_ms)
        while pause < plan.longest_ms:
            nominal_ms += int(pause)
            if nominal_ms > moment_ms:
                return nominal_ms
            pause *= plan.factor
        count = max(1, (moment_ms - nominal_ms) // plan.longest_ms + 1)
        return nominal_ms + count * plan.longest_ms

    def last(self, floor_ms: int, moment_ms: int) -> int:
        """The last nominal time up to a moment. `floor_ms` is one, not later."""
        assert floor_ms <= moment_ms
        following_ms = self.after(floor_ms)
        if following_ms is None or following_ms > moment_ms:
            return floor_ms  # nearly always
        late_ms = moment_ms  # nothing occurs between it and the moment
        while late_ms - floor_ms >= INTERVAL_MS_MIN:  # none are nearer than that
            middle_ms = (floor_ms + late_ms) // 2
            found = self.after(middle_ms)
            if found is not None and found <= moment_ms:
                floor_ms = found
            else:
                late_ms = middle_ms
        return floor_ms

    def due(self, schedule_id: bytes, nominal_ms: int) -> int:
        """When the occurrence of this nominal time is due."""
        jitter_ms = self._plan.jitter_ms
        if not jitter_ms:
            return nominal_ms
        following_ms = self.after(nominal_ms)
        room = jitter_ms + 1
        if following_ms is not None:
            room = min(room, following_ms - nominal_ms)
        if self._plan.until_ms:
            room = min(room, self._plan.until_ms - nominal_ms + 1)
        seed = schedule_id + nominal_ms.to_bytes(8, "big")
        chance = int.from_bytes(blake2b(seed, digest_size=8).digest(), "big")
        return nominal_ms + chance % room


def check(plan: Plan) -> None:
    """Raise BadPlan for what cannot be meant."""
    rules = (plan.cron != "") + (plan.interval_ms != 0) + (plan.first_ms != 0)
    if rules != 1:
        raise BadPlan("cron", "give one of cron, interval and exponential")
    if not plan.cron:
        field = "interval" if plan.interval_ms else "exponential"
        pause_ms = plan.interval_ms or plan.first_ms
        if not INTERVAL_MS_MIN <= pause_ms <= INTERVAL_MS_MAX:
            raise BadPlan(
                field,
                f"{pause_ms} ms between two occurrences; it must be "
                f"{INTERVAL_MS_MIN} ms to {INTERVAL_MS_MAX // 86_400_000} days",
            )
        if plan.time_zone != "UTC":
            raise BadPlan("time_zone", "a time zone only goes with cron; leave it out")
    if plan.first_ms and not FACTOR_MIN <= plan.factor <= FACTOR_MAX:
        raise BadPlan("exponential", f"the factor must be {FACTOR_MIN} to {FACTOR_MAX}")
    if plan.first_ms and not plan.first_ms <= plan.longest_ms <= INTERVAL_MS_MAX:
        raise BadPlan(
            "exponential",
            "the longest pause must not be shorter than the first, nor longer than "
            f"{INTERVAL_MS_MAX // 86_400_000} days",
        )
    if not 0 <= plan.jitter_ms <= JITTER_MS_MAX:
        raise BadPlan("jitter", f"it must be 0 to {JITTER_MS_MAX // 3_600_000} hours")
    if plan.times < 0 or plan.grace_ms < 0:
        raise BadPlan("times" if plan.times < 0 else "grace_ms", "it is negative")
    if max(plan.until_ms, plan.anchor_ms) > TIME_MS_MAX:
        field = "until" if plan.until_ms > TIME_MS_MAX else "start_at"
        raise BadPlan(field, "this is too far in the future")

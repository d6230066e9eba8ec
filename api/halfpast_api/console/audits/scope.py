"""What a page shows: a stretch of time in equal steps, one topic or all, one producer
group or all."""

from dataclasses import dataclass
from typing import Final

from halfpast_api.console.audits.figures import ALL
from halfpast_api.problems import Refusal
from halfpast_api.query import Query
from halfpast_api.times import BadTime, parse_instant

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

RANGES: Final = {
    "1h": HOUR_MS,
    "6h": 6 * HOUR_MS,
    "24h": DAY_MS,
    "7d": 7 * DAY_MS,
    "30d": 30 * DAY_MS,
}
RANGE: Final = "24h"
PARAMETERS: Final = ("range", "from", "to", "topic", "group", "window", "reason")
STEPS_MAX: Final = 300
_STEPS_MS: Final = (
    *(MINUTE_MS * it for it in (1, 2, 5, 10, 15, 30)),
    *(HOUR_MS * it for it in (1, 2, 3, 6, 12)),
    *(DAY_MS * it for it in (1, 2, 7, 14, 28)),
)
_WINDOWS_MAX: Final = 200_000
_MS_MAX: Final = 253_402_300_799_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the query of a request asks for; None and "" leave it to the data."""

    range: str = RANGE
    from_ms: int | None = None
    to_ms: int | None = None
    topic: str = ALL
    group: str = ""
    window_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Windows of `window_ms` that begin at `from_ms` or later and before `to_ms`,
    gathered in steps. All four go into one another."""

    window_ms: int
    from_ms: int
    to_ms: int
    step_ms: int
    topic: str = ALL
    group: str = ""

    @property
    def steps(self) -> range:
        return range(self.from_ms, self.to_ms, self.step_ms)

    @property
    def is_exact(self) -> bool:
        """Whether a step is a window, so that its percentiles are those found."""
        return self.step_ms == self.window_ms


def read_wish(query: Query) -> Wish:
    """Raises Refusal."""
    from_ms, to_ms = _instant(query, "from"), _instant(query, "to")
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise Refusal("invalid_parameter", "'from' must be before 'to'")
    window_ms = query.integer("window", 0, 0, DAY_MS * 31)
    return Wish(
        range=query.choice("range", RANGE, list(RANGES)),
        from_ms=from_ms,
        to_ms=to_ms,
        topic=query.text("topic") or ALL,
        group=query.text("group") or "",
        window_ms=window_ms or None,
        reason=query.text("reason") or "",
    )


def settle(wish: Wish, window_ms: int, newest_ms: int, now_ms: int) -> Scope:
    """The scope of a wish, where the newest window ends at `newest_ms`.

    Windows that are still to come hold what is pending; they are shown only to whoever
    asks for them.
    """
    end = wish.to_ms
    if end is None:
        end = min(newest_ms, _up(now_ms, window_ms))
        if wish.from_ms is not None:
            end = max(end, wish.from_ms + RANGES[wish.range])
    end = _up(end, window_ms)
    start = end - RANGES[wish.range] if wish.from_ms is None else wish.from_ms
    start = _down(start, window_ms)
    if (end - start) // window_ms > _WINDOWS_MAX:
        raise Refusal(
            "invalid_parameter",
            f"from 'from' to 'to' are more than {_WINDOWS_MAX} windows; take less",
        )
    step_ms = step_for(end - start, window_ms)
    return Scope(
        window_ms=window_ms,
        from_ms=_down(start, step_ms),
        to_ms=_up(end, step_ms),
        step_ms=step_ms,
        topic=wish.topic,
        group=wish.group,
    )


def step_for(span_ms: int, window_ms: int) -> int:
    """The shortest round step, a multiple of the window, for at most STEPS_MAX."""
    for step_ms in (window_ms, *_STEPS_MS):
        if step_ms % window_ms == 0 and span_ms <= step_ms * STEPS_MAX:
            return step_ms
    return window_ms * -(-span_ms // (window_ms * STEPS_MAX))


def _instant(query: Query, name: str) -> int | None:
    """RFC 3339, or as a form sends it: without an offset, and then in UTC."""
    text = query.text(name)
    if text is None:
        return None
    for tail in ("", "Z", ":00Z"):
        try:
            return min(max(parse_instant(text + tail), 0), _MS_MAX)
        except BadTime:
            continue
    raise Refusal(
        "invalid_parameter", f"{name!r} must be a time such as 2026-01-01T12:00Z"
    )


def _down(at_ms: int, unit_ms: int) -> int:
    return at_ms - at_ms % unit_ms


def _up(at_ms: int, unit_ms: int) -> int:
    return _down(at_ms + unit_ms - 1, unit_ms)

"""What a run is to audit, and where its results go."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from .job_errors import BadPeriod
from .sla import SlaRules
from .windows import Period, ceil_ms, floor_ms

WINDOW_MS = 300_000
GRACE_MS = 10_000
WINDOW_COUNT_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One run in batch.

    `details`: a folder for the id-level tables as Parquet, one folder a run; none are
    kept if it is empty. `from_ms` and `to_ms` are moved outwards to borders of windows;
    without them, all that the data tell of.
    """

    database: str
    from_ms: int | None = None
    to_ms: int | None = None
    window_ms: int = WINDOW_MS
    grace_ms: int = GRACE_MS
    rules: SlaRules = field(default_factory=SlaRules)
    details: str = ""


def check_end(config: RunConfig, horizon_ms: int) -> None:
    """Raises BadPeriod if the windows end in the future: what the log will hold there
    is not known yet."""
    if config.window_ms <= 0:
        raise BadPeriod("the window must be longer than 0 ms")
    last_ms = _last_ms(config, horizon_ms)
    if config.to_ms is not None and ceil_ms(config.to_ms, config.window_ms) > last_ms:
        raise BadPeriod(
            f"the windows end in the future: the log is known up to {_told(horizon_ms)}"
            f", so the last window that can be audited ends at {_told(last_ms)}"
        )


def period_of(
    config: RunConfig, *, first_ms: int, starts_at_zero: bool, horizon_ms: int
) -> Period:
    """The windows of a run. Raises BadPeriod.

    A log that retention has cut begins in the middle of a window, of which nobody can
    tell the whole: without `from_ms` the next one is the first.
    """
    window_ms = config.window_ms
    check_end(config, horizon_ms)
    if config.grace_ms < 0:
        raise BadPeriod("the grace cannot be negative")
    if config.from_ms is not None:
        from_ms = floor_ms(config.from_ms, window_ms)
    elif starts_at_zero:
        from_ms = floor_ms(first_ms, window_ms)
    else:
        from_ms = ceil_ms(first_ms, window_ms)
    if config.to_ms is None:
        to_ms = _last_ms(config, horizon_ms)
    else:
        to_ms = ceil_ms(config.to_ms, window_ms)
    if from_ms >= to_ms:
        raise BadPeriod(
            f"no window lies between {_told(from_ms)} and {_told(to_ms)}: the data "
            f"begin at {_told(first_ms)} and end at {_told(horizon_ms)}"
        )
    if (to_ms - from_ms) // window_ms > WINDOW_COUNT_MAX:
        raise BadPeriod(
            f"more than {WINDOW_COUNT_MAX} windows: take longer ones, or a later start"
        )
    return Period(
        from_ms=from_ms,
        to_ms=to_ms,
        window_ms=window_ms,
        horizon_ms=horizon_ms,
        grace_ms=config.grace_ms,
    )


def _last_ms(config: RunConfig, horizon_ms: int) -> int:
    """Where the window ends that the horizon lies in."""
    return floor_ms(horizon_ms, config.window_ms) + config.window_ms


def _told(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""What a request says of when a schedule occurs, as a plan of the Delay Server."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from halfpast_api.delay.schedule_bodies import (
    CATCH_UPS,
    ExponentialBody,
    ScheduleChange,
)
from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.times import NS_PER_MS, BadTime, parse_duration, parse_instant
from halfpast_chronos.recurrence import INTERVAL_MS_MAX, Plan, Recurrence

T = TypeVar("T")

_RULES: Final = ("cron", "interval", "interval_ms", "exponential")
_MS_MAX: Final = 2**62


def plan_of(body: ScheduleChange, before: Plan | None = None) -> Plan:
    """The plan, new or changed. Raises Refusal and BadPlan.

    Its `anchor_ms` is 0 where it counts from now, which the Delay Server fills in.
    """
    given = [name for name in _RULES if getattr(body, name) is not None]
    if len(given) > 1:
        raise refuse_field(
            "invalid_schedule",
            f"/{given[1]}",
            f"give only one of {' and '.join(given)}",
        )
    if given:
        plan = _with_rule(body, before or Plan())
    elif before is None:
        raise Refusal(
            "missing_field",
            "say when it occurs: one of cron, interval and exponential",
        )
    else:
        plan = before
        if body.time_zone is not None:
            plan = replace(plan, time_zone=body.time_zone)
    if body.start_at is not UNSET:
        start_ms = _instant("start_at", body.start_at)
        plan = replace(plan, anchor_ms=start_ms, starts=start_ms > 0)
    plan = replace(plan, **_limits(body))
    Recurrence(plan)  # raises what is wrong with it
    return plan


def _with_rule(body: ScheduleChange, before: Plan) -> Plan:
    """The same plan with the rule of the request. It keeps a start, and a time zone
    if both are cron expressions."""
    time_zone = before.time_zone if body.cron is not None else "UTC"
    rule: dict[str, Any] = {
        "cron": "",
        "interval_ms": 0,
        "first_ms": 0,
        "factor": 2.0,
        "longest_ms": INTERVAL_MS_MAX,
        "time_zone": time_zone if body.time_zone is None else body.time_zone,
        "anchor_ms": before.anchor_ms if before.starts else 0,
    }
    if body.cron is not None:
        if not body.cron:
            raise refuse_field("invalid_cron", "/cron", "it is empty")
        rule["cron"] = body.cron
    elif body.exponential is not None:
        rule |= _exponential(body.exponential)
    else:
        rule["interval_ms"] = _span("interval", body.interval, body.interval_ms)
        if rule["interval_ms"] == 0:
            raise refuse_field("invalid_schedule", "/interval", "it must not be zero")
    return replace(before, **rule)


def _exponential(body: ExponentialBody) -> dict[str, Any]:
    first_ms = _span("exponential/first", body.first, body.first_ms)
    if not first_ms:
        raise refuse_field(
            "invalid_schedule", "/exponential/first", "give the first pause, above zero"
        )
    found: dict[str, Any] = {"first_ms": first_ms}
    if body.factor is not None:
        found["factor"] = body.factor
    if body.longest is not None or body.longest_ms is not None:
        found["longest_ms"] = _span(
            "exponential/longest", body.longest, body.longest_ms
        )
    return found


def _limits(body: ScheduleChange) -> dict[str, Any]:
    """The fields of a plan that go with any rule, as far as they are given."""
    found: dict[str, Any] = {}
    if body.until is not UNSET:
        found["until_ms"] = _instant("until", body.until)
    if body.times is not UNSET:
        found["times"] = body.times or 0
    if body.jitter is not UNSET or body.jitter_ms is not UNSET:
        found["jitter_ms"] = _span(
            "jitter", _or_none(body.jitter), _or_none(body.jitter_ms)
        )
    if body.catch_up is not UNSET:
        found["catch_up"] = CATCH_UPS[body.catch_up]
    if body.grace_ms is not UNSET:
        found["grace_ms"] = body.grace_ms
    return found


def _span(name: str, text: str | None, ms: int | None) -> int:
    """A span that is given in one of two ways, in ms, rounded up; 0 for none."""
    if text is not None and ms is not None:
        raise refuse_field(
            "invalid_schedule",
            f"/{name}_ms",
            f"give {name} or {name}_ms, not both",
        )
    if text is not None:
        ns = _read(parse_duration, name, text)
        return min(-(-ns // NS_PER_MS), _MS_MAX)
    if ms is not None and ms < 0:
        raise refuse_field("invalid_schedule", f"/{name}_ms", f"{ms} is negative")
    return min(ms or 0, _MS_MAX)


def _instant(name: str, text: str | None) -> int:
    """Epoch ms; 0 for none."""
    if text is None:
        return 0
    return max(1, _read(parse_instant, name, text))


def _read(parse: Callable[[str], int], name: str, text: str) -> int:
    try:
        return parse(text)
    except BadTime as error:
        raise refuse_field("invalid_time", f"/{name}", str(error)) from None


def _or_none(value: T | UnsetType | None) -> T | None:
    return None if value is UNSET else value

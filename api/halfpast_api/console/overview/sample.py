"""How things stand at one moment, from what the services count."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from halfpast_api.health import why_not_ready
from halfpast_core_store.broker import BrokerStatus

Statuses = Mapping[str, BrokerStatus | Exception]

RATES: Final = ("written", "scheduled", "delivered", "transactions")
_COUNTERS: Final = {
    "written": ("broker", "log_records_total"),
    "scheduled": ("delay", "scheduled_total"),
    "delivered": ("delay", "fired_total"),
    "transactions": ("transactions", "transactions_begun_total"),
}
_GAUGES: Final = {
    "pending": ("delay", "timers_pending"),
    "open": ("transactions", "transactions_open"),
    "parked": ("transactions", "transactions_parked"),
}
_BUCKET: Final = re.compile(r'lateness_ms_bucket\{le="([^"]+)"\}')
_LATENESS: Final = "lateness_ms_max"
_NAMES: Final = {
    "broker": "Store",
    "delay": "Delay Server",
    "transactions": "Transactions",
    "push": "Push",
}


class Health(msgspec.Struct):
    """One service: `state` is ok, or says what is wrong with it in a word."""

    name: str
    state: str
    note: str = ""


class Sample(msgspec.Struct, kw_only=True):
    """`counts` only grow, until their service starts again. `lateness`: how many were
    at most so many ms late."""

    at_s: float
    counts: dict[str, float]
    gauges: dict[str, int]
    lateness: list[tuple[float, float]]
    health: list[Health]


def sample_of(
    statuses: Statuses, at_s: float, *, is_stale: bool = False, late: int | None = None
) -> Sample:
    """`late`: how many events are late now, if that is known."""
    known = {name: it for name, it in statuses.items() if isinstance(it, BrokerStatus)}
    counts = {
        name: known[service].counters[counter]
        for name, (service, counter) in _COUNTERS.items()
        if service in known and counter in known[service].counters
    }
    gauges = {
        name: round(known[service].gauges[gauge])
        for name, (service, gauge) in _GAUGES.items()
        if service in known and gauge in known[service].gauges
    }
    if late is not None:
        gauges["late"] = late
    lateness: list[tuple[float, float]] = []
    if "delay" in known:
        for text, count in known["delay"].counters.items():
            if match := _BUCKET.fullmatch(text):
                lateness.append((float(match[1]), count))
    return Sample(
        at_s=at_s,
        counts=counts,
        gauges=gauges,
        lateness=sorted(lateness),
        health=_health(statuses, is_stale),
    )


def rates_between(before: Sample, after: Sample) -> dict[str, float | None]:
    """Per second. None where a service was away, or began to count anew."""
    span_s = after.at_s - before.at_s
    found: dict[str, float | None] = {}
    for name in RATES:
        first, last = before.counts.get(name), after.counts.get(name)
        is_known = first is not None and last is not None and last >= first
        found[name] = (last - first) / span_s if is_known and span_s > 0 else None  # type: ignore[operator]
    return found


def lateness_between(
    before: Sample, after: Sample, shares: Sequence[float]
) -> list[float | None]:
    """For each share, how late at most so many of them were: the bound of a bucket."""
    first = dict(before.lateness)
    counts = [(upper, count - first.get(upper, 0)) for upper, count in after.lateness]
    total = counts[-1][1] if counts else 0
    if not before.lateness or total <= 0 or any(count < 0 for _, count in counts):
        return [None for _ in shares]
    return [
        next(upper for upper, count in counts if count >= share * total)
        for share in shares
    ]


def _health(statuses: Statuses, is_stale: bool) -> list[Health]:
    found: list[Health] = []
    for service, status in statuses.items():
        name = _NAMES.get(service, service)
        reason = why_not_ready(service, status)
        if isinstance(status, Exception):
            found.append(Health(name, "away", reason))
        elif reason:
            found.append(Health(name, "starting", reason))
        elif status.gauges.get("store_writable") == 0:
            text = "the disk is full: nothing is taken, consumers go on"
            found.append(Health(name, "read_only", text))
        else:
            found.append(Health(name, "ok"))
    text = "the database is away: the last settings that were known apply"
    found.append(
        Health("Metadata", "stale", text) if is_stale else Health("Metadata", "ok")
    )
    return found

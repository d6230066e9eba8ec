"""The first page: how fast things go, how late, what is coming, what is wrong."""

import itertools
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from markupsafe import Markup

from halfpast_api.console.due import Due, columns
from halfpast_api.console.moment import zone_of
from halfpast_api.console.overview.heat import (
    DAYS,
    HOUR_MS,
    Row,
    first_hour_ms,
    heat_map,
)
from halfpast_api.console.overview.pulse import KEPT_S, Pulse
from halfpast_api.console.overview.sample import (
    RATES,
    Sample,
    lateness_between,
    rates_between,
)
from halfpast_api.console.rendering import data_block
from halfpast_api.console.sparkline import Sparkline, sparkline
from halfpast_api.console.visit import View, Visit
from halfpast_api.console.wording import NONE, compact, duration, rate
from halfpast_api.problems import as_refusal, problem_of
from halfpast_api.times import parse_instant

_LIVE_MS: Final = 2_000
_SHARES: Final = (0.5, 0.99, 1.0)
_RECENT_S: Final = 60.0
_MINUTE_MS: Final = 60_000


class Tile(msgspec.Struct, kw_only=True):
    """A figure that leads to more."""

    name: str
    value: str
    note: str
    state: str = ""
    url: str
    spark: Sparkline | None = None


class OverviewPages:
    """The page, from samples and from what is due."""

    def __init__(
        self,
        pulse: Pulse,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._pulse = pulse
        self._now_ms = now_ms

    async def show(self, visit: Visit) -> View:
        """GET /console"""
        now_ms = self._now_ms()
        zone = zone_of(visit.zone)
        sees_server = visit.viewer.sees_server
        samples = list(self._pulse.samples) if sees_server else []
        if sees_server and not samples:
            samples = [await self._pulse.take()]
        values: dict[str, object] = {
            "health": samples[-1].health if samples else [],
            "zone": zone.key,
            "rows": list[Row](),
            "due": None,
            "hours": range(24),
        }
        due, hour = Due(start="", end="", server_time=""), None
        try:
            start_ms = first_hour_ms(now_ms, zone)
            due = await visit.get(
                Due, "due", resolution="1h", **_span(start_ms, DAYS * 24 + 2, HOUR_MS)
            )
            minute_ms = now_ms // _MINUTE_MS * _MINUTE_MS
            hour = await visit.get(
                Due, "due", resolution="1m", **_span(minute_ms, 60, _MINUTE_MS)
            )
            counts = {parse_instant(it.at): it.count for it in due.buckets}
            values |= {"due": due, "rows": heat_map(counts, now_ms, zone)}
        except Exception as error:  # the rest of the page tells what is away
            refusal = as_refusal(error)
            if refusal is None:
                raise
            values["problem"] = problem_of(refusal)
        values["tiles"] = _tiles(samples, due)
        values["late"] = due.late
        values["figures"] = _figures(samples, hour)
        values["sees_server"] = sees_server
        return View("overview/overview.html", values, live_ms=_LIVE_MS)


def _span(start_ms: int, count: int, step_ms: int) -> dict[str, str]:
    return {"from": _iso(start_ms), "to": _iso(start_ms + count * step_ms)}


def _iso(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _tiles(samples: Sequence[Sample], due: Due) -> list[Tile]:
    """What may be wrong comes first."""
    late = due.late.count
    found = [
        Tile(
            name="Late now",
            value=compact(late),
            note=f"of {compact(due.pending)} pending",
            state="bad" if late else "good",
            url="#late",
        )
    ]
    if samples:
        found.append(_doubt_tile(samples[-1]))
        found.append(_lateness_tile(samples))
        found += _rate_tiles(samples)
    return found


def _doubt_tile(sample: Sample) -> Tile:
    parked = sample.gauges.get("parked", 0)
    return Tile(
        name="In doubt",
        value=compact(sample.gauges.get("open", 0)),
        note=f"{compact(parked)} wait for an operator",
        state="bad" if parked else "good",
        url="/console/transactions",
    )


def _rate_tiles(samples: Sequence[Sample]) -> list[Tile]:
    steps = [rates_between(a, b) for a, b in itertools.pairwise(samples)]
    now = rates_between(_recent(samples), samples[-1])
    urls = {
        "written": "/console/topics",
        "scheduled": "/console/events",
        "delivered": "/console/events?state=delivered",
        "transactions": "/console/transactions?state=committed",
    }
    notes = {
        "written": "records in the log",
        "scheduled": "events with a time",
        "delivered": "when their time came",
        "transactions": "begun",
    }
    return [
        Tile(
            name=name.capitalize(),
            value=rate(now[name]),
            note=notes[name],
            url=urls[name],
            spark=sparkline([it[name] for it in steps[-60:]]),
        )
        for name in RATES
    ]


def _lateness_tile(samples: Sequence[Sample]) -> Tile:
    p50, p99, most = lateness_between(_recent(samples), samples[-1], _SHARES)
    steps = [lateness_between(a, b, (0.99,))[0] for a, b in itertools.pairwise(samples)]
    return Tile(
        name="Lateness, p99",
        value=NONE if p99 is None else f"≤ {_bound(p99)}",
        note="nothing was due in the last minute"
        if p50 is None or most is None
        else f"p50 ≤ {_bound(p50)}, max ≤ {_bound(most)}",
        state="" if p99 is None else "good" if p99 <= 100 else "warn",
        url="#lately",
        spark=sparkline([_drawn(it) for it in steps[-60:]]),
    )


def _recent(samples: Sequence[Sample]) -> Sample:
    """The sample of a minute ago, or the oldest."""
    since_s = samples[-1].at_s - _RECENT_S
    return next((it for it in samples if it.at_s >= since_s), samples[0])


def _figures(samples: Sequence[Sample], hour: Due | None) -> Markup:
    rates: dict[str, list[float | None]] = {name: [] for name in RATES}
    lateness: dict[str, list[float | None]] = {"p50": [], "p99": [], "max": []}
    pairs = list(itertools.pairwise(samples))
    for before, after in pairs:
        for name, value in rates_between(before, after).items():
            rates[name].append(value)
        bounds = lateness_between(before, after, _SHARES)
        for column, bound in zip(lateness.values(), bounds, strict=True):
            column.append(_drawn(bound))
    times, counts = columns(hour, _MINUTE_MS) if hour else ([], [])
    return data_block(
        {
            "at": [after.at_s for _, after in pairs],
            "since": samples[-1].at_s - KEPT_S if samples else 0,
            "rates": rates,
            "lateness": lateness,
            "times": times,
            "due": counts,
            "step": _MINUTE_MS / 1000,
        }
    )


def _bound(ms: float) -> str:
    if ms == float("inf"):
        return "more than 1 h"
    return f"{ms:g} ms" if ms < 1 else duration(ms)


def _drawn(ms: float | None) -> float | None:
    return None if ms is None else min(ms, 7_200_000.0)

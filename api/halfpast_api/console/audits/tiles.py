"""The handful of figures on top: what to know if there is time for nothing else."""

from typing import Literal

import msgspec

from halfpast_api.console.audits.dashboard import Dashboard
from halfpast_api.console.audits.plot import Column
from halfpast_api.console.wording import NONE, duration, number, percent, plural

State = Literal["good", "warn", "bad", "none"]


class Tile(msgspec.Struct, kw_only=True):
    """`line` is drawn small below; `target` is the section that tells more."""

    name: str
    value: str
    note: str
    state: State
    line: Column
    target: str


def tiles_of(dashboard: Dashboard) -> list[Tile]:
    """In the order of the page."""
    return [
        _promises(dashboard),
        _attainment(dashboard),
        _lateness(dashboard),
        _books(dashboard),
        _rate(dashboard),
        _doubt(dashboard),
    ]


def _promises(dashboard: Dashboard) -> Tile:
    total = dashboard.on_time.total
    parts = {
        "lost": total.lost,
        "early": total.early,
        "duplicated": total.duplicated,
        "fired after cancel": total.fired_anyway,
    }
    said = ", ".join(f"{number(n)} {name}" for name, n in parts.items() if n)
    return Tile(
        name="Lost, early, twice",
        value=number(total.broken),
        note=said or f"of {plural(total.scheduled, 'timer')}",
        state=_state(total.broken, total.scheduled),
        line=dashboard.on_time.counts["broken"],
        target="offenders" if total.broken else "on-time",
    )


def _attainment(dashboard: Dashboard) -> Tile:
    section = dashboard.on_time
    judged = [it for it in section.topics if it.is_met is not None]
    if dashboard.scope.topic in {it.name for it in judged}:
        judged = [it for it in judged if it.name == dashboard.scope.topic]
    missed = [it for it in judged if it.is_met is False]
    note = f"{plural(len(judged), 'topic')}, each meets its SLA"
    if missed:
        verb = "misses its" if len(missed) == 1 else "miss their"
        note = f"{len(missed)} of {plural(len(judged), 'topic')} {verb} SLA"
    return Tile(
        name="Within SLA",
        value=percent(section.total.attainment),
        note=note if judged else "no topic has an SLA",
        state=_state(len(missed), len(judged)),
        line=section.attainment,
        target="sla",
    )


def _lateness(dashboard: Dashboard) -> Tile:
    section = dashboard.on_time
    return Tile(
        name="Lateness, p99",
        value=duration(section.lateness_p99_ms),
        note=f"latest of all {duration(section.lateness_max_ms)}",
        state="none",
        line=section.lateness["p99"],
        target="on-time",
    )


def _books(dashboard: Dashboard) -> Tile:
    total, flows = dashboard.transactions.total, dashboard.end_to_end
    broken = total.broken + flows.broken
    known = total.half + sum(it.counts.published for it in flows.topics)
    parts = {
        "unbalanced": max(abs(total.difference), total.unbalanced),
        "missing": total.missing,
        "leaked": total.leaked,
        "twice": total.duplicated,
        "wrong end to end": flows.broken,
    }
    said = ", ".join(f"{number(n)} {name}" for name, n in parts.items() if n)
    return Tile(
        name="Books",
        value=("balance" if not broken else number(broken)) if known else NONE,
        note=said or f"{plural(known, 'id')} accounted for",
        state=_state(broken, known),
        line=[],
        target="end-to-end",
    )


def _rate(dashboard: Dashboard) -> Tile:
    section = dashboard.transactions
    total = section.total
    checked, half = number(total.checked_back), plural(total.half, "transaction")
    return Tile(
        name="Check-back rate",
        value=percent(total.rate),
        note=f"{checked} of {half}",
        state="none",
        line=section.rate,
        target="transactions",
    )


def _doubt(dashboard: Dashboard) -> Tile:
    total = dashboard.transactions.total
    state: State = "warn" if total.parked else ("good" if total.half else "none")
    return Tile(
        name="In doubt",
        value=number(total.open + total.parked),
        note=f"{number(total.open)} open, {number(total.parked)} wait for an operator",
        state=state,
        line=dashboard.transactions.counts["parked"],
        target="transactions",
    )


def _state(broken: int, known: int) -> State:
    if broken:
        return "bad"
    return "good" if known else "none"

"""What the templates of the audits may call, beside the figures they are given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from markupsafe import Markup

from halfpast_api.console import wording
from halfpast_api.console.assets import Assets
from halfpast_api.console.audits.dashboard import Dashboard
from halfpast_api.console.audits.figures import ALL
from halfpast_api.console.audits.links import PATH, event_link, page_link
from halfpast_api.console.audits.offenders import Happening, Offender
from halfpast_api.console.audits.on_time_section import TopicRow
from halfpast_api.console.audits.scope import RANGE, RANGES
from halfpast_api.console.audits.transaction_section import SHOWN_GROUPS
from halfpast_api.console.page_names import TEMPLATES, add_parts, console_names
from halfpast_api.console.rendering import Pages, data_block
from halfpast_api.console.sparkline import sparkline

_TONES: Final = {
    "bad": "lost leaked missing unbalanced difference duplicated early fired_anyway",
    "bad ": "unpublished dead dead_lettered failed",
    "warn": "parked late open check second_phase_lost slow_local waiting slow",
    "good": "fired delivered op committed consumed occurred",
}
_TONE_OF: Final = {
    what: name.strip() for name, some in _TONES.items() for what in some.split()
}
_EPOCH_MS_MIN: Final = 100_000_000_000  # smaller ones are durations


def audit_pages(assets: Assets) -> Pages:
    """The templates with all their names, on top of those of the console."""
    names: dict[str, object] = {
        name: getattr(wording, name)
        for name in (
            *("number", "percent", "duration", "instant", "minute"),
            *("iso", "field", "plural", "words"),
        )
    }
    names |= {
        "all": ALL,
        "ago": ago,
        "budget_text": budget_text,
        "budget_used": budget_used,
        "default_range": RANGE,
        "detail": detail,
        "event_link": event_link,
        "goal": goal,
        "home": PATH,
        "is_report": False,
        "link": page_link,
        "logo": logo,
        "ranges": list(RANGES),
        "sparkline": sparkline,
        "tone": tone,
        "toned": toned,
    }
    own = Path(__file__).parent / "templates"
    pages = Pages((own, TEMPLATES), console_names(assets) | names)
    add_parts(pages)
    return pages


def figures_block(dashboard: Dashboard, zoom: str | None) -> Markup:
    """What the plots are drawn from. `zoom`: the address that takes `from` and `to`."""
    scope, on_time = dashboard.scope, dashboard.on_time
    transactions = dashboard.transactions
    return data_block(
        {
            "zoom": zoom,
            "step": scope.step_ms / 1000,
            "times": [at_ms / 1000 for at_ms in scope.steps],
            "transactions": transactions.counts,
            "rate": transactions.rate,
            "rates": [
                {"name": it.name, "rate": it.rates}
                for it in transactions.groups[:SHOWN_GROUPS]
                if not scope.group
            ],
            "outcome": transactions.outcome,
            "checks": [[it.upper, it.count] for it in transactions.checks],
            "on_time": on_time.counts,
            "attainment": on_time.attainment,
            "lateness": on_time.lateness,
            "heat": on_time.heat,
            "sla_ms": on_time.sla_ms,
            "sla_share": on_time.sla_share,
        }
    )


def budget_used(row: TopicRow) -> float | None:
    """Which part of the failures that the SLA allows there were; 1 is all of them."""
    attained, wanted = row.counts.attainment, row.sla_share
    if attained is None or wanted is None:
        return None
    if wanted >= 1:
        return 0.0 if attained >= 1 else float("inf")
    return (1 - attained) / (1 - wanted)


def budget_text(used: float) -> str:
    """`34 %`, or how many times all of it."""
    return (
        f"{used:.0%}".replace("%", " %") if used < 10 else f"{min(used, 999):.0f} times"
    )


def goal(share: float) -> str:
    """`99.9 %`, as somebody has written it."""
    return f"{share * 100:.6g} %"


def tone(what: str) -> str:
    """How grave an event or a reason looks."""
    return _TONE_OF.get(what, "plain")


def toned(offender: Offender) -> list[tuple[Happening, str]]:
    """The time line with a tone for each line. Of one timer, what comes a second time
    should not have come."""
    found: list[tuple[Happening, str]] = []
    seen: set[str] = set()
    for line in offender.timeline:
        is_again = line.what in seen and line.what in ("fired", "delivered")
        is_again = is_again and offender.audit == "on_time"
        found.append((line, "bad" if is_again else tone(line.what)))
        seen.add(line.what)
    return found


def ago(span_ms: int) -> str:
    """`24 s ago`"""
    return "just now" if span_ms < 1000 else f"{wording.duration(span_ms)} ago"


def detail(name: str, value: str) -> str:
    """A value of a time line."""
    if name.endswith("_ms") and value.lstrip("-").isdigit():
        number = int(value)
        is_time = number >= _EPOCH_MS_MIN
        return wording.instant(number) if is_time else wording.duration(number)
    return value


def logo() -> Markup:
    """The sign of the suite, a clock at half past."""
    return Markup(
        '<svg class="logo" viewBox="0 0 24 24" aria-hidden="true" focusable="false">'
        '<circle cx="12" cy="12" r="9.5"/><path d="M12 6.5v10.5M12 12l-3.4 2.8"/></svg>'
    )


def page_values(dashboard: Dashboard) -> Mapping[str, object]:
    """What both the page and the report are given."""
    wish = dashboard.wish
    return {
        "board": dashboard,
        "scope": dashboard.scope,
        "wish": wish,
        "is_custom": wish.from_ms is not None or wish.to_ms is not None,
    }

"""The address of a page that differs from this one in a few things."""

from typing import Final
from urllib.parse import quote, urlencode

from halfpast_api.console.audits.figures import ALL
from halfpast_api.console.audits.scope import PARAMETERS, RANGE, Wish
from halfpast_api.console.wording import iso

PATH: Final = "/console/audits"


def page_link(wish: Wish, **changes: str) -> str:
    """The same page with other parameters; `from` is written `from_`. Empty ones are
    left out."""
    values = {
        "range": "" if wish.range == RANGE else wish.range,
        "from": "" if wish.from_ms is None else iso(wish.from_ms),
        "to": "" if wish.to_ms is None else iso(wish.to_ms),
        "topic": "" if wish.topic == ALL else wish.topic,
        "group": wish.group,
        "window": str(wish.window_ms or ""),
        "reason": wish.reason,
    }
    values |= {name.removesuffix("_"): value for name, value in changes.items()}
    query = urlencode({name: values[name] for name in PARAMETERS if values[name]})
    return f"{PATH}?{query}" if query else PATH


def event_link(event_id: str) -> str:
    """One event's page."""
    return f"{PATH}/events/{quote(event_id)}"

"""Time lines with the time that passed between two entries."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from halfpast_api.console.wording import duration
from halfpast_api.times import BadTime, parse_instant


class Happened(Protocol):
    """What the API says of something that happened."""

    at: str
    what: str


class Line(msgspec.Struct):
    """One entry as it is shown."""

    at: str
    what: str
    gap: str = ""
    more: str = ""


def time_line(
    entries: Iterable[Happened], more: Mapping[str, str] | None = None
) -> list[Line]:
    """`more`: what to say beside the last entry of a kind."""
    found: list[Line] = []
    last_ms: int | None = None
    for it in entries:
        try:
            at_ms = parse_instant(it.at)
        except BadTime:
            at_ms = last_ms or 0
        gap = "" if last_ms is None else f"+{duration(at_ms - last_ms)}"
        found.append(Line(it.at, it.what, gap))
        last_ms = at_ms
    for what, text in (more or {}).items():
        for line in reversed(found):
            if line.what == what:
                line.more = text
                break
    return found

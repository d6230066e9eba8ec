"""Figures and times as people read them."""

import math
from datetime import UTC, datetime

NONE = "\N{EN DASH}"
_DIGITS_MAX = 4
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def number(value: int) -> str:
    """`1,234,567`"""
    return f"{value:,}"


def compact(value: float) -> str:
    """`950`, `12.3 k`, `4.5 M`: for where there is little room."""
    for size, name in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if value >= size:
            unit = 1_000 if name == "k" else size
            return f"{value / unit:.3g} {name}"
    return number(round(value))


def rate(value: float | None) -> str:
    """Per second."""
    if value is None:
        return NONE
    if 0 < value < 10:
        return f"{value:.2g}/s"
    return f"{compact(value)}/s"


def size(count: int) -> str:
    """`512 B`, `1.5 KiB`, `4 MiB`"""
    if count < 1024:
        return f"{count} B"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f}".removesuffix(".0") + " KiB"
    return f"{count / 1024 / 1024:.1f}".removesuffix(".0") + " MiB"


def sentence(text: str) -> str:
    """With a capital in front and a full stop behind."""
    text = text.strip()
    if not text:
        return ""
    end = "" if text[-1] in ".!?…" else "."
    return text[0].upper() + text[1:] + end


def percent(value: float | None) -> str:
    """A share, never nearer to all or nothing than it is: `99.936 %`, not `100 %`."""
    if value is None:
        return NONE
    if value in (0, 1):
        return f"{value:.0%}".replace("%", " %")
    rest = 100 * min(value, 1 - value)
    if rest < 10**-_DIGITS_MAX:
        bound = 10**-_DIGITS_MAX
        return f"> {100 - bound:.4f} %" if value > 0.5 else f"< {bound:.4f} %"
    least = 2 if rest < 10 else 1
    digits = min(max(math.ceil(-math.log10(rest)) + 1, least), _DIGITS_MAX)
    scale = 10 ** (digits + 2)
    cut = math.floor(value * scale) if value > 0.5 else math.ceil(value * scale)
    return f"{cut * 100 / scale:.{digits}f} %"


def duration(value_ms: float | None) -> str:
    """`12 ms`, `2.6 s`, `3 min`"""
    if value_ms is None:
        return NONE
    if value_ms < 0:
        return f"\N{MINUS SIGN}{duration(-value_ms)}"
    for unit_ms, name in _UNITS:
        if value_ms >= unit_ms:
            size = value_ms / unit_ms
            text = f"{size:.1f}" if size < 10 else f"{size:.0f}"
            return f"{text.removesuffix('.0')} {name}"
    return f"{value_ms:.0f} ms"


def instant(at_ms: int | None) -> str:
    """`2026-01-01 12:00:00.123`, in UTC."""
    if at_ms is None:
        return NONE
    return f"{_utc(at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}"


def minute(at_ms: int | None) -> str:
    """`2026-01-01 12:00`, in UTC; with its seconds where it is no whole minute."""
    if at_ms is None:
        return NONE
    form = "%Y-%m-%d %H:%M:%S" if at_ms // 1000 % 60 else "%Y-%m-%d %H:%M"
    return f"{_utc(at_ms):{form}}"


def iso(at_ms: int) -> str:
    """For machines."""
    return f"{_utc(at_ms):%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"


def field(at_ms: int) -> str:
    """As a form's field for a time holds it."""
    return f"{_utc(at_ms):%Y-%m-%dT%H:%M}"


def plural(count: int, one: str, many: str = "") -> str:
    """`1 topic`, `2 topics`"""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def words(name: str) -> str:
    """`second phase lost`"""
    return name.replace("_", " ")


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC)

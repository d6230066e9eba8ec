"""Query parameters: known names only, each at most once, values checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from halfpast_api.problems import Refusal
from halfpast_api.times import BadTime, parse_instant

_INT_LENGTH_MAX: Final = 19
_INT_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one request. All methods may raise Refusal."""

    values: dict[str, str]

    @classmethod
    def parse(cls, text: str, known: Sequence[str]) -> "Query":
        """Read a query string."""
        if not text:
            return cls({})
        try:
            pairs = parse_qsl(
                text, keep_blank_values=True, errors="strict", max_num_fields=50
            )
        except ValueError as error:
            raise Refusal(
                "invalid_parameter", f"the query cannot be read ({error}); mend it"
            ) from None
        values: dict[str, str] = {}
        for name, value in pairs:
            if name not in known:
                raise _refuse(name, f"is not known here; known are {', '.join(known)}")
            if name in values:
                raise _refuse(name, "is given twice; give it once")
            values[name] = value
        return cls(values)

    def text(self, name: str) -> str | None:
        """The value, None if there is none or it is empty."""
        return self.values.get(name) or None

    def integer(self, name: str, default: int, low: int, high: int = _INT_MAX) -> int:
        """A number from `low` to `high`."""
        value = self.values.get(name)
        if value is None:
            return default
        is_number = (
            value.isascii() and value.isdigit() and len(value) <= _INT_LENGTH_MAX
        )
        if is_number and low <= (number := int(value)) <= high:
            return number
        raise _refuse(name, f"must be a whole number from {low} to {high}")

    def instant(self, name: str, default_ms: int) -> int:
        """A time as epoch ms."""
        value = self.values.get(name)
        if value is None:
            return default_ms
        try:
            return parse_instant(value)
        except BadTime as error:
            advice = " (a + in a query means a space: write it as %2B)"
            raise _refuse(name, str(error) + (advice if " " in value else "")) from None

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of `choices`."""
        value = self.values.get(name, default)
        if value not in choices:
            raise _refuse(name, f"must be one of {', '.join(choices)}")
        return value


def _refuse(name: str, detail: str) -> Refusal:
    shown = name if len(name) <= 40 else name[:40] + "…"
    return Refusal("invalid_parameter", f"the parameter {shown!r} {detail}")

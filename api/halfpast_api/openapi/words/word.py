"""What a member of a request or an answer means, and the usual kinds of members."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from halfpast_api.openapi.parameters import ID_SCHEMA, INSTANT_SCHEMA

Schema = Mapping[str, object]
Words = dict[str, "Word"]
DURATION: Final[Schema] = {
    "pattern": "^P(?=[0-9T])(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?"
    "(?:[0-9]+(?:[.,][0-9]+)?S)?)?$"
}
TEXT_MAP: Final[Schema] = {
    "type": ["object", "null"],
    "additionalProperties": {"type": "string"},
}
_NOTHING: Final[Schema] = {}


@dataclass(frozen=True, slots=True)
class Word:
    """`given` holds for requests only, `schema` for answers as well."""

    text: str
    example: object = None
    schema: Schema = field(default_factory=dict[str, object])
    given: Schema = field(default_factory=dict[str, object])


def instant(text: str, example: str = "2026-11-20T10:00:05.123Z") -> Word:
    return Word(text, example, INSTANT_SCHEMA)


def id_word(text: str, example: str) -> Word:
    return Word(text, example, ID_SCHEMA)


def number(text: str, example: int, low: int = 0, high: int | None = None) -> Word:
    """A number with bounds in requests."""
    bounds = {"minimum": low} if high is None else {"minimum": low, "maximum": high}
    return Word(text, example, _NOTHING, bounds)

"""Which messages a consumer asks for: tags, or an SQL92 expression."""

from typing import Final, Literal, NamedTuple

from halfpast_api.problems import refuse_field
from halfpast_core_store.record import TAG_SIZE_MAX

FilterType = Literal["tag", "sql92"]

FILTER_TYPES: Final[tuple[FilterType, ...]] = ("tag", "sql92")
_ALL: Final = ("", "*")
_TAGS_MAX: Final = 64


class Wanted(NamedTuple):
    """What the broker is asked for; neither means all messages."""

    tags: list[str]
    expression: str


def parse_wanted(text: str | None, filter_type: str) -> Wanted:
    """What a filter asks for. Raises Refusal; an expression is read by the broker."""
    if text is None or text.strip() in _ALL:
        return Wanted([], "")
    if filter_type == "sql92":
        return Wanted([], text)
    return Wanted(_parse_tags(text), "")


def _parse_tags(text: str) -> list[str]:
    """The tags of a filter such as `paid || refunded`."""
    tags = [tag.strip() for tag in text.split("||")]
    if len(tags) <= _TAGS_MAX and all(
        tag and len(tag.encode()) <= TAG_SIZE_MAX for tag in tags
    ):
        return list(dict.fromkeys(tags))
    raise refuse_field(
        "invalid_request",
        "/filter",
        f"a filter is 1 to {_TAGS_MAX} tags with || between them, such as "
        '"paid || refunded", or "*" for all messages; for an expression say '
        '"filter_type": "sql92"',
    )

"""Which events an endpoint wants: by tag, and by their properties.

    {"tags": ["paid", "refunded"], "properties": {"region": ["eu", "us"]}}

An event is wanted if it has one of the tags (if any are given) and for each property
one of its values. Other members may come later; this release refuses them.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from halfpast_api.metadata.endpoint_settings import FILTER_CHARS_MAX
from halfpast_api.problems import refuse_field
from halfpast_core_store.record import TAG_SIZE_MAX

VALUES_MAX: Final = 64
PROPERTIES_MAX: Final = 16

Value = Annotated[str, Meta(max_length=1000)]
Values = Annotated[list[Value], Meta(min_length=1, max_length=VALUES_MAX)]
Tag = Annotated[str, Meta(min_length=1, max_length=TAG_SIZE_MAX)]


class EventFilter(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A filter as users give it; a property may have one value or a list of them."""

    tags: Annotated[list[Tag], Meta(max_length=VALUES_MAX)] = []
    properties: Annotated[
        dict[str, Value | Values], Meta(max_length=PROPERTIES_MAX)
    ] = {}


class FilterView(msgspec.Struct, omit_defaults=True):
    """A filter as it is shown: always lists."""

    tags: list[str] = []
    properties: dict[str, list[str]] = {}


class EventMatch:
    """A filter at work."""

    def __init__(self, text: str) -> None:
        wanted = view_filter(text) or FilterView()
        self.tags: Final = wanted.tags
        """The broker looks at these."""
        self._tags = frozenset(tag.encode() for tag in wanted.tags)
        self._properties = [
            (name, frozenset(values)) for name, values in wanted.properties.items()
        ]

    def __call__(self, tag: bytes, properties: Mapping[str, str]) -> bool:
        """Whether an event is wanted."""
        if self._tags and tag not in self._tags:
            return False
        return all(properties.get(name) in values for name, values in self._properties)


def render_filter(wanted: EventFilter | None) -> str:
    """A filter as it is stored, empty for none. Raises Refusal."""
    if wanted is None:
        return ""
    for index, tag in enumerate(wanted.tags):
        if len(tag.encode()) > TAG_SIZE_MAX:
            pointer = f"/filter/tags/{index}"
            raise refuse_field("invalid_tag", pointer, "is longer than a tag may be")
    properties = {
        name: [values] if isinstance(values, str) else values
        for name, values in wanted.properties.items()
    }
    if not wanted.tags and not properties:
        return ""
    stored = FilterView(list(dict.fromkeys(wanted.tags)), properties)
    text = msgspec.json.encode(stored).decode()
    if len(text) > FILTER_CHARS_MAX:
        detail = f"must have at most {FILTER_CHARS_MAX} characters as JSON"
        raise refuse_field("invalid_settings", "/filter", detail)
    return text


def view_filter(text: str) -> FilterView | None:
    """The other way round."""
    return msgspec.json.decode(text, type=FilterView) if text else None

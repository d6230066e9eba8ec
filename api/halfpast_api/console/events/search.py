"""Which events are looked for: the fields of the search, and the filter they mean."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from halfpast_api.console.moment import instant_of
from halfpast_api.query import Query

STATES: Final = ("scheduled", "delivered", "cancelled", "dead")
FIELDS: Final = ("topic", "key", "tag", "state", "due_after", "due_before", "zone")
_WITHOUT_TAGS: Final = ("delivered", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """As the API wants it: times are RFC 3339."""

    state: str
    topic: str | None = None
    key: str | None = None
    tag: str | None = None
    due_after: str | None = None
    due_before: str | None = None

    @property
    def wanted(self) -> dict[str, str]:
        """What was asked for beside the state."""
        found = {
            "topic": self.topic,
            "key": self.key,
            "tag": self.tag,
            "due_after": self.due_after,
            "due_before": self.due_before,
        }
        return {name: it for name, it in found.items() if it}

    @property
    def bulk_url(self) -> str:
        """Where all that this finds can be changed."""
        return f"/console/events:bulk?{urlencode(self.wanted)}"


def read_search(query: Query) -> Search:
    """Raises Refusal."""
    zone = query.text("zone") or "UTC"
    state = query.choice("state", "scheduled", STATES)
    after, before = query.text("due_after"), query.text("due_before")
    tag = query.text("tag")
    return Search(
        state=state,
        topic=query.text("topic"),
        key=query.text("key"),
        tag=None if state in _WITHOUT_TAGS else tag,
        due_after=instant_of(after, zone) if after else None,
        due_before=instant_of(before, zone) if before else None,
    )

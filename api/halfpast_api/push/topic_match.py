"""Which topics an endpoint is subscribed to: names, and patterns with `*`.

A pattern matches topics of its own namespace only, and none that the suite keeps for
itself: those must be named.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from halfpast_core_store.topics import reserved_name

MATCHED_MAX: Final = 1000
"""Topics that one endpoint takes from; what is more, by name, is left."""


class TopicMatch:
    """The topics of one endpoint."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.names: Final = tuple(it for it in topics if "*" not in it)
        self._patterns = [_compiled(it) for it in topics if "*" in it]

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    def __call__(self, topic: str) -> bool:
        """Whether a topic is meant."""
        if topic in self.names:
            return True
        return not reserved_name(topic) and any(
            pattern.fullmatch(topic) for pattern in self._patterns
        )

    def among(self, topics: Iterable[str]) -> list[str]:
        """Those that are meant: what is named, also if it does not exist, and what
        matches."""
        matched = sorted(it for it in topics if it not in self.names and self(it))
        return [*self.names, *matched][:MATCHED_MAX]


def _compiled(pattern: str) -> re.Pattern[str]:
    """`*` stands for any characters but `%`, which ends the name of a namespace."""
    parts = map(re.escape, pattern.split("*"))
    return re.compile("[^%]*".join(parts))

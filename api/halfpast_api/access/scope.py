"""Scopes of a key: a verb, and the topics for which it is allowed.

    publish:orders-*     consume     read:*     admin

`*` stands for any characters, also none; it is the only sign with a meaning. A verb
alone is allowed for all topics. A list of scopes allows what any of them allows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from halfpast_api.access.verbs import Verb

ALL: Final = "*"
PATTERN_LENGTH_MAX: Final = 127
SCOPES_MAX: Final = 64
_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_%-*"
)
_VERBS: Final = frozenset(Verb) - {Verb.OPEN}


@dataclass(frozen=True, slots=True)
class Scope:
    """One verb for the topics of one pattern."""

    verb: Verb
    pattern: str = ALL

    def __str__(self) -> str:
        return self.verb if self.pattern == ALL else f"{self.verb}:{self.pattern}"


class BadScope(ValueError):
    """This text is no scope. `text` and `why` tell what to mend."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(text, why)
        self.text = text
        self.why = why

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 60 else self.text[:60] + "…"
        return f"{shown!r} is not a scope: {self.why}"


class Scopes:
    """Several scopes as one answer to "may this be done?"."""

    __slots__ = ("_everywhere", "_patterns", "texts")

    def __init__(self, scopes: Iterable[Scope]) -> None:
        given = tuple(scopes)
        self.texts: Final = tuple(map(str, given))
        self._everywhere = frozenset(it.verb for it in given if it.pattern == ALL)
        self._patterns: dict[Verb, list[_Glob]] = {}
        for it in given:
            if it.verb not in self._everywhere:
                self._patterns.setdefault(it.verb, []).append(_Glob(it.pattern))

    def allow_some(self, verb: Verb) -> bool:
        """Whether the verb is allowed for any topic at all."""
        return verb in self._everywhere or verb in self._patterns

    def allow(self, verb: Verb, topic: str | None) -> bool:
        """Whether it is allowed for this topic; for all of them if that is None."""
        if verb in self._everywhere:
            return True
        if topic is None:
            return False
        patterns = self._patterns.get(verb)
        return patterns is not None and any(it.matches(topic) for it in patterns)


def parse_scope(text: str) -> Scope:
    """Raises BadScope."""
    word, colon, pattern = text.partition(":")
    if word not in _VERBS:
        raise BadScope(text, f"it must begin with one of {', '.join(sorted(_VERBS))}")
    if not colon:
        return Scope(Verb(word))
    if not 0 < len(pattern) <= PATTERN_LENGTH_MAX:
        detail = f"its pattern must have 1 to {PATTERN_LENGTH_MAX} characters"
        raise BadScope(text, detail)
    if not _CHARACTERS.issuperset(pattern):
        raise BadScope(text, "its pattern may hold A-Z a-z 0-9 _ % - and *")
    return Scope(Verb(word), pattern)


def parse_scopes(texts: Iterable[str]) -> Scopes:
    """Raises BadScope."""
    return Scopes(map(parse_scope, texts))


class _Glob:
    """A pattern, taken apart at its stars. Takes linear time, whatever the pattern."""

    __slots__ = ("_first", "_last", "_length", "_middle", "_whole")

    def __init__(self, pattern: str) -> None:
        parts = pattern.split(ALL)
        self._whole = pattern if len(parts) == 1 else None
        self._first, self._last = parts[0], parts[-1]
        self._middle = [part for part in parts[1:-1] if part]
        self._length = sum(map(len, parts))

    def matches(self, name: str) -> bool:
        if self._whole is not None:
            return name == self._whole
        if len(name) < self._length:
            return False
        if not (name.startswith(self._first) and name.endswith(self._last)):
            return False
        at, end = len(self._first), len(name) - len(self._last)
        for part in self._middle:
            at = name.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

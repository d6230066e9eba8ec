"""Filter expressions after RocketMQ's SQL92: which messages a consumer wants.

Compiled once and remembered; a message costs a few microseconds, and its properties
are decoded only if the expression asks for one. See the README for the language.
"""

from functools import lru_cache
from typing import Final

import msgspec

from .errors import InvalidFilter
from .record import HEADER, HEADER_SIZE
from .sql_grammar import parse
from .sql_terms import Condition

LENGTH_MAX: Final = 4_000
REMEMBERED_MAX: Final = 1_000
TAG_NAME: Final = "TAGS"
PROPERTIES: Final = msgspec.msgpack.Decoder(dict[str, str])


class SqlFilter:
    """A compiled expression."""

    def __init__(self, condition: Condition) -> None:
        self._test = condition.test

    def matches(self, record: bytes) -> bool:
        """Whether it is true of this message; unknown is not enough."""
        return self._test(MessageValues(record).get) is True


class MessageValues:
    """What an expression may name of one message."""

    __slots__ = ("_body_at", "_properties", "_properties_at", "_record", "_tag_at")

    def __init__(self, record: bytes) -> None:
        key_size, tag_size, properties_size = HEADER.unpack_from(record)[11:14]
        self._record = record
        self._tag_at = HEADER_SIZE + key_size
        self._properties_at = self._tag_at + tag_size
        self._body_at = self._properties_at + properties_size
        self._properties: dict[str, str] | None = None

    def get(self, name: str) -> str | None:
        """The value of this name, None if it is missing."""
        if name == TAG_NAME:
            tag = self._record[self._tag_at : self._properties_at]
            return tag.decode(errors="replace") if tag else None
        if self._properties is None:
            packed = self._record[self._properties_at : self._body_at]
            self._properties = PROPERTIES.decode(packed) if packed else {}
        return self._properties.get(name)


@lru_cache(REMEMBERED_MAX)
def compile_filter(text: str) -> SqlFilter:
    """The filter that an expression describes. Raises InvalidFilter."""
    if len(text) > LENGTH_MAX:
        reason = f"a filter has at most {LENGTH_MAX} characters, not {len(text)}"
        raise InvalidFilter(LENGTH_MAX, reason)
    return SqlFilter(parse(text))

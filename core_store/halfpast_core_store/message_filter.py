"""Which messages a consumer wants: by their tags, and by an SQL92 expression."""

from collections.abc import Callable, Sequence

from .record import HEADER, decode_record, tag_hash
from .sql_filter import compile_filter

TAG_HASH = 9  # its place in the record header

MessageFilter = Callable[[bytes], bool]


def message_filter(tags: Sequence[str], expression: str) -> MessageFilter | None:
    """Whether a record is wanted; None if all are. Raises InvalidFilter."""
    filters: list[MessageFilter] = []
    if tags:
        filters.append(tag_filter(tags))
    if expression:
        filters.append(compile_filter(expression).matches)
    if len(filters) < 2:
        return filters[0] if filters else None
    has_tag, is_true = filters
    return lambda record: has_tag(record) and is_true(record)


def tag_filter(tags: Sequence[str]) -> MessageFilter:
    """Whether a record has one of these tags; the tag's hash spares decoding."""
    wanted = frozenset(tag.encode() for tag in tags)
    hashes = frozenset(tag_hash(tag) for tag in wanted)

    def matches(record: bytes) -> bool:
        return (
            HEADER.unpack_from(record)[TAG_HASH] in hashes
            and decode_record(record).tag in wanted
        )

    return matches

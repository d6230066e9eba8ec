"""Names that users give: which are allowed, and which are ours."""

from typing import Final

from halfpast_api.problems import Refusal
from halfpast_core_store.topics import (
    DEAD_LETTER_PREFIX,
    NAME_LENGTH_MAX,
    reserved_name,
    valid_name,
)

# A group's dead-letter topic is named after it.
GROUP_LENGTH_MAX: Final = NAME_LENGTH_MAX - len(DEAD_LETTER_PREFIX)


def check_topic_to_write(name: str) -> None:
    """Raise Refusal unless users may publish to, or create, a topic of this name."""
    _check(name, "topic", NAME_LENGTH_MAX)
    if reserved_name(name):
        raise Refusal(
            "reserved_topic",
            f"{name!r} is kept by the suite itself, as are all names that begin with "
            "%, SYS_ or TRANS_; publish to a topic with another name",
        )


def check_topic_to_read(name: str) -> None:
    """Raise Refusal unless users may consume a topic of this name.

    Dead letters may be consumed, `%DLQ%group`; other topics of ours may not.
    """
    _check(name, "topic", NAME_LENGTH_MAX)
    if reserved_name(name) and not name.startswith(DEAD_LETTER_PREFIX):
        raise Refusal(
            "reserved_topic",
            f"{name!r} is kept by the suite itself; of the names that begin with %, "
            f"SYS_ or TRANS_, only {DEAD_LETTER_PREFIX}… can be consumed",
        )


def check_group(name: str) -> None:
    """Raise Refusal unless a consumer group may have this name."""
    _check(name, "group", GROUP_LENGTH_MAX)
    if reserved_name(name):
        raise Refusal(
            "reserved_group",
            f"{name!r} is kept by the suite itself; choose a name that begins with "
            "none of %, SYS_, TRANS_",
        )


def check_producer_group(name: str) -> None:
    """Raise Refusal unless a producer group may have this name."""
    _check(name, "producer group", NAME_LENGTH_MAX)
    if reserved_name(name):
        raise Refusal(
            "reserved_group",
            f"{name!r} is kept by the suite itself; choose a name that begins with "
            "none of %, SYS_, TRANS_",
        )


def _check(name: str, what: str, length_max: int) -> None:
    if valid_name(name) and len(name) <= length_max:
        return
    shown = name if len(name) <= 40 else name[:40] + "…"
    raise Refusal(
        f"invalid_{what.replace(' ', '_')}",
        f"{shown!r} ({len(name)} characters) cannot be the name of a {what}; use 1 to "
        f"{length_max} of the characters A-Z a-z 0-9 _ % -",
    )

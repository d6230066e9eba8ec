"""Names of endpoints: which are allowed, and what is named after them.

Within the store a name of the namespace `acme` is `acme%name`; what is made from a name
stays in its namespace. Names of endpoints themselves hold no `%`.
"""

from typing import Final

from halfpast_api.problems import Refusal

GROUP_PREFIX: Final = "endpoint-"
NAME_LENGTH_MAX: Final = 64
_CHARACTERS: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)


def check_endpoint_name(name: str) -> None:
    """Raise Refusal unless an endpoint may have this name."""
    if 0 < len(name) <= NAME_LENGTH_MAX and _CHARACTERS.issuperset(name):
        return
    shown = name if len(name) <= 40 else name[:40] + "…"
    raise Refusal(
        "invalid_endpoint_name",
        f"{shown!r} ({len(name)} characters) cannot be the name of an endpoint; use "
        f"1 to {NAME_LENGTH_MAX} of the characters A-Z a-z 0-9 _ -",
    )


def split_stored(name: str) -> tuple[str, str]:
    """Namespace and name of a name in the store."""
    namespace, _, rest = name.rpartition("%")
    return namespace, rest


def stored_name(namespace: str, name: str) -> str:
    """The other way round."""
    return f"{namespace}%{name}" if namespace else name


def group_of(endpoint: str) -> str:
    """The consumer group of an endpoint, both by their names in the store."""
    namespace, name = split_stored(endpoint)
    return stored_name(namespace, GROUP_PREFIX + name)


def endpoint_of(group: str) -> str | None:
    """The endpoint of a consumer group; None for any other group."""
    namespace, name = split_stored(group)
    if not name.startswith(GROUP_PREFIX) or len(name) == len(GROUP_PREFIX):
        return None
    return stored_name(namespace, name.removeprefix(GROUP_PREFIX))

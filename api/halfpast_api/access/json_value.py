"""What kind of JSON value something is, in a way that type checkers follow."""

from typing import Any, TypeGuard


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether it has members, whose names are texts in JSON."""
    return isinstance(value, dict)

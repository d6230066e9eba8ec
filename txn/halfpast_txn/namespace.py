"""Names of a namespace: `acme%orders` belongs to `acme`, which calls it `orders`."""

from msgspec.structs import replace

from .transactions import Check


def in_namespace(group: str, namespace: str | None) -> bool:
    """Whether the group belongs to it; any does if that is None. The empty namespace
    has the names without a percent sign."""
    if namespace is None:
        return True
    return group.startswith(f"{namespace}%") if namespace else "%" not in group


def as_known_in(check: Check, namespace: str) -> Check:
    """A question with the names that its namespace knows."""
    if not namespace:
        return check
    prefix = f"{namespace}%"
    messages = [
        replace(it, topic=it.topic.removeprefix(prefix)) for it in check.messages
    ]
    return replace(check, group=check.group.removeprefix(prefix), messages=messages)

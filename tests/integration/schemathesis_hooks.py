"""What schemathesis does before each request: it waits for nothing, and does not limit
itself."""

from importlib import import_module
from typing import Any, cast

_WAIT_MS_MAX = 30_000


def before_call(context: object, case: Any, kwargs: object) -> None:
    """A long poll that is allowed becomes a short one; limits are for others."""
    path = cast(dict[str, Any], case.path_parameters or {})
    if path.get("subject") in ("default-namespace", "every-namespace"):
        path["subject"] = "every-user"
    for place in (case.query, case.body):
        if not isinstance(place, dict):
            continue
        members = cast(dict[str, Any], place)
        given = str(members.get("wait_ms"))
        if given.isascii() and given.isdigit() and 0 < int(given) <= _WAIT_MS_MAX:
            members["wait_ms"] = type(members["wait_ms"])(1)


# Its types are only partly known.
import_module("schemathesis").hook(before_call)

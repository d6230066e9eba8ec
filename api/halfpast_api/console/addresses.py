"""Addresses of the API, out of what users have named."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode


def target(
    *segments: str, verb: str = "", query: Mapping[str, str | int | None] | None = None
) -> str:
    """`/v1/topics/a%25b:pause?limit=10`; segments are quoted, what is None or empty is
    left out of the query."""
    path = "/v1/" + "/".join(quote(it, safe="") for it in segments)
    if verb:
        path += f":{verb}"
    given = {name: it for name, it in (query or {}).items() if it not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path

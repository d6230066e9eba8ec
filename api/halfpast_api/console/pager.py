"""Where a list goes on. Lists of the API know the next page, and never how many."""

from typing import Final
from urllib.parse import urlencode

import msgspec

from halfpast_api.query import Query

TOKEN: Final = "page_token"
LIMIT: Final = 50


class Pager(msgspec.Struct):
    """Addresses of pages; `next` is empty on the last one."""

    first: str
    next: str
    is_first: bool


def pager_of(path: str, query: Query, next_token: str | None) -> Pager:
    """For a list at `path` that was asked for with `query`."""
    kept = {name: it for name, it in query.values.items() if name != TOKEN}
    first = f"{path}?{urlencode(kept)}" if kept else path
    after = ""
    if next_token:
        after = f"{path}?{urlencode({**kept, TOKEN: next_token})}"
    return Pager(first, after, TOKEN not in query.values)

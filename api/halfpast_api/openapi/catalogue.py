"""Everything that is described: one entry for each route that programs call.

Pages for people (under `PAGES`) are no part of it.
"""

from typing import Final

from halfpast_api.openapi.operation import Operation, Tag, Webhook
from halfpast_api.openapi.operations import (
    access,
    bulk,
    clock,
    consuming,
    dead_letters,
    endpoints,
    events,
    limits,
    producer_groups,
    publishing,
    schedules,
    server,
    topics,
    transactions,
)
from halfpast_api.openapi.webhooks import CHECK_BACK, DELIVERY

PAGES: Final = ("/console", "/docs")

OPERATIONS: Final[tuple[Operation, ...]] = (
    *publishing.OPERATIONS,
    *events.OPERATIONS,
    *bulk.OPERATIONS,
    *schedules.OPERATIONS,
    *consuming.OPERATIONS,
    *transactions.OPERATIONS,
    *producer_groups.OPERATIONS,
    *endpoints.OPERATIONS,
    *dead_letters.OPERATIONS,
    *topics.OPERATIONS,
    *access.OPERATIONS,
    *limits.OPERATIONS,
    *clock.OPERATIONS,
    *server.OPERATIONS,
)
WEBHOOKS: Final[tuple[Webhook, ...]] = (CHECK_BACK, DELIVERY)
TAGS: Final[tuple[Tag, ...]] = (
    publishing.TAG,
    events.TAG,
    bulk.TAG,
    schedules.TAG,
    consuming.TAG,
    transactions.TAG,
    producer_groups.TAG,
    endpoints.TAG,
    dead_letters.TAG,
    topics.TAG,
    topics.GROUP_TAG,
    access.TAG,
    access.NAMESPACE_TAG,
    limits.TAG,
    clock.TAG,
    server.TAG,
)


def is_page(template: str) -> bool:
    """Whether a route is for people, so that it needs no description."""
    return any(template == page or template.startswith(page + "/") for page in PAGES)

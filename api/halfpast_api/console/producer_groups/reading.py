"""Producer groups as the API shows them, as far as pages need it."""

import msgspec


class ProducerGroup(msgspec.Struct):
    """How it is asked about transactions that it has left open. `check_secrets` counts
    them, and is the secret itself where it was just made."""

    name: str
    check_secrets: int | list[str]
    check_after_ms: int
    check_interval_ms: int
    check_max: int
    check_timeout_ms: int
    check_concurrency_max: int
    description: str = ""
    version: int = 0
    created_at: str | None = None
    updated_at: str | None = None
    check_url: str = ""


class ProducerGroupPage(msgspec.Struct):
    producer_groups: list[ProducerGroup]
    next_page_token: str | None = None

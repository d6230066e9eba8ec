"""Limits as the API shows them, as far as pages need it."""

import msgspec


class Share(msgspec.Struct, kw_only=True):
    """What holds for whoever looks, and what is left of it."""

    subject: str
    set_by: str = ""
    requests_per_s: float | None = None
    request_burst: int | None = None
    requests_left: int | None = None
    bytes_per_s: float | None = None
    byte_burst: int | None = None
    bytes_left: int | None = None
    max_pending: int | None = None
    max_delay_ms: int | None = None


class Server(msgspec.Struct, kw_only=True):
    """What holds for everybody."""

    max_delay_ms: int = 0
    event_bytes: int = 0
    batch_bytes: int = 0
    batch_events: int = 0
    transaction_messages: int = 0


class Own(msgspec.Struct, kw_only=True):
    """Limits of whoever looks."""

    limits: list[Share] = []
    pending: int | None = None
    server: Server


class Limits(msgspec.Struct, kw_only=True):
    """What somebody was given."""

    subject: str
    requests_per_s: float | None = None
    request_burst: int | None = None
    bytes_per_s: float | None = None
    byte_burst: int | None = None
    max_pending: int | None = None
    max_delay_ms: int | None = None
    version: int = 0


class LimitsPage(msgspec.Struct):
    limits: list[Limits]
    next_page_token: str | None = None

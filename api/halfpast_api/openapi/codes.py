"""Problem codes that many calls share, in groups by what brings them about."""

from typing import Final

Codes = tuple[str, ...]

EVERYWHERE: Final[Codes] = (
    "unauthenticated",
    "key_expired",
    "forbidden",
    "namespace_suspended",
    "forbidden_host",
    "cross_site",
    "csrf",
    "malformed_http",
    "malformed_path",
    "request_timeout",
    "too_many_connections",
    "rate_limited",
    "bytes_limited",
    "overloaded",
    "internal",
)
BODY: Final[Codes] = (
    "malformed_json",
    "malformed_msgpack",
    "malformed_body",
    "unsupported_media_type",
    "body_too_large",
    "expectation_failed",
    "invalid_request",
    "unknown_field",
    "missing_field",
    "duplicate_key",
    "too_deep",
)
SERVICES: Final[Codes] = (
    "unavailable",
    "connection_lost",
    "not_ready",
    "store_failed",
    "fence_lost",
    "corrupt_log",
)
WRITES: Final[Codes] = (
    *SERVICES,
    "store_full",
    "request_too_large",
    "frame_too_large",
)
METADATA: Final[Codes] = ("metadata_unavailable",)
QUERY: Final[Codes] = ("invalid_parameter",)
PAGE: Final[Codes] = ("invalid_parameter", "invalid_page_token")
VERSION: Final[Codes] = ("invalid_version", "stale_version")
IDEMPOTENT: Final[Codes] = ("invalid_idempotency_key", "idempotency_key_reused")
TOPIC: Final[Codes] = (
    "invalid_topic",
    "reserved_topic",
    "unknown_topic",
    "name_too_long",
)
TIME: Final[Codes] = ("invalid_time", "several_times", "delay_too_long")
CONTENT: Final[Codes] = (
    "missing_field",
    "invalid_data",
    "invalid_key",
    "invalid_tag",
    "invalid_properties",
    "event_too_large",
)
PUBLISH: Final[Codes] = (
    *BODY,
    *WRITES,
    *METADATA,
    *TOPIC,
    *TIME,
    *CONTENT,
    "topic_closed",
    "too_many_pending",
)
EVENT: Final[Codes] = (*SERVICES, "invalid_event_id", "unknown_event")
CHANGE: Final[Codes] = (
    *EVENT,
    *WRITES,
    *VERSION,
    "already_delivered",
    "already_cancelled",
    "event_in_transaction",
)
GROUP: Final[Codes] = ("invalid_group", "reserved_group", "name_too_long")
PRODUCER_GROUP: Final[Codes] = (
    "invalid_producer_group",
    "reserved_group",
    "name_too_long",
)
TRANSACTION: Final[Codes] = (
    *SERVICES,
    "invalid_transaction_id",
    "unknown_transaction",
)
OUTCOME: Final[Codes] = (
    *TRANSACTION,
    *WRITES,
    "transaction_conflict",
    "transaction_parked",
)
SETTINGS: Final[Codes] = (*METADATA, *VERSION, "invalid_settings")
ENDPOINT: Final[Codes] = (
    *METADATA,
    "invalid_endpoint_name",
    "unknown_endpoint",
    "name_too_long",
)
KEY: Final[Codes] = (*METADATA, "unknown_key")
NAMESPACE: Final[Codes] = (*METADATA, "unknown_namespace")

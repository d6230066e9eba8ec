"""Parameters that many calls share."""

from typing import Final

from halfpast_api.consume import WAIT_MS_MAX
from halfpast_api.names import GROUP_LENGTH_MAX
from halfpast_api.openapi import samples
from halfpast_api.openapi.operation import Parameter, Schema
from halfpast_core_store.topics import NAME_LENGTH_MAX

_NAME: Final = "[A-Za-z0-9_-][A-Za-z0-9_%-]"
_OURS: Final = "(?!SYS_|TRANS_)"
TOPIC_SCHEMA: Final[Schema] = {
    "type": "string",
    "pattern": f"^{_OURS}{_NAME}{{0,{NAME_LENGTH_MAX - 1}}}$",
}
FILTER_SCHEMA: Final[Schema] = {
    "type": "string",
    "pattern": f"^(?:{_OURS}{_NAME}{{0,{NAME_LENGTH_MAX - 1}}})?$",
}
READABLE_TOPIC_SCHEMA: Final[Schema] = {
    "type": "string",
    "pattern": f"^(?:%DLQ%)?{_OURS}{_NAME}{{0,{GROUP_LENGTH_MAX - 1}}}$",
}
GROUP_SCHEMA: Final[Schema] = {
    "type": "string",
    "pattern": f"^{_OURS}{_NAME}{{0,{GROUP_LENGTH_MAX - 1}}}$",
}
ID_SCHEMA: Final[Schema] = {"type": "string", "format": "uuid"}
INSTANT_SCHEMA: Final[Schema] = {"type": "string", "format": "date-time"}
# An empty one is none.
SOME_ID_SCHEMA: Final[Schema] = {"anyOf": [ID_SCHEMA, {"const": ""}]}
MOMENT_SCHEMA: Final[Schema] = {"anyOf": [INSTANT_SCHEMA, {"const": ""}]}


def path(name: str, text: str, schema: Schema, example: str) -> Parameter:
    return Parameter(name, "path", text, schema, example, required=True)


def query(name: str, text: str, schema: Schema, example: str = "") -> Parameter:
    return Parameter(name, "query", text, schema, example)


def header(name: str, text: str, schema: Schema, example: str = "") -> Parameter:
    return Parameter(name, "header", text, schema, example)


def choice(name: str, text: str, words: list[str], default: str = "") -> Parameter:
    """A query parameter that is one of some words."""
    schema: dict[str, object] = {"type": "string", "enum": words}
    if default:
        schema["default"] = default
    return query(name, text, schema)


def count(name: str, text: str, default: int, low: int, high: int) -> Parameter:
    """A query parameter that is a number within bounds."""
    schema = {"type": "integer", "minimum": low, "maximum": high, "default": default}
    return query(name, text, schema)


TOPIC: Final = path(
    "topic",
    "The topic: letters, digits, `_`, `%` and `-`. Names that begin with `SYS_`, "
    "`TRANS_` or `%` are kept by the server.",
    TOPIC_SCHEMA,
    "reminders",
)
READABLE_TOPIC: Final = path(
    "topic",
    "The topic; `%DLQ%group` holds the dead letters of a consumer group.",
    READABLE_TOPIC_SCHEMA,
    "reminders",
)
GROUP: Final = path("group", "The consumer group.", GROUP_SCHEMA, "mailer")
PRODUCER_GROUP: Final = path("group", "The producer group.", TOPIC_SCHEMA, "orders")
EVENT_ID: Final = path("id", "The event's id.", ID_SCHEMA, samples.EVENT)
TRANSACTION_ID: Final = path(
    "id", "The transaction's id; it ends in 0000.", ID_SCHEMA, samples.TRANSACTION
)
SCHEDULE_ID: Final = path("id", "The schedule's id.", ID_SCHEMA, samples.SCHEDULE)
OPERATION_ID: Final = path("id", "The operation's id.", ID_SCHEMA, samples.OPERATION)

IN_TOPIC: Final = query(
    "topic", "Only those of this topic.", FILTER_SCHEMA, "reminders"
)
LIMIT: Final = count("limit", "How many a page holds at most.", 100, 1, 1000)
PAGE_TOKEN: Final = query(
    "page_token",
    "`next_page_token` of the page before; without it the first page.",
    {"type": "string", "maxLength": 1024},
)
WAIT: Final = count(
    "wait_ms",
    "How long to wait for the first one if there is none. Then the answer is empty.",
    0,
    0,
    WAIT_MS_MAX,
)
IF_MATCH: Final = header(
    "If-Match",
    "The `ETag` of what you have seen. If it has changed since, nothing happens: 412.",
    {"type": "string", "pattern": '^(?:\\*|[0-9]{1,18}|"[0-9]{1,18}")$'},
    samples.ETAG,
)
IF_NONE_MATCH: Final = header(
    "If-None-Match",
    "`*`: create it, but do not replace anything.",
    {"type": "string", "enum": ["*"]},
    "*",
)
IDEMPOTENCY_KEY: Final = header(
    "Idempotency-Key",
    "Your own name for this request. Repeated with the same key, it is answered as the "
    "first time and stores nothing twice. Kept for a day.",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "order-17-reminder",
)

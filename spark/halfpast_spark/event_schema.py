"""The event table: one row for each thing that the log tells, in the log's order.

Batch, stream and Parquet all give this table. Imports nothing of Spark or Arrow.

    kind            what happened, see KINDS
    position        of the frame in the log; `number` counts the rows of that frame, so
                    that both together name a row for ever
    stored_ms       when the broker stored the frame; the order of the log is its order
    born_ms         when it was accepted; null where the record has no time of its own
    due_ms          when it is, or was, meant to happen
    topic, queue    where the message is meant to go; for kinds that are about no
                    message, the system topic that told of it
    offset          place in the queue, of messages that lie in one and of consumption
    event_id        UUID text
    transaction_id  of all kinds of a transaction, and of the messages in its commit
    group           producer group of the kinds of a transaction; consumer group of
                    `consumed` and `dead_letter`
    check           number of the check-back (`check`), of the one that brought the
                    outcome or else how many were sent (`op`, `parked`, `resumed`);
                    attempts of `failed`, `dead` and `dead_letter`
    reason          why, where somebody said so

Times are epoch milliseconds, UTC. All columns may be null by their type; which ones
are is told by NEVER_NULL.
"""

COLUMNS: tuple[tuple[str, str], ...] = (
    ("kind", "string"),
    ("position", "bigint"),
    ("number", "int"),
    ("stored_ms", "bigint"),
    ("born_ms", "bigint"),
    ("due_ms", "bigint"),
    ("topic_id", "int"),
    ("topic", "string"),
    ("queue", "int"),
    ("offset", "bigint"),
    ("event_id", "string"),
    ("transaction_id", "string"),
    ("group", "string"),
    ("check", "int"),
    ("from_check", "boolean"),
    ("forced", "boolean"),
    ("outcome", "string"),
    ("key", "string"),
    ("tag", "string"),
    ("size", "int"),
    ("message_count", "int"),
    ("reason", "string"),
)
"""Names and Spark types, in their order."""

COLUMN_NAMES: tuple[str, ...] = tuple(name for name, _ in COLUMNS)

NEVER_NULL = frozenset(
    {
        "kind", "position", "number", "stored_ms", "topic_id", "topic", "queue",
        "from_check", "forced", "size",
    }
)  # fmt: skip

KINDS: dict[str, str] = {
    # messages in queues
    "message": "a message for now is in its queue",
    "delivered": "a message that was due at due_ms is in its queue",
    "dead_letter": "a consumer group's poison message is in its dead-letter queue",
    # delayed messages
    "schedule": "a message waits until due_ms",
    "reschedule": "it now is due at due_ms (also: deliver now, and in bulk)",
    "replace": "it now is this message, due at due_ms",
    "cancel": "it will not be delivered (also in bulk)",
    "fired": "the timer has fired; its message is in the same frame. topic_id 0 and an"
    " empty topic if it is not",
    "failed": "the destination did not take it; tried again at due_ms",
    "dead": "the same, and it is not tried again",
    "redriven": "the dead one is due at due_ms",
    # recurring schedules; event_id is the schedule's, but for `occurred`
    "recurring": "a schedule now is this; due_ms: the next time",
    "recurring_ended": "a schedule occurs no more",
    "occurred": "an occurrence; its message is in the same frame",
    "operation": "a bulk operation now has come so far",
    # transactions
    "transaction": "it begins, with message_count messages; due_ms: first check-back",
    "added": "message_count more messages for an open one",
    "half": "a message of it, invisible until the commit. due_ms: null for a delay"
    " that begins with the commit",
    "check": "a check-back is sent; due_ms: the next one",
    "op": "the outcome",
    "parked": "checked back as often as allowed, without an outcome",
    "resumed": "an operator has it checked back again",
    # consumption
    "consumed": "a consumer group is done with the message at topic, queue, offset",
    # what could not be read
    "gap": "the log cannot be read from position up to the position in `offset`, and"
    " why (`reason`); what stood there is not in the table",
}
"""All kinds, and what a row of each says."""

COMMITTED = "committed"
ROLLED_BACK = "rolled_back"


def ddl(names: tuple[str, ...] = COLUMN_NAMES) -> str:
    """The schema as Spark's DDL text, of all columns or of these."""
    types = dict(COLUMNS)
    return ", ".join(f"`{name}` {types[name]}" for name in names)

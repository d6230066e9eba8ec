"""Which kinds of events each audit is about. Imports nothing of Spark or databases."""

HEAD_KINDS = ("transaction", "op", "check", "parked", "resumed")
"""About a transaction as a whole."""

MESSAGE_KINDS = ("half", "message", "schedule")
"""About a message that may be of a transaction."""

SETS_DUE = ("schedule", "replace", "reschedule", "redriven")
"""They say when a delayed message is due."""

TIMER_KINDS = (
    *SETS_DUE, "cancel", "fired", "delivered", "failed", "dead",
)  # fmt: skip
"""About a delayed message."""

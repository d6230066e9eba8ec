"""Which kind of row a record gives, as small numbers, and which kinds tell what."""

import numpy as np
from numpy.typing import NDArray

from halfpast_core_store.record import RecordFlag, RecordKind

from .event_schema import KINDS
from .frame_records import Records

CODES = {kind: code for code, kind in enumerate(KINDS)}
"""The number of each kind of row: its place in KINDS."""
UNKNOWN = len(KINDS)
"""Records of kinds that this release does not know."""

_OF_RECORD = {
    RecordKind.NORMAL: "message",  # or another, see below
    RecordKind.SCHEDULE: "schedule",
    RecordKind.RESCHEDULE: "reschedule",
    RecordKind.BULK_RESCHEDULE: "reschedule",
    RecordKind.REPLACE: "replace",
    RecordKind.CANCEL: "cancel",
    RecordKind.BULK_CANCEL: "cancel",
    RecordKind.FIRED: "fired",
    RecordKind.FAILED: "failed",
    RecordKind.DEAD: "dead",
    RecordKind.REDRIVEN: "redriven",
    RecordKind.RECURRING: "recurring",
    RecordKind.RECURRING_ENDED: "recurring_ended",
    RecordKind.OCCURRED: "occurred",
    RecordKind.OPERATION: "operation",
    RecordKind.TRANSACTION: "transaction",
    RecordKind.ADDED: "added",
    RecordKind.HALF: "half",
    RecordKind.CHECK: "check",
    RecordKind.OP: "op",
    RecordKind.PARKED: "parked",
    RecordKind.RESUMED: "resumed",
    RecordKind.POP_ACK: "consumed",
    RecordKind.OFFSETS: "consumed",
}
_TABLE = np.full(256, UNKNOWN, np.uint8)
for _kind, _name in _OF_RECORD.items():
    _TABLE[_kind] = CODES[_name]

Codes = NDArray[np.uint8]


def codes_of(records: Records) -> Codes:
    """The kind of the rows that each record gives."""
    heads = records.heads
    codes: Codes = _TABLE[heads["kind"]]
    is_message = codes == CODES["message"]
    codes[is_message & (heads["due_ms"] != 0)] = CODES["delivered"]
    is_dead = (heads["flags"] & RecordFlag.DEAD_LETTER) != 0
    codes[is_message & is_dead] = CODES["dead_letter"]
    return codes


def table_of(*kinds: str) -> NDArray[np.bool_]:
    """A table that tells, for each code, whether it is one of these kinds."""
    table = np.zeros(len(KINDS) + 1, np.bool_)
    table[[CODES[kind] for kind in kinds]] = True
    return table


IN_QUEUE = table_of("message", "delivered", "dead_letter")
"""Rows of messages that lie in a queue."""
OF_MESSAGE = IN_QUEUE | table_of("schedule", "replace", "half")
"""Rows that have a message with key, tag and body."""
OF_TRANSACTION = table_of("transaction", "added", "check", "op", "parked", "resumed")
"""Rows about a transaction as a whole: their id is its id, their key its group."""
WITH_HEAD = table_of("transaction", "added")
WITH_ATTEMPT = table_of(
    "check", "op", "parked", "resumed", "failed", "dead", "dead_letter"
)
RELEASED = table_of("message", "delivered", "schedule")
"""Rows that a commit may have brought."""
IN_FRAME = table_of("fired", "occurred")
"""Rows of which the message is in the same frame."""

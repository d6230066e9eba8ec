"""Why: what records of some kinds say in words."""

from collections.abc import Callable

import msgspec

from halfpast_core_store.record import HEADER_SIZE
from halfpast_txn.half import read_check_info, read_end_info

from .frame_records import Records

REASON_AT = 15  # its place in `Progress` of chronos, which needs half of chronos
_unpack = msgspec.msgpack.Decoder().decode
_properties = msgspec.msgpack.Decoder(dict[str, str]).decode


def _text(records: Records, record: int) -> str:
    return records.body(record).decode(errors="replace")


def _end(records: Records, record: int) -> str:
    return read_end_info(records.body(record)).reason


def _last_answer(records: Records, record: int) -> str:
    return read_check_info(records.body(record)).last_answer


def _ended(records: Records, record: int) -> str:
    return str(_unpack(records.body(record))[REASON_AT])


def _dead_letter(records: Records, record: int) -> str:
    head = records.heads[record]
    start = int(records.starts[record]) + HEADER_SIZE
    start += int(head["key_size"]) + int(head["tag_size"])
    properties = records.data[start : start + int(head["properties_size"])]
    return _properties(properties).get("dead_letter_reason", "") if properties else ""


REASONS: dict[str, Callable[[Records, int], str]] = {
    "failed": _text,
    "dead": _text,
    "op": _end,
    "resumed": _end,
    "check": _last_answer,
    "parked": _last_answer,
    "recurring_ended": _ended,
    "dead_letter": _dead_letter,
}
"""How to read the reason out of a record that has a body or properties, by the kind of
its row."""

"""Ids of transactions: read from text, and made for all transactions of a request.

A transaction's id is a UUIDv7 whose last two bytes are zero. Its n-th message
(0, 1, …) has the id that lies n + 1 behind it.
"""

from collections.abc import Iterator

from halfpast_api.event_id import parse_id
from halfpast_api.problems import Refusal
from halfpast_txn.errors import UnknownTransaction

_END = b"\0\0"
_NUMBERS = 1 << 16


def parse_transaction_id(text: str) -> bytes:
    """Raises Refusal for what is no id at all, UnknownTransaction for the id of
    something else."""
    try:
        transaction_id = parse_id(text)
    except Refusal:
        shown = text if len(text) <= 36 else text[:36] + "…"
        raise Refusal(
            "invalid_transaction_id",
            f"{shown!r} is not the id of a transaction; take the id that beginning it "
            "answered, such as 01936f1e-8c00-7abc-8def-012345670000",
        ) from None
    if transaction_id[14:] != _END:
        raise UnknownTransaction(text)
    return transaction_id


def transaction_ids(base_id: bytes) -> Iterator[bytes]:
    """The ids of the transactions of one request; the first one is `base_id`.

    They follow from `base_id` alone, so that a request repeated under its
    idempotency key gets them again. The n-th has n added to bytes 12 and 13, modulo
    2^16. Within one process the UUIDv7s of two requests differ in the first 12 bytes
    already, which are time and counter, so their ids never meet; two processes
    would have to draw the same 42 bits in the same millisecond. Version, variant
    and the last two bytes stay as they are.
    """
    head, first = base_id[:12], int.from_bytes(base_id[12:14], "big")
    for number in range(first, first + _NUMBERS):
        yield head + (number % _NUMBERS).to_bytes(2, "big") + _END

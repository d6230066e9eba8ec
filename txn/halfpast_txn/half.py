"""The records of transactions: written by whoever begins one, and by the service.

    SYS_TRANS_HALF   TRANSACTION, then its HALF records, in one run of one frame
                     ADDED, then more HALF records
    SYS_TRANS_OP     OP: the outcome · CHECK: a check-back was sent · RESUMED
    TRANS_CHECK_MAX_TIME   PARKED

    field    TRANSACTION     HALF              OP            CHECK        PARKED
    id       transaction     its message's     transaction   transaction  transaction
    key      producer group  the message's     group         group        group
    born_ms  accepted at     accepted at       decided at    asked at     parked at
    due_ms   first check at  0, a delay (flag  0             next one at  0
                             AFTER_COMMIT),
                             or a time
    version  message count   0                 1 committed,  0            0
                                               2 rolled back
    attempt  0               0                 check number  its number   checks
    body     BeginInfo       the message's     EndInfo       CheckInfo    CheckInfo

ADDED is as TRANSACTION: `version` counts the messages that follow, `attempt` those
before. OP has the flag FROM_CHECK if its outcome came by a check-back (then `attempt`
is that one's number, else how many were sent), FORCED if an operator gave it. Bodies
are MessagePack. All records of a transaction go to queue `queue_of(id)`.

A transaction's id ends in two zero bytes; its n-th message (0, 1, …) has the id
that lies n + 1 behind it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from halfpast_core_store.broker import Run
from halfpast_core_store.record import (
    DUE_AT,
    DUE_MS,
    HEADER,
    RecordFlag,
    RecordKind,
    encode_record,
)
from halfpast_core_store.topics import (
    SYS_SCHEDULE,
    SYS_TRANS_HALF,
    SYS_TRANS_OP,
)

from .policy import CheckPolicy
from .transactions import Source, TransactionState

QUEUE_COUNT = 8
COMMITTED = 1
ROLLED_BACK = 2

_encode = msgspec.msgpack.Encoder().encode
_NORMAL = bytes((RecordKind.NORMAL,))
_SCHEDULE = bytes((RecordKind.SCHEDULE,))


class BeginInfo(msgspec.Struct, array_like=True, frozen=True):
    """The body of a TRANSACTION."""

    check_interval_ms: int
    check_max: int
    size: int
    reference: str = ""


class AddedInfo(msgspec.Struct, array_like=True, frozen=True):
    """The body of an ADDED: bytes of the records that follow."""

    size: int


class EndInfo(msgspec.Struct, array_like=True, frozen=True):
    """The body of an OP, and of RESUMED: who says so, and why. Mostly empty."""

    reason: str = ""
    by: str = ""


class CheckInfo(msgspec.Struct, array_like=True, frozen=True):
    """The body of a CHECK or PARKED: what the check-back before this one brought."""

    last_answer: str = ""


read_begin_info = msgspec.msgpack.Decoder(BeginInfo).decode
read_added_info = msgspec.msgpack.Decoder(AddedInfo).decode
read_end_info = msgspec.msgpack.Decoder(EndInfo).decode
read_check_info = msgspec.msgpack.Decoder(CheckInfo).decode


def queue_of(transaction_id: bytes) -> int:
    """Which queue of the system topics the records of a transaction go to."""
    return transaction_id[13] % QUEUE_COUNT


def message_id(transaction_id: bytes, index: int) -> bytes:
    """The id of the n-th message (0, 1, …) of a transaction."""
    return transaction_id[:14] + (index + 1).to_bytes(2, "big")


def transaction_of(event_id: bytes) -> bytes:
    """The id of the transaction that an event would be of, if it is of one."""
    return event_id[:14] + b"\0\0"


def begin_run(
    transaction_id: bytes,
    group: str,
    policy: CheckPolicy,
    born_ms: int,
    halves: Sequence[bytes],
    reference: str = "",
) -> Run:
    """What makes a transaction. `halves` are encoded HALF records with its ids."""
    assert transaction_id[14:] == b"\0\0"
    head = encode_record(
        RecordKind.TRANSACTION,
        event_id=transaction_id,
        born_ms=born_ms,
        due_ms=born_ms + policy.check_after_ms,
        version=len(halves),
        key=group.encode(),
        body=_encode(
            BeginInfo(
                policy.check_interval_ms,
                policy.check_max,
                sum(map(len, halves)),
                reference,
            )
        ),
    )
    return Run(SYS_TRANS_HALF, queue_of(transaction_id), [head, *halves])


def added_run(
    transaction_id: bytes,
    group: str,
    born_ms: int,
    first_index: int,
    halves: Sequence[bytes],
) -> Run:
    """More messages for a transaction."""
    head = encode_record(
        RecordKind.ADDED,
        event_id=transaction_id,
        born_ms=born_ms,
        version=len(halves),
        attempt=first_index,
        key=group.encode(),
        body=_encode(AddedInfo(sum(map(len, halves)))),
    )
    return Run(SYS_TRANS_HALF, queue_of(transaction_id), [head, *halves])


def op_record(
    transaction_id: bytes,
    group: str,
    state: int,
    source: int,
    now_ms: int,
    check: int,
    info: EndInfo | None = None,
) -> bytes:
    """The outcome of a transaction."""
    assert state in (TransactionState.COMMITTED, TransactionState.ROLLED_BACK)
    flags = 0
    if source == Source.CHECK:
        flags = RecordFlag.FROM_CHECK
    elif source == Source.OPERATOR:
        flags = RecordFlag.FORCED
    return encode_record(
        RecordKind.OP,
        event_id=transaction_id,
        flags=flags,
        born_ms=now_ms,
        version=COMMITTED if state == TransactionState.COMMITTED else ROLLED_BACK,
        attempt=check,
        key=group.encode(),
        body=b"" if info is None else _encode(info),
    )


def check_record(
    transaction_id: bytes,
    group: str,
    check: int,
    now_ms: int,
    next_ms: int,
    last_answer: str,
) -> bytes:
    """Check-back number `check` is about to be sent."""
    return encode_record(
        RecordKind.CHECK,
        event_id=transaction_id,
        born_ms=now_ms,
        due_ms=next_ms,
        attempt=check,
        key=group.encode(),
        body=_encode(CheckInfo(last_answer)),
    )


def parked_record(
    transaction_id: bytes, group: str, checks: int, now_ms: int, last_answer: str
) -> bytes:
    """No outcome after the last check-back."""
    return encode_record(
        RecordKind.PARKED,
        event_id=transaction_id,
        born_ms=now_ms,
        attempt=checks,
        key=group.encode(),
        body=_encode(CheckInfo(last_answer)),
    )


def resumed_record(
    transaction_id: bytes, group: str, checks: int, now_ms: int, info: EndInfo
) -> bytes:
    """An operator has it checked back again; the first time at once."""
    return encode_record(
        RecordKind.RESUMED,
        event_id=transaction_id,
        born_ms=now_ms,
        due_ms=now_ms,
        attempt=checks,
        key=group.encode(),
        body=_encode(info),
    )


def released(half: bytes, now_ms: int) -> tuple[int, int, bytes]:
    """What a HALF record becomes by a commit at `now_ms`, with its topic and queue.

    A message without a time is delivered by the commit itself, the others are
    scheduled: a delay begins now, and a time that has passed means now.
    """
    head = HEADER.unpack_from(half)
    flags, due_ms = head[2], head[8]
    if not flags and not due_ms:
        return head[4], head[14], half[:4] + _NORMAL + half[5:]
    after_commit = flags & RecordFlag.AFTER_COMMIT
    flags &= ~RecordFlag.AFTER_COMMIT
    if not due_ms:
        return head[4], head[14], half[:4] + _NORMAL + bytes((flags,)) + half[6:]
    due_ms = due_ms + now_ms if after_commit else max(due_ms, now_ms)
    record = b"".join(
        (
            half[:4],
            _SCHEDULE,
            bytes((flags,)),
            half[6:DUE_AT],
            DUE_MS.pack(due_ms),
            half[DUE_AT + 8 :],
        )
    )
    return SYS_SCHEDULE, 0, record


def runs_of(
    released_records: Iterable[tuple[int, int, bytes]], ops: Iterable[bytes]
) -> list[Run]:
    """Messages for their queues, and the outcomes that release them."""
    queues: dict[tuple[int, int], list[bytes]] = {}
    for topic, queue, record in released_records:
        queues.setdefault((topic, queue), []).append(record)
    for op in ops:
        queues.setdefault((SYS_TRANS_OP, queue_of(op[16:32])), []).append(op)
    return [Run(topic, queue, records) for (topic, queue), records in queues.items()]

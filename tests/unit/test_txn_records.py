"""The records of transactions are a format: bytes that must never change."""

import msgspec
import pytest
from tests.unit.txn_line import (
    COMMITTED,
    ROLLED_BACK,
    TOPIC,
    delayed_record,
    half_record,
    transaction_id,
)

from halfpast_core_store.record import (
    Record,
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_core_store.topics import SYS_SCHEDULE, SYS_TRANS_HALF, SYS_TRANS_OP
from halfpast_txn.half import (
    QUEUE_COUNT,
    EndInfo,
    added_run,
    begin_run,
    check_record,
    message_id,
    op_record,
    parked_record,
    queue_of,
    released,
    resumed_record,
    runs_of,
    transaction_of,
)
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.transactions import Source, TransactionState

ID = bytes.fromhex("0199d2f0c00070008000000000400000")
ID_HEX = "0199d2f0c00070008000000000400000"
NOW_MS = 1_760_000_000_000
NOW_HEX = "00c02cc899010000"  # little-endian


def line(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts).replace(" ", ""))


def head(
    length: int, kind: int, flags: int, attempt: int, due: str, version: int, key: int
) -> str:
    """The 64 bytes before key and body, written out by hand."""
    return (
        f"{length:02x}000000 {kind:02x} {flags:02x} {attempt:02x}00 00000000 00000000"
        f"{ID_HEX} {NOW_HEX} {due} 00000000 {version:02x}000000 {key:02x}00 0000 0000"
        "0000"
    )


NEVER = "0000000000000000"
LATER = "70d72cc899010000"  # 6,000 ms after NOW


def test_a_transaction_in_bytes() -> None:
    half = encode_record(
        RecordKind.HALF, topic_id=TOPIC, event_id=message_id(ID, 0), body=b"hi"
    )
    run = begin_run(ID, "g", CheckPolicy(6_000, 30_000, 15), NOW_MS, [half], "r")
    body = "94 cd7530 0f 42 a172"  # [30000, 15, 66, "r"]
    assert run.topic_id == SYS_TRANS_HALF
    assert run.records == [
        line(head(73, 19, 0, 0, LATER, 1, 1), "67", body),
        half,
    ]


def test_what_is_added_in_bytes() -> None:
    half = half_record(1, 3)
    run = added_run(ID, "g", NOW_MS, 3, [half])
    assert run.topic_id == SYS_TRANS_HALF
    body = f"91 {len(half):02x}"
    assert run.records == [line(head(67, 20, 0, 3, NEVER, 1, 1), "67", body), half]


@pytest.mark.parametrize(
    ("state", "source", "flags", "version"),
    [
        (COMMITTED, Source.PRODUCER, 0, 1),
        (ROLLED_BACK, Source.PRODUCER, 0, 2),
        (COMMITTED, Source.CHECK, RecordFlag.FROM_CHECK, 1),
        (ROLLED_BACK, Source.OPERATOR, RecordFlag.FORCED, 2),
    ],
)
def test_an_outcome_in_bytes(state: int, source: int, flags: int, version: int) -> None:
    record = op_record(ID, "g", state, source, NOW_MS, 7)
    assert record == line(head(65, 17, flags, 7, NEVER, version, 1), "67")


def test_a_reason_in_bytes() -> None:
    info = EndInfo("why", "me")
    record = op_record(ID, "g", COMMITTED, Source.OPERATOR, NOW_MS, 0, info)
    body = "92 a3776879 a26d65"
    assert record == line(head(73, 17, 64, 0, NEVER, 1, 1), "67", body)


@pytest.mark.parametrize("state", [0, TransactionState.PREPARED, 4])
def test_only_an_outcome_is_an_outcome(state: int) -> None:
    # `unknown` would be written as a rollback.
    with pytest.raises(AssertionError):
        op_record(ID, "g", state, Source.CHECK, NOW_MS, 1)


def test_check_backs_in_bytes() -> None:
    body = "91 a26e6f"  # ["no"]
    asked = check_record(ID, "g", 2, NOW_MS, NOW_MS + 6_000, "no")
    assert asked == line(head(69, 18, 0, 2, LATER, 0, 1), "67", body)
    parked = parked_record(ID, "g", 15, NOW_MS, "no")
    assert parked == line(head(69, 21, 0, 15, NEVER, 0, 1), "67", body)
    resumed = resumed_record(ID, "g", 15, NOW_MS, EndInfo("a", "b"))
    body = "92 a161 a162"
    assert resumed == line(head(70, 22, 0, 15, NOW_HEX, 0, 1), "67", body)


def test_ids_of_messages_lie_behind_their_transaction() -> None:
    ids = [message_id(ID, index) for index in range(1_000)]
    assert ids == sorted(set(ids))
    assert ids[0][-2:] == b"\0\1"
    assert {transaction_of(one) for one in ids} == {ID}


def test_transactions_are_spread_over_the_queues() -> None:
    counts = [0] * QUEUE_COUNT
    for number in range(800):
        counts[queue_of(transaction_id(number))] += 1
    assert counts == [100] * QUEUE_COUNT


# --- what a commit makes of a HALF record -----------------------------------------


def made_of(half: bytes, now_ms: int = NOW_MS) -> tuple[int, int, Record, bytes]:
    topic, queue, data = released(half, now_ms)
    return topic, queue, decode_record(data), data


def test_a_message_for_now_goes_to_its_queue() -> None:
    half = half_record(1, 0, queue_id=3, key=b"k", tag=b"t", properties=b"\x80")
    topic, queue, record, data = made_of(half)
    assert (topic, queue) == (TOPIC, 3)
    assert record == decode_record(half)._replace(kind=RecordKind.NORMAL)
    assert data[5:] == half[5:]  # one byte is changed


def test_a_delay_begins_with_the_commit() -> None:
    topic, queue, record, _ = made_of(delayed_record(1, 0, 5_000))
    assert (topic, queue) == (SYS_SCHEDULE, 0)
    assert record.kind == RecordKind.SCHEDULE
    assert record.due_ms == NOW_MS + 5_000
    assert record.flags == 0


def test_a_time_stays_and_a_past_one_means_now() -> None:
    for due_ms, wanted in ((NOW_MS + 9, NOW_MS + 9), (NOW_MS - 9, NOW_MS), (1, NOW_MS)):
        topic, _, record, _ = made_of(half_record(1, 0, due_ms=due_ms))
        assert topic == SYS_SCHEDULE
        assert record.due_ms == wanted


@pytest.mark.parametrize("delay_ms", [0, 1_000])
def test_other_flags_are_kept_and_ours_is_not(delay_ms: int) -> None:
    flags = RecordFlag.JSON | RecordFlag.AFTER_COMMIT
    _, _, record, _ = made_of(half_record(1, 0, due_ms=delay_ms, flags=flags))
    assert record.flags == RecordFlag.JSON


def test_everything_else_is_as_it_was() -> None:
    fields = {"key": b"k", "tag": b"t", "properties": b"\x80", "queue_id": 2}
    half = half_record(1, 7, due_ms=NOW_MS + 1, body=b"body", group_id=0, **fields)
    _, _, record, _ = made_of(half)
    assert record == decode_record(half)._replace(kind=RecordKind.SCHEDULE)


def test_records_of_one_queue_make_one_run() -> None:
    messages = [(TOPIC, 0, b"a"), (TOPIC, 1, b"b"), (TOPIC, 0, b"c")]
    ops = [
        op_record(transaction_id(number), "g", COMMITTED, Source.PRODUCER, NOW_MS, 0)
        for number in (1, 2, 9)
    ]
    runs = runs_of(messages, ops)
    assert [(run.topic_id, run.queue_id, len(run.records)) for run in runs] == [
        (TOPIC, 0, 2),
        (TOPIC, 1, 1),
        (SYS_TRANS_OP, 1, 2),
        (SYS_TRANS_OP, 2, 1),
    ]
    assert runs[0].records == [b"a", b"c"]


def test_bodies_may_grow() -> None:
    # A later release may write more; this one reads what it knows.
    longer = msgspec.msgpack.encode(["why", "me", "more"])
    assert msgspec.msgpack.decode(longer, type=EndInfo) == EndInfo("why", "me")

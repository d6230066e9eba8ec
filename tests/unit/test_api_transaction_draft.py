"""What is checked of a transaction before it begins, and its policy."""

from typing import Any

import msgspec
import pytest

from halfpast_api.config import TransactionLimits
from halfpast_api.encoding import Seed
from halfpast_api.event_body import BatchEventBody
from halfpast_api.metadata.settings import ProducerGroupSettings
from halfpast_api.problems import Refusal
from halfpast_api.reading import Format
from halfpast_api.topic_directory import Topic
from halfpast_api.transactions.bodies import BeginBody
from halfpast_api.transactions.draft import check_begin, encode_begin
from halfpast_core_store.record import RecordKind, decode_record
from halfpast_core_store.topics import SYS_TRANS_HALF
from halfpast_txn.half import queue_of, read_begin_info
from halfpast_txn.policy import CheckPolicy

DAY_MS = 86_400_000
LIMITS = TransactionLimits(message_count_max=3, message_size_max=1000)
ID = bytes.fromhex("01936f1e8c007abc8def012345670000")
ORDERS = Topic(
    name="orders",
    id=1024,
    queue_count=4,
    max_delay_ms=DAY_MS,
    max_body_bytes=4000,
    is_durable=True,
    stale_at_s=0.0,
)


class Groups:
    """One producer group has settings."""

    def producer_group_settings(self, name: str) -> ProducerGroupSettings:
        if name == "shop":
            return ProducerGroupSettings(
                check_after_ms=1, check_interval_ms=200, check_max=3
            )
        return ProducerGroupSettings()

    def has_producer_group(self, name: str) -> bool:
        return name == "shop"


def body(*, count: int = 1, size: int = 1, **fields: Any) -> BeginBody:
    data = msgspec.Raw(b'"' + b"x" * (size - 2) + b'"')
    messages = [BatchEventBody(topic="orders", data=data) for _ in range(count)]
    known: dict[str, Any] = {"producer_group": "shop", "messages": messages}
    return BeginBody(**(known | fields))


def policy(**fields: Any) -> CheckPolicy:
    return check_begin(body(**fields), Groups(), LIMITS)


def refusal(**fields: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        policy(**fields)
    return caught.value


def test_the_request_comes_before_the_group_and_that_before_the_default() -> None:
    assert policy() == CheckPolicy(1, 200, 3)
    assert policy(producer_group="other") == CheckPolicy(6_000, 30_000, 15)
    assert policy(check_interval_ms=300) == CheckPolicy(1, 300, 3)
    given = {"check_after_ms": 0, "check_interval_ms": DAY_MS, "check_max": 1000}
    assert policy(producer_group="other", **given) == CheckPolicy(0, DAY_MS, 1000)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("check_after_ms", -1),
        ("check_after_ms", 7 * DAY_MS + 1),
        ("check_interval_ms", 99),
        ("check_interval_ms", DAY_MS + 1),
        ("check_max", 0),
        ("check_max", 1001),
        ("check_max", 10**30),
    ],
)
def test_a_policy_has_limits(field: str, value: int) -> None:
    refused = refusal(**{field: value})
    assert refused.code == "invalid_check_policy"
    assert [error.pointer for error in refused.errors] == [f"/{field}"]
    assert f"{field} is {value} and must be" in refused.detail


def test_checks_that_are_required_need_a_group_with_settings() -> None:
    assert policy(check_required=True) == policy()
    assert policy(producer_group="other", check_required=False)
    refused = refusal(producer_group="other", check_required=True)
    assert refused.code == "producer_group_required"
    assert "PUT /v1/producer-groups/other" in refused.detail


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "invalid_producer_group"),
        ("a/b", "invalid_producer_group"),
        ("x" * 128, "invalid_producer_group"),
        ("é", "invalid_producer_group"),
        ("SYS_x", "reserved_group"),
    ],
)
def test_a_producer_group_has_a_name(name: str, code: str) -> None:
    refused = refusal(producer_group=name)
    assert refused.code == code
    assert [error.pointer for error in refused.errors] == ["/producer_group"]


def test_a_transaction_has_some_messages_but_not_too_many() -> None:
    assert refusal(count=0).code == "no_messages"
    assert policy(count=3)
    refused = refusal(count=4)
    assert refused.code == "too_many_messages"
    assert "would have 4 messages, and it may have 3" in refused.detail


def test_a_reference_is_short() -> None:
    assert policy(reference="é" * 256)
    refused = refusal(reference="é" * 257)
    assert refused.code == "invalid_reference"
    assert "514 bytes" in refused.detail


def encode(asked: BeginBody) -> list[bytes]:
    run = encode_begin(
        asked,
        CheckPolicy(5, 6, 7),
        {"orders": ORDERS},
        {},
        Seed(ID, 1_000_000_000),
        Format.JSON,
        LIMITS,
    )
    assert (run.topic_id, run.queue_id) == (SYS_TRANS_HALF, queue_of(ID))
    return run.records


def test_its_records_are_one_run_with_its_head_first() -> None:
    head, *halves = map(decode_record, encode(body(count=2, reference="order 7")))
    assert (head.kind, head.event_id, head.key) == (RecordKind.TRANSACTION, ID, b"shop")
    assert (head.born_ms, head.due_ms, head.version) == (1000, 1005, 2)
    info = read_begin_info(head.body)
    assert (info.check_interval_ms, info.check_max) == (6, 7)
    assert info.reference == "order 7"
    assert [half.kind for half in halves] == [RecordKind.HALF] * 2


def test_messages_may_not_be_too_large_together() -> None:
    encode(body(count=2, size=436))  # with 64 bytes of header each: just right
    with pytest.raises(Refusal) as caught:
        encode(body(count=2, size=437))
    assert caught.value.code == "transaction_too_large"
    assert "1002 bytes together" in caught.value.detail


@pytest.mark.parametrize(
    "limits",
    [{"message_count_max": 0}, {"message_count_max": 10_000}, {"count_max": 65_537}],
)
def test_limits_that_ids_have_no_room_for_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be 1 to"):
        TransactionLimits(**limits)

"""What a request asks for becomes a transaction: first its checks, then its records."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from halfpast_api.access.namespaced_names import Names
from halfpast_api.config import TransactionLimits
from halfpast_api.encoding import Seed
from halfpast_api.event_body import BatchEventBody
from halfpast_api.metadata.settings import (
    CHECK_AFTER_MS_MAX,
    CHECK_INTERVAL_MS_MAX,
    CHECK_INTERVAL_MS_MIN,
    CHECKS_MAX,
    ProducerGroupSettings,
)
from halfpast_api.names import check_producer_group
from halfpast_api.problems import FieldProblem, Refusal, refuse_field
from halfpast_api.reading import Format
from halfpast_api.times import NS_PER_MS
from halfpast_api.topic_directory import Topic
from halfpast_api.transactions.bodies import BeginBody
from halfpast_api.transactions.halves import encode_halves
from halfpast_core_store.broker import Run
from halfpast_txn.half import begin_run
from halfpast_txn.policy import CheckPolicy

_REFERENCE_SIZE_MAX: Final = 512
_astuple = msgspec.structs.astuple


class ProducerGroupSource(Protocol):
    """Settings in memory: what is needed of a `MetadataCache`."""

    def producer_group_settings(self, name: str) -> ProducerGroupSettings: ...

    def has_producer_group(self, name: str) -> bool: ...


def check_begin(
    body: BeginBody, groups: ProducerGroupSource, limits: TransactionLimits
) -> CheckPolicy:
    """When the transaction is checked back. Raises Refusal.

    All that can be told without looking at the messages themselves.
    """
    try:
        check_producer_group(body.producer_group)
    except Refusal as refusal:
        at = FieldProblem("/producer_group", refusal.detail)
        raise Refusal(refusal.code, refusal.detail, [at]) from None
    if body.check_required is True:
        _require(body.producer_group, groups)
    if body.reference and len(body.reference.encode()) > _REFERENCE_SIZE_MAX:
        raise refuse_field(
            "invalid_reference",
            "/reference",
            f"it takes {len(body.reference.encode())} bytes, the limit is "
            f"{_REFERENCE_SIZE_MAX}; shorten it",
        )
    check_count(len(body.messages), limits)
    return _policy(body, groups)


def stored_group(name: str, names: Names) -> str:
    """The producer group's name in the store. Raises Refusal for another's."""
    stored = names.inside(name)
    if stored is None:
        raise refuse_field(
            "unknown_producer_group",
            "/producer_group",
            f"there is no producer group {name!r}",
        )
    return stored


def check_count(count: int, limits: TransactionLimits, first_index: int = 0) -> None:
    """Raise Refusal for no messages, or more than a transaction may hold."""
    if count == 0:
        raise refuse_field(
            "no_messages",
            "/messages",
            "there is nothing to send; give at least one message",
        )
    count += first_index
    if count > limits.message_count_max:
        raise refuse_field(
            "too_many_messages",
            "/messages",
            f"the transaction would have {count} messages, and it may have "
            f"{limits.message_count_max}; begin another transaction for the rest",
        )


def encode_begin(
    body: BeginBody,
    policy: CheckPolicy,
    topics: Mapping[str, Topic],
    wrong_topics: Mapping[str, Exception],
    seed: Seed,
    form: Format,
    limits: TransactionLimits,
    stored_group: str = "",
) -> Run:
    """The records of a transaction whose id is `seed.base_id`. Raises Refusal.

    `stored_group`: the producer group's name in the store, if that is another one.
    """
    rows = map(_astuple, body.messages)
    halves = encode_halves(rows, topics, wrong_topics, seed, form)
    check_size(halves, limits)
    return begin_run(
        seed.base_id,
        stored_group or body.producer_group,
        policy,
        seed.accepted_ns // NS_PER_MS,
        halves,
        body.reference or "",
    )


def encode_more(
    messages: Sequence[BatchEventBody],
    first_index: int,
    topics: Mapping[str, Topic],
    wrong_topics: Mapping[str, Exception],
    seed: Seed,
    form: Format,
    limits: TransactionLimits,
) -> list[bytes]:
    """More messages for the transaction `seed.base_id`. Raises Refusal."""
    rows = map(_astuple, messages)
    halves = encode_halves(rows, topics, wrong_topics, seed, form, first_index)
    check_size(halves, limits)
    return halves


def check_size(halves: Sequence[bytes], limits: TransactionLimits) -> None:
    """Raise Refusal for records that are too large together."""
    size = sum(map(len, halves))
    if size > limits.message_size_max:
        raise refuse_field(
            "transaction_too_large",
            "/messages",
            f"the messages take {size} bytes together, with their headers, and a "
            f"transaction takes up to {limits.message_size_max}; store large data "
            "elsewhere and send its address, or split the transaction",
        )


def _require(group: str, groups: ProducerGroupSource) -> None:
    if groups.has_producer_group(group):
        return
    raise refuse_field(
        "producer_group_required",
        "/producer_group",
        f"check_required is set, and the producer group {group!r} has no settings, so "
        f"nobody has said how to ask it; PUT /v1/producer-groups/{group} first, or "
        "leave check_required out",
    )


def _policy(body: BeginBody, groups: ProducerGroupSource) -> CheckPolicy:
    """What the request says comes first, then what the group's settings say."""
    of_group = groups.producer_group_settings(body.producer_group)
    after_ms, interval_ms = body.check_after_ms, body.check_interval_ms
    count = body.check_max
    if after_ms is None:
        after_ms = of_group.check_after_ms
    elif not 0 <= after_ms <= CHECK_AFTER_MS_MAX:
        raise _bad_policy("check_after_ms", after_ms, 0, CHECK_AFTER_MS_MAX)
    if interval_ms is None:
        interval_ms = of_group.check_interval_ms
    elif not CHECK_INTERVAL_MS_MIN <= interval_ms <= CHECK_INTERVAL_MS_MAX:
        low_ms, high_ms = CHECK_INTERVAL_MS_MIN, CHECK_INTERVAL_MS_MAX
        raise _bad_policy("check_interval_ms", interval_ms, low_ms, high_ms)
    if count is None:
        count = of_group.check_max
    elif not 1 <= count <= CHECKS_MAX:
        raise _bad_policy("check_max", count, 1, CHECKS_MAX)
    return CheckPolicy(after_ms, interval_ms, count)


def _bad_policy(name: str, value: int, low: int, high: int) -> Refusal:
    return refuse_field(
        "invalid_check_policy",
        f"/{name}",
        f"{name} is {value} and must be {low} to {high}; leave it out for what the "
        "producer group's settings say",
    )

"""Ids of transactions: what is one, and those that follow from another."""

from itertools import islice

import pytest
import uuid_utils
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.event_id import id_text
from halfpast_api.problems import Refusal
from halfpast_api.transactions.transaction_id import (
    parse_transaction_id,
    transaction_ids,
)
from halfpast_txn.errors import UnknownTransaction
from halfpast_txn.half import QUEUE_COUNT, message_id, queue_of

ID = bytes.fromhex("01936f1e8c007abc8def012345670000")


def test_an_id_is_read_in_either_case() -> None:
    assert parse_transaction_id(id_text(ID)) == ID
    assert parse_transaction_id(id_text(ID).upper()) == ID


@pytest.mark.parametrize("text", ["", "1", "x" * 36, id_text(ID)[:-1], id_text(ID) * 9])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_transaction_id(text)
    assert caught.value.code == "invalid_transaction_id"
    assert len(caught.value.detail) < 250


def test_the_id_of_a_message_is_no_transaction() -> None:
    with pytest.raises(UnknownTransaction):
        parse_transaction_id(id_text(message_id(ID, 0)))


@given(st.binary(min_size=14, max_size=14), st.integers(1, 1000))
def test_ids_follow_from_the_first_and_keep_its_form(head: bytes, count: int) -> None:
    base = head + b"\0\0"
    ids = [*islice(transaction_ids(base), count)]
    assert ids[0] == base
    assert ids == [*islice(transaction_ids(base), count)]
    assert len({*ids}) == count
    assert {one[:12] for one in ids} == {base[:12]}
    assert {one[14:] for one in ids} == {b"\0\0"}


def test_there_are_many_and_they_are_spread_over_the_queues() -> None:
    ids = [*transaction_ids(ID)]
    assert len({*ids}) == len(ids) == 65_536
    assert {queue_of(one) for one in ids[:QUEUE_COUNT]} == {*range(QUEUE_COUNT)}


def test_ids_of_several_requests_never_meet() -> None:
    """Which needs UUIDv7s with a counter in their first 12 bytes."""
    bases = [uuid_utils.uuid7().bytes[:14] + b"\0\0" for _ in range(1000)]
    assert len({base[:12] for base in bases}) == len(bases)
    ids = [one for base in bases for one in islice(transaction_ids(base), 100)]
    assert len({*ids}) == len(ids)

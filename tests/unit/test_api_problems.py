"""Errors become problems: every one of them says what to do."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import halfpast_api
from halfpast_api.answer import problem_answer
from halfpast_api.metadata.errors import InvalidSettings, MetadataUnavailable
from halfpast_api.metadata.errors import StaleVersion as StaleSettings
from halfpast_api.problems import (
    KINDS,
    FieldProblem,
    Refusal,
    as_refusal,
    problem_of,
    refusal_of,
    refuse_field,
)
from halfpast_chronos import errors as delay_errors
from halfpast_core_store import errors as core_errors
from halfpast_core_store.errors import (
    CoreError,
    IdempotencyConflict,
    IndexFailed,
    OffsetOutOfRange,
    Overloaded,
    RequestTooLarge,
    StoreFailed,
    StoreFull,
    UnknownTopic,
)
from halfpast_core_store.rpc_errors import ConnectionLost, RemoteFailure, Unavailable
from halfpast_txn import errors as txn_errors


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (Overloaded("send", 2500), 503, "overloaded", "3"),
        (StoreFull(100), 507, "store_full", None),
        (StoreFailed("fsync"), 503, "store_failed", "1"),
        (IndexFailed("txn", "IO error"), 503, "store_failed", "1"),
        (RequestTooLarge(10, 5), 413, "request_too_large", None),
        (UnknownTopic("a"), 404, "unknown_topic", None),
        (OffsetOutOfRange(9, 0, 5), 422, "offset_out_of_range", None),
        (IdempotencyConflict(), 422, "idempotency_key_reused", None),
        (Unavailable("unix:/x", "gone"), 503, "unavailable", "1"),
        (ConnectionLost("unix:/x", "gone"), 503, "connection_lost", "1"),
        (delay_errors.UnknownEvent("x"), 404, "unknown_event", None),
        (delay_errors.AlreadyDelivered("x", 5), 409, "already_delivered", None),
        (delay_errors.AlreadyCancelled("x", 5), 409, "already_cancelled", None),
        (delay_errors.StaleVersion("x", 5), 412, "stale_version", None),
        (txn_errors.UnknownTransaction("x"), 404, "unknown_transaction", None),
        (txn_errors.TransactionConflict("x", "y"), 409, "transaction_conflict", None),
        (txn_errors.TransactionParked("x", 15), 409, "transaction_parked", None),
        (txn_errors.WrongProducerGroup("x", "g"), 409, "wrong_producer_group", None),
        (txn_errors.MessagesOutOfOrder("x", 3), 409, "messages_out_of_order", None),
        (txn_errors.TooManyMessages(1000, 10**6), 422, "too_many_messages", None),
        (StaleSettings("topic x", 1, 2), 412, "stale_version", None),
        (MetadataUnavailable("gone"), 503, "metadata_unavailable", "1"),
        (InvalidSettings("queues", "must be 1"), 422, "invalid_settings", None),
        (ConnectionResetError("gone"), 503, "connection_lost", "1"),
        (TimeoutError(), 503, "connection_lost", "1"),
    ],
)
def test_an_error_of_the_services_becomes_a_problem(
    error: Exception, status: int, code: str, retry_after: str | None
) -> None:
    refusal = as_refusal(error)
    assert refusal is not None
    problem = problem_of(refusal, "r1")
    assert (problem.status, problem.code, problem.request_id) == (status, code, "r1")
    assert dict(refusal.headers).get("Retry-After") == retry_after
    assert problem.retryable == (status in (503, 507))


@pytest.mark.parametrize(
    "error", [KeyError("x"), ZeroDivisionError(), RemoteFailure("append", "boom")]
)
def test_what_nobody_raised_on_purpose_is_no_refusal(error: Exception) -> None:
    assert as_refusal(error) is None


def test_unknown_outcomes_say_so() -> None:
    for error in (StoreFailed("fsync"), ConnectionResetError()):
        refusal = as_refusal(error)
        assert refusal is not None
        assert "unknown" in refusal.detail
        assert "Idempotency-Key" in refusal.detail


def test_a_conflict_tells_the_durable_outcome() -> None:
    refusal = as_refusal(txn_errors.TransactionConflict("x", "rolled_back"))
    assert refusal is not None
    problem = problem_of(refusal.under("/ends/0"))
    assert problem.state == "rolled_back"
    assert problem.detail == (
        "transaction x is rolled back, which does not change any more; act by that"
    )


def test_a_code_that_a_service_gives_is_told_with_advice() -> None:
    parked = refusal_of("transaction_parked", "transaction x is parked")
    assert parked.detail.startswith("transaction x is parked; an operator ")
    assert refusal_of("overloaded", "full").headers == [("Retry-After", "1")]
    assert refusal_of("never_heard_of", "odd").code == "internal"


def test_a_field_of_settings_is_pointed_to() -> None:
    refusal = as_refusal(InvalidSettings("queues", "must be 1 to 5"))
    assert refusal is not None
    assert refusal.errors == [FieldProblem("/queues", "queues must be 1 to 5")]


def test_every_error_that_a_request_can_meet_has_a_kind() -> None:
    own_start = {
        *("store_error", "delay_error", "internal", "rpc_error"),  # bases
        *("folder_in_use", "newer_format", "foreign_folder", "log_behind_index"),
        *("too_early", "broken_index", "transaction_error"),
    }
    for module in (core_errors, delay_errors, txn_errors):
        for error in vars(module).values():
            if isinstance(error, type) and issubclass(error, CoreError):
                assert error.code in KINDS or error.code in own_start, error


def test_every_refusal_in_the_code_has_a_kind() -> None:
    for code in _codes_in_source():
        assert code in KINDS, code


def test_statuses_and_titles_are_as_promised() -> None:
    for code, kind in KINDS.items():
        assert 400 <= kind.status < 600, code
        assert kind.title
        assert not kind.title.endswith("."), code
        assert kind.retryable == (kind.status in (408, 429, 503, 507)), code


def test_a_refusal_can_be_moved_under_a_pointer() -> None:
    refusal = refuse_field("invalid_key", "/key", "too long").under("/events/3")
    assert refusal.errors == [FieldProblem("/events/3/key", "too long")]


def test_the_answer_to_a_refusal_is_rfc_9457() -> None:
    refusal = Refusal("already_delivered", "too late", outcome="too_late")
    answer = problem_answer(refusal, "r1")
    assert answer.status == 409
    assert b"Content-Type: application/problem+json\r\n" in answer.head()
    assert answer.content == (
        b'{"type":"urn:halfpast:problem:already_delivered",'
        b'"title":"The event has been delivered","status":409,"detail":"too late",'
        b'"code":"already_delivered","retryable":false,"request_id":"r1",'
        b'"outcome":"too_late"}'
    )


def _codes_in_source() -> Iterator[str]:
    import inspect
    import re

    for info in pkgutil.walk_packages(halfpast_api.__path__, "halfpast_api."):
        if info.name.startswith("halfpast_api.cli") or info.ispkg:
            continue
        source = inspect.getsource(importlib.import_module(info.name))
        yield from re.findall(r'(?:Refusal|refuse_field)\(\s*"([a-z_]+)"', source)

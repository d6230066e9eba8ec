"""Defaults, what is allowed, and errors that keep their fields."""

import pickle
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from halfpast_api.metadata.errors import (
    InvalidSettings,
    MetadataError,
    MetadataUnavailable,
    MigrationFailed,
    MigrationsMissing,
    NewerSchema,
    SnapshotUnusable,
    StaleVersion,
    UnsupportedUrl,
)
from halfpast_api.metadata.settings import (
    DELAY_MS_MAX,
    GroupSettings,
    Limit,
    ProducerGroupSettings,
    TopicSettings,
    check,
)
from halfpast_core_store.record import BODY_SIZE_MAX
from halfpast_txn.policy import CheckPolicy


def test_defaults_are_allowed() -> None:
    check(TopicSettings())
    check(GroupSettings())
    check(ProducerGroupSettings())
    check(Limit(value=0))


def test_a_delay_of_any_ten_years_is_allowed() -> None:
    longest = datetime(2034, 1, 1, tzinfo=UTC) - datetime(2024, 1, 1, tzinfo=UTC)
    assert TopicSettings().max_delay_ms >= longest.total_seconds() * 1000


@pytest.mark.parametrize(
    ("field", "allowed", "refused"),
    [
        ("queues", [1, 1024], [-1, 0, 1025]),
        ("max_delay_ms", [0, DELAY_MS_MAX], [-1, DELAY_MS_MAX + 1]),
        ("max_body_bytes", [1, BODY_SIZE_MAX], [0, BODY_SIZE_MAX + 1]),
        ("flush", ["sync", "async"], ["", "SYNC", "never"]),
        ("description", ["", "x" * 1000, "ü\n"], ["x" * 1001, "\0", "a\ud800"]),
    ],
)
def test_topic_settings_have_limits(
    field: str, allowed: list[Any], refused: list[Any]
) -> None:
    for value in allowed:
        check(_topic({field: value}))
    for value in refused:
        with pytest.raises(InvalidSettings) as error:
            check(_topic({field: value}))
        assert error.value.field == field


@pytest.mark.parametrize(
    ("field", "allowed", "refused"),
    [
        ("max_attempts", [1, 1000], [0, 1001]),
        ("backoff_initial_ms", [0, 300_000], [-1, 604_800_001]),
        ("backoff_max_ms", [1000, 604_800_000], [999, 604_800_001]),
        ("invisible_ms", [1000, 43_200_000], [999, 43_200_001]),
    ],
)
def test_group_settings_have_limits(
    field: str, allowed: list[int], refused: list[int]
) -> None:
    for value in allowed:
        check(_group({field: value}))
    for value in refused:
        with pytest.raises(InvalidSettings) as error:
            check(_group({field: value}))
        assert error.value.field == field


@pytest.mark.parametrize(
    ("field", "allowed", "refused"),
    [
        ("check_url", ["", "http://a", "x" * 2000], ["x" * 2001, "\0", "a\ud800"]),
        (
            "check_secrets",
            [(), ("whsec_a",), ("a", "b"), ("x" * 100,)],
            [("a", "b", "c"), ("",), ("a b",), ("a\n",), ("ü",), ("x" * 101,)],
        ),
        ("check_after_ms", [0, 604_800_000], [-1, 604_800_001]),
        ("check_interval_ms", [100, 86_400_000], [99, 86_400_001]),
        ("check_max", [1, 1000], [0, 1001]),
        ("check_timeout_ms", [100, 30_000], [99, 30_001]),
        ("check_concurrency_max", [1, 100], [0, 101]),
        ("description", ["", "x" * 1000, "ü\n"], ["x" * 1001, "\0", "a\ud800"]),
    ],
)
def test_producer_group_settings_have_limits(
    field: str, allowed: list[Any], refused: list[Any]
) -> None:
    for value in allowed:
        check(_producer_group({field: value}))
    for value in refused:
        with pytest.raises(InvalidSettings) as error:
            check(_producer_group({field: value}))
        assert error.value.field == field


def test_a_producer_group_begins_with_the_policy_of_all() -> None:
    settings = ProducerGroupSettings()
    policy = CheckPolicy()
    assert settings.check_after_ms == policy.check_after_ms == 6_000
    assert settings.check_interval_ms == policy.check_interval_ms == 30_000
    assert settings.check_max == policy.check_max == 15
    assert (settings.check_timeout_ms, settings.check_concurrency_max) == (5000, 8)


def test_secrets_are_not_shown() -> None:
    settings = ProducerGroupSettings(check_secrets=("whsec_hush",))
    assert "hush" not in repr(settings)
    with pytest.raises(InvalidSettings) as error:
        check(ProducerGroupSettings(check_secrets=("whsec_hush hush",)))
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("value", [-1, 2**53])
def test_a_limit_is_a_number_that_json_keeps(value: int) -> None:
    with pytest.raises(InvalidSettings):
        check(Limit(value=value))


@pytest.mark.parametrize(
    "error",
    [
        MetadataUnavailable("refused"),
        StaleVersion("topic a", 3, None),
        StaleVersion("topic a", 0, 4),
        StaleVersion("topic a", 3, 4),
        InvalidSettings("queues", "must be 1"),
        UnsupportedUrl("mysql://", "no"),
        NewerSchema("sqlite:///a", "0009", "0001"),
        MigrationFailed("sqlite:///a", "no"),
        MigrationsMissing(("a", "b")),
        SnapshotUnusable("a.json", "no"),
    ],
)
def test_errors_travel(error: MetadataError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error) != ""
    assert error.code != MetadataError.code


def _topic(change: dict[str, Any]) -> TopicSettings:
    return replace(TopicSettings(), **change)


def _producer_group(change: dict[str, Any]) -> ProducerGroupSettings:
    return replace(ProducerGroupSettings(), **change)


def _group(change: dict[str, Any]) -> GroupSettings:
    return replace(GroupSettings(), **change)

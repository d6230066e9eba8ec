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
    TopicSettings,
    check,
)
from halfpast_core_store.record import BODY_SIZE_MAX


def test_defaults_are_allowed() -> None:
    check(TopicSettings())
    check(GroupSettings())
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


def _group(change: dict[str, Any]) -> GroupSettings:
    return replace(GroupSettings(), **change)

"""What the bench of the audits holds against what was written."""

from collections import Counter
from typing import Any

import pytest

from halfpast_loadtest.audit_bench import AuditSettings, differences

BOOKS = Counter(
    half=9,
    committed=7,
    rolled_back=2,
    checked_back=1,
    second_phase_lost=1,
    scheduled=20,
    fired=12,
    cancelled=3,
)


def shown(**changes: int) -> dict[str, Any]:
    """As `halfpast audit show --json` prints it: 2 of the 20 are due too late, one of
    them was cancelled."""
    sound = {"difference": 0, "unbalanced": 0, "missing": 0, "leaked": 0}
    row = {**BOOKS, **sound, "duplicated": 0, "lost": 0, "early": 0, "fired_anyway": 0}
    row |= {"scheduled": 18, "cancelled": 2, **changes}
    other = {**row, "topic": "orders"}
    return {name: [row | {"topic": "*"}, other] for name in ("transactions", "on_time")}


def test_books_that_agree() -> None:
    assert differences(shown(), BOOKS, 1) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"half": 8}, "half: 8 found, 9 written"),
        ({"fired": 13}, "fired: 13 found, 12 written"),
        ({"scheduled": 17}, "scheduled: 19 found, 20 written"),
        ({"cancelled": 3}, "scheduled: 19 found, 20 written"),
        ({"lost": 2}, "on_time lost: 2 found"),
        ({"missing": 1}, "transactions missing: 1 found"),
    ],
)
def test_each_difference_is_named(changes: dict[str, int], text: str) -> None:
    assert differences(shown(**changes), BOOKS, 1) == [text]


def test_points_take_the_place_of_the_count() -> None:
    assert AuditSettings(count=7).counts == [7]
    assert AuditSettings(points="0.5,1,30").counts == [500_000, 1_000_000, 30_000_000]

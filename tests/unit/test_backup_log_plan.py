"""Which segments belong into a backup."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.backup.errors import NotAStore
from halfpast_api.backup.log_plan import SeenSegment, SegmentPart, plan_log


def segments(*bounds: int) -> list[SeenSegment]:
    return [SeenSegment(base=base, size=end - base) for base, end in pairwise(bounds)]


def shown(parts: list[SegmentPart]) -> list[tuple[int, int]]:
    return [(part.segment.base, part.stored) for part in parts]


def test_the_last_one_goes_up_to_the_end() -> None:
    parts = plan_log(segments(0, 100, 200), kept_from=0, needed_from=0, end=130)
    assert shown(parts) == [(0, 100), (100, 30)]


def test_what_is_only_prepared_stays() -> None:
    parts = plan_log(segments(0, 100, 200), kept_from=0, needed_from=0, end=100)
    assert shown(parts) == [(0, 100)]


def test_what_retention_took_meanwhile_goes_along_if_an_index_needs_it() -> None:
    seen = segments(0, 100, 200, 300)
    kept = plan_log(seen, kept_from=200, needed_from=150, end=250)
    assert shown(kept) == [(100, 100), (200, 50)]
    let_go = plan_log(seen, kept_from=200, needed_from=240, end=250)
    assert shown(let_go) == [(200, 50)]


def test_an_empty_log_is_a_log() -> None:
    assert plan_log([], kept_from=0, needed_from=0, end=0) == []


@pytest.mark.parametrize(
    ("seen", "needed_from", "end", "missing"),
    [
        (segments(0, 100) + segments(200, 300), 0, 250, 100),
        (segments(0, 100), 0, 101, 100),
        (segments(100, 200), 50, 150, 50),
        ([], 0, 8, 0),
    ],
)
def test_a_gap_is_told(
    seen: list[SeenSegment], needed_from: int, end: int, missing: int
) -> None:
    with pytest.raises(NotAStore, match=f"{missing:020d}"):
        plan_log(seen, kept_from=0, needed_from=needed_from, end=end)


@given(st.data())
def test_everything_needed_is_there_once(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=8))
    bounds = [sum(sizes[:at]) for at in range(len(sizes) + 1)]
    seen = data.draw(st.permutations(segments(*bounds)))
    end = data.draw(st.integers(0, bounds[-1]))
    needed_from = data.draw(st.integers(0, end))
    kept_from = data.draw(st.sampled_from(bounds[:-1]))
    parts = plan_log(seen, kept_from=kept_from, needed_from=needed_from, end=end)
    covered = [
        position
        for part in parts
        for position in range(part.segment.base, part.segment.base + part.stored)
    ]
    assert covered == sorted(set(covered))
    assert set(covered) >= set(range(min(kept_from, needed_from), end))
    assert all(part.stored == part.segment.size for part in parts[:-1])

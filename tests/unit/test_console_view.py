"""What pages say, and how."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.console import wording
from halfpast_api.console.assets import Assets
from halfpast_api.console.audits.figures import OnTimeCounts
from halfpast_api.console.audits.offenders import Happening, Offender, read_timeline
from halfpast_api.console.audits.on_time_section import TopicRow
from halfpast_api.console.audits.view import (
    budget_text,
    budget_used,
    detail,
    toned,
)
from halfpast_api.console.rendering import data_block
from halfpast_api.console.sparkline import sparkline


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50.0 %"),
        (0.99936, "99.936 %"),
        (0.99999, "99.9990 %"),
        (0.9999999, "> 99.9999 %"),
        (0.5001, "50.0 %"),
        (0.0027, "0.27 %"),
        (0.000002, "0.0002 %"),
        (1e-9, "< 0.0001 %"),
    ],
)
def test_shares_in_words(value: float | None, text: str) -> None:
    assert wording.percent(value) == text


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_share_is_never_shown_as_all_or_nothing(value: float) -> None:
    shown = wording.percent(value).strip("<> %")
    assert 0 < float(shown) < 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 ms"),
        (999, "999 ms"),
        (2600, "2.6 s"),
        (60_000, "1 min"),
        (45_000_000, "12 h"),
        (-12, "\N{MINUS SIGN}12 ms"),
    ],
)
def test_durations_in_words(value: float | None, text: str) -> None:
    assert wording.duration(value) == text


def test_times_in_words() -> None:
    assert wording.instant(1_767_268_800_007) == "2026-01-01 12:00:00.007"
    assert wording.iso(1_767_268_800_007) == "2026-01-01T12:00:00.007Z"
    assert wording.field(1_767_268_800_007) == "2026-01-01T12:00"
    assert wording.minute(1_767_268_800_007) == "2026-01-01 12:00"
    assert wording.minute(1_767_268_807_000) == "2026-01-01 12:00:07"
    assert wording.minute(None) == "\N{EN DASH}"
    assert detail("due_ms", "1767268800007") == "2026-01-01 12:00:00.007"
    assert detail("delay_ms", "1500") == "1.5 s"
    assert detail("topic", "15") == "15"


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_no_data_ends_their_block(value: object) -> None:
    block = str(data_block(value))
    assert "<" not in block
    assert json.loads(block) == value


def test_a_sparkline_breaks_where_nothing_was_audited() -> None:
    drawn = sparkline([1, 2, None, 3, 1])
    assert drawn is not None
    assert drawn.line.count("M") == 2
    assert sparkline([0, 0, 0]) is None
    assert sparkline([None, 4]) is None
    assert sparkline([4, 4]) is not None


def row(judged: int, in_sla: int, share: float | None) -> TopicRow:
    return TopicRow(
        name="a",
        counts=OnTimeCounts(judged=judged, in_sla=in_sla),
        sla_ms=50,
        sla_share=share,
        worst_p99_ms=None,
        lateness_max_ms=None,
        windows=1,
        windows_missed=0,
    )


def test_the_error_budget_is_used_up_exactly_at_the_target() -> None:
    used = budget_used(row(1000, 999, 0.999))
    assert used == pytest.approx(1)
    assert budget_used(row(1000, 1000, 0.999)) == 0
    assert budget_used(row(1000, 1000, 1)) == 0
    assert budget_text(budget_used(row(1000, 999, 1)) or 0) == "999 times"
    assert budget_used(row(0, 0, 0.999)) is None
    assert budget_used(row(5, 5, None)) is None
    assert row(1000, 999, 0.999).is_met
    assert row(1000, 998, 0.999).is_met is False


def test_a_time_line_leaves_out_what_cannot_be_read() -> None:
    text = '[{"at": 5, "what": "fired", "due_ms": 4}, {"at": "?"}, {"what": "lost"}]'
    assert read_timeline(text) == [Happening(5, "fired", {"due_ms": "4"})]
    assert read_timeline("") == []
    assert read_timeline("{}") == []


def test_what_comes_a_second_time_is_marked() -> None:
    lines = [Happening(at, what, {}) for at, what in enumerate(("fired",) * 2)]
    timer = Offender(
        audit="on_time",
        reason="duplicated",
        group="",
        topic="a",
        window_start_ms=0,
        event_id="",
        due_ms=None,
        stored_ms=None,
        lateness_ms=None,
        timeline=lines,
    )
    assert [tone for _, tone in toned(timer)] == ["good", "bad"]


def test_scripts_and_styles_can_be_put_into_a_page_as_they_are() -> None:
    assets = Assets()
    for name in ("uplot.iife.min.js", "plot_kit.js", "audits.js"):
        assert "</script" not in assets.text(name)
    for name in ("uplot.min.css", "audits.css"):
        assert "</style" not in assets.text(name)
    assert "Leon Sorokin" in assets.text("uplot.LICENSE.txt")

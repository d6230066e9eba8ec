"""Figures of the first page, from what services count."""

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from halfpast_api.console.due import Bucket, Due, columns
from halfpast_api.console.events.payload import SHOWN_MAX, payload_of
from halfpast_api.console.events.reading import Event
from halfpast_api.console.overview.heat import (
    HOUR_MS,
    LEVELS,
    first_hour_ms,
    heat_map,
    level_of,
)
from halfpast_api.console.overview.sample import (
    Sample,
    lateness_between,
    rates_between,
    sample_of,
)
from halfpast_api.console.time_line import Line, time_line
from halfpast_api.console.wording import compact, rate, sentence, size
from halfpast_core_store.broker import BrokerStatus

NOW_MS = 1_795_167_000_000  # 2026-11-20 09:30 UTC
AT = "2026-11-20T10:00:00.000Z"


def sample(at_s: float, fired: float, buckets: dict[str, float]) -> Sample:
    counters = {f'lateness_ms_bucket{{le="{it}"}}': n for it, n in buckets.items()}
    delay = BrokerStatus({"fired_total": fired, **counters}, {"timers_pending": 7})
    broker = BrokerStatus({"log_records_total": 2 * fired}, {"store_writable": 1})
    return sample_of({"broker": broker, "delay": delay}, at_s, late=3)


def test_rates_are_per_second_and_unknown_after_a_restart() -> None:
    before, after = sample(0, 100, {}), sample(5, 150, {})
    rates = rates_between(before, after)
    assert rates["delivered"] == 10
    assert rates["written"] == 20
    assert rates["transactions"] is None  # nobody counts them here
    assert rates_between(after, sample(10, 20, {}))["delivered"] is None
    assert after.gauges == {"pending": 7, "late": 3}


def test_lateness_is_that_of_the_span_alone() -> None:
    before = sample(0, 0, {"1": 50, "10": 100, "+Inf": 100})
    after = sample(5, 0, {"1": 50, "10": 198, "+Inf": 200})
    late = lateness_between(before, after, (0.5, 0.98, 1))
    assert late == [10, 10, float("inf")]
    assert lateness_between(after, after, (0.5,)) == [None]
    assert lateness_between(after, before, (0.5,)) == [None]  # it has begun anew


def test_the_health_of_services_is_told_in_words() -> None:
    statuses: dict[str, BrokerStatus | Exception] = {
        "broker": BrokerStatus({}, {"store_writable": 0}),
        "delay": BrokerStatus({}, {"delay_server_ready": 0}),
        "transactions": TimeoutError("no answer within 2 s"),
    }
    health = sample_of(statuses, 0, is_stale=True).health
    assert [it.state for it in health] == ["read_only", "starting", "away", "stale"]
    assert "no answer within 2 s" in health[2].note


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_every_hour_of_seven_days_is_in_the_map_once(name: str) -> None:
    zone = ZoneInfo(name)
    begin = first_hour_ms(NOW_MS, zone)
    counts = {begin + it * HOUR_MS: 1 for it in range(7 * 24 - 1)}
    rows = heat_map(counts, NOW_MS, zone)
    assert len(rows) == 7
    cells = [it for row in rows for it in row.cells if it is not None]
    assert sum(it.count for it in cells) == len(counts)
    assert sum(it.is_now for it in cells) == 1
    assert rows[0].name == "Fri 20 Nov"


def test_clock_changes_neither_lose_nor_double_hours() -> None:
    zone = ZoneInfo("Europe/Berlin")
    for now_ms in (1_792_791_000_000, 1_774_600_000_000):  # October and March 2026
        begin = first_hour_ms(now_ms, zone)
        counts = {begin + it * HOUR_MS: 1 for it in range(7 * 24 - 1)}
        rows = heat_map(counts, now_ms, zone)
        shown = sum(it.count for row in rows for it in row.cells if it is not None)
        assert shown == len(counts)


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_levels_rise_with_counts(a: int, b: int) -> None:
    most = max(a, b)
    assert 1 <= level_of(a, most) <= LEVELS
    assert level_of(most, most) == (1 if most == 1 else LEVELS)
    assert (level_of(a, most) <= level_of(b, most)) or a > b
    assert level_of(0, most) == 0


def test_all_buckets_are_drawn() -> None:
    due = Due(
        start="2026-11-20T10:00:00.000Z",
        end="2026-11-20T10:03:00.000Z",
        server_time=AT,
        buckets=[Bucket("2026-11-20T10:01:00.000Z", 5)],
    )
    times, counts = columns(due, 60_000)
    assert counts == [0, 5, 0]
    assert times[1] - times[0] == 60


def event(**fields: object) -> Event:
    given = {"id": "i", "topic": "t", "state": "scheduled", "created_at": AT}
    return Event(**given, **fields)  # type: ignore[arg-type]


def test_payloads_are_laid_out_to_the_digit() -> None:
    shown = payload_of(event(data=Raw(b'{"a":1.50,"b":[1e400,12345678901234567890]}')))
    assert shown.kind == "json"
    assert '"a": 1.50' in shown.text
    assert "12345678901234567890" in shown.text
    assert payload_of(event(data_base64=b"plain text")).kind == "text"
    binary = payload_of(event(data_base64=b"\0\1\2"))
    assert (binary.kind, binary.text, binary.size) == ("binary", "AAEC", 3)
    assert payload_of(event()).kind == "none"
    assert payload_of(event(data=Raw(b"1")), may_view=False).kind == "withheld"
    assert payload_of(event(data_withheld=True)).kind == "withheld"
    large = payload_of(event(data_base64=b"x" * (SHOWN_MAX + 1)))
    assert large.is_cut
    assert len(large.text) == SHOWN_MAX
    assert payload_of(event(data=Raw(b'"' + b"x" * SHOWN_MAX + b'"'))).is_cut


def test_a_time_line_tells_what_passed_between() -> None:
    entries = [Line(AT, "scheduled"), Line("2026-11-20T10:00:01.500Z", "delivered")]
    lines = time_line(entries, {"delivered": "3 ms after it was due"})
    assert [it.gap for it in lines] == ["", "+1.5 s"]
    assert lines[1].more == "3 ms after it was due"


def test_words() -> None:
    assert [compact(it) for it in (0, 9_999, 12_345, 4_500_000)] == [
        *("0", "9,999"),
        *("12.3 k", "4.5 M"),
    ]
    assert [rate(it) for it in (None, 0.25, 1234)] == [
        *("\N{EN DASH}", "0.25/s", "1,234/s")
    ]
    assert [size(it) for it in (5, 2048, 4 * 1024 * 1024)] == [
        *("5 B", "2 KiB"),
        "4 MiB",
    ]
    assert sentence("no such topic") == "No such topic."
    assert sentence("Really?") == "Really?"

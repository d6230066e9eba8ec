"""The two topics of the burst, and the figures of what they did."""

from halfpast_loadtest.bench_result import BenchResult
from halfpast_loadtest.burst import QUIET_MS, BurstSettings, side_due_times
from halfpast_loadtest.burst_report import note_burst, note_side, note_stalls
from halfpast_loadtest.delivered import Delivered, ExpectedIds


def delivered(*times: tuple[int, int]) -> Delivered:
    found = Delivered()
    for due_ms, stored_ms in times:
        found.due_ms.append(due_ms)
        found.stored_ms.append(stored_ms)
    return found


def test_the_other_topic_begins_before_and_ends_after_the_burst() -> None:
    settings = BurstSettings(count=80_000, side_rate_per_s=100)
    dues = side_due_times(1_000_000, settings)
    assert dues[0] == 1_000_000 - QUIET_MS
    assert dues[1] - dues[0] == 10
    assert dues[-1] >= 1_000_000 + 10_000  # at 8,000 a second


def test_what_was_not_delivered_is_lost() -> None:
    result = BenchResult(bench="burst", settings={})
    expected = ExpectedIds()
    ids = [f"01a1f807-0000-7000-8000-{number:012x}" for number in range(3)]
    expected.add(ids)
    for event_id in (ids[0], ids[0], ids[1]):
        expected.see(event_id)
    burst = delivered((5000, 5001), (5000, 5001), (5000, 5500))
    note_burst(result, burst, expected, 5000, [])
    assert (result.lost, result.duplicates, result.early) == (1, 1, 0)
    assert result.rate_per_s == 6.0  # three within half a second
    assert result.max_ms == 500


def test_the_other_topic_counts_until_the_burst_ends() -> None:
    result = BenchResult(bench="burst", settings={}, early=0, lost=1)
    side = delivered((4000, 4001), (5000, 5020), (5400, 5401), (9000, 9001))
    note_side(result, side, [], 5000, 5500, expected=4)
    assert result.lost == 2  # one of the four that were due by then is missing
    quiet, meanwhile = (
        result.parts[f"side topic {name}"] for name in ("quiet", "meanwhile")
    )
    assert (quiet["count"], quiet["max_ms"]) == (1, 1)
    assert (meanwhile["count"], meanwhile["max_ms"]) == (2, 20)


def test_only_stalls_in_between_are_the_bursts() -> None:
    result = BenchResult(bench="burst", settings={})
    before = {'halfpast_loop_stalls_total{at_least_ms="50"}': 2.0}
    after = {
        'halfpast_loop_stalls_total{at_least_ms="50"}': 3.0,
        'halfpast_loop_stall_ms_max{since="start"}': 71.26,
        'halfpast_loop_stall_ms_max{since="minute"}': 60.0,
        "halfpast_loop_stall_busy_ms_max": 12.0,
    }
    note_stalls(result, before, after)
    stalls = result.parts["event loop"]
    assert stalls["stalls_of_50_ms"] == 1
    assert stalls["stalls_of_50_ms_earlier"] == 2
    assert stalls["stall_ms_max"] == 71.3

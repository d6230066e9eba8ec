"""Samples of /metrics, summed over their labels."""

from halfpast_loadtest.server_metrics import grown, parse_metrics, total

TEXT = """\
# HELP halfpast_checks_total Check-backs, by the way they went.
# TYPE halfpast_checks_total counter
halfpast_checks_total{transport="poll"} 3.0
halfpast_checks_total{transport="nobody"} 4.0
halfpast_checks_waiting 1.0
halfpast_lane_refused_total{lane="send"} 1e+02
"""


def test_a_name_stands_for_all_its_labels() -> None:
    metrics = parse_metrics(TEXT)
    assert total(metrics, "checks_total") == 7
    assert total(metrics, "checks_waiting") == 1
    assert total(metrics, "checks_total", 'transport="poll"') == 3
    assert total(metrics, "lane_refused_total", 'lane="send"') == 100
    assert total(metrics, "checks") == 0


def test_growth_counts_series_that_are_new() -> None:
    before = parse_metrics('halfpast_checks_total{transport="poll"} 3.0\n')
    assert grown(before, parse_metrics(TEXT), "checks_total") == 4

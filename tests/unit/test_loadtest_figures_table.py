"""The README's table, made from the JSON lines of benches."""

from halfpast_loadtest.bench_result import BenchResult, figures, to_line, with_latency
from halfpast_loadtest.figures_table import table
from halfpast_loadtest.latency import summarise


def result(bench: str) -> BenchResult:
    made = BenchResult(
        bench=bench,
        settings={},
        rate_per_s=12345.6,
        lost=0,
        rss_mb=150.0,
        anonymous_mb=80.0,
        server_cpu_us_per_message=2.5,
        ratio={"of_echo": 0.5},
    )
    with_latency(made, summarise([1.0, 2.0]))
    return made


def test_a_result_is_a_row() -> None:
    row = table([to_line(result("publish-single")), "\n"]).splitlines()[-1]
    assert row == (
        "| `publish-single` | 12,346 | 1 / 2 / 2 / 2 | 2.5 | 150 (80 anonymous) "
        "| 0.5 of echo | 0 |"
    )


def test_both_formats_are_rows() -> None:
    both = result("publish-batch")
    both.parts = {"json": figures(both), "msgpack": figures(both)}
    rows = table([to_line(both)]).splitlines()[2:]
    starts = [row.split(" | ")[0] for row in rows]
    assert starts == ["| `publish-batch` json", "| `publish-batch` msgpack"]


def test_lateness_has_a_row_for_the_arrival() -> None:
    late = result("lateness")
    late.settings = {"consumer": "pop"}
    times = {"p50_ms": 0.5, "p99_ms": 2.0, "p999_ms": 3.0, "max_ms": 4.0}
    late.parts = {"stored_at - deliver_at": times, "arrival - deliver_at": times}
    first, second = table([to_line(late)]).splitlines()[2:]
    assert first.startswith("| `lateness` pop |")
    assert second == "| - until it arrives | | 0.5 / 2 / 3 / 4 | | | | |"

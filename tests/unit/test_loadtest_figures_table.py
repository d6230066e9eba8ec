"""The README's table, made from the JSON lines of benches."""

from halfpast_loadtest.bench_result import BenchResult, figures, to_line, with_latency
from halfpast_loadtest.figures_table import table
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.open_transactions import OpenFigures


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


def test_both_phases_of_a_transaction_have_a_row() -> None:
    made = result("transactions")
    made.check_backs = 0
    begins = {"p50_ms": 0.5, "p99_ms": 2.0, "p999_ms": 3.0, "max_ms": 4.0}
    part = figures(made) | {f"begin_{name}": ms for name, ms in begins.items()}
    made.parts = {"http": part, "sdk": part}
    rows = table([to_line(made)]).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows[::2]] == [
        "| `transactions` http",
        "| `transactions` sdk",
    ]
    assert rows[0].endswith("| 0.5 of echo, 0 check-backs | 0 |")
    assert rows[1] == "| - until it has begun | | 0.5 / 2 / 3 / 4 | | | | |"


def test_open_transactions_have_a_row_of_their_own() -> None:
    made = BenchResult(bench="transactions", settings={"open": 1000})
    made.parts["open"] = OpenFigures(
        open_count=1_000_000,
        rate_per_s=40_000,
        rss_mb=410,
        anonymous_mb=300,
        empty_ready_s=1.5,
        ready_after_sigterm_s=2.5,
        ready_after_sigkill_s=3.5,
    ).shown()
    assert table([to_line(made)]).splitlines()[-1] == (
        "| `transactions` open=1,000,000 | 40,000 begun |  |  | 410 (300 anonymous) "
        "| ready 2.5 s after SIGTERM, 3.5 s after SIGKILL, 1.5 s without any | 0 |"
    )


def test_what_is_pending_has_a_row_of_its_own() -> None:
    made = result("pending")
    times = {"p50_ms": 0.5, "p99_ms": 2.0, "p999_ms": 3.0, "max_ms": 4.0}
    made.parts = {
        "pending": {
            "pending_count": 1_000_000,
            "pss_mb": 402.3,
            "last_of_first_tenth": 0.81,
            "ready_after_sigterm_s": 1.5,
            "ready_after_sigkill_s": 1.8,
        },
        "chronos": {"pss_mb": 123.4},
        "get": times,
        "list": times,
        "cancel": times,
    }
    row = table([to_line(made)]).splitlines()[-1]
    assert row == (
        "| `pending` 1,000,000 | 12,346 | 1 / 2 / 2 / 2 | 2.5 "
        "| 402 PSS (123 Delay Server) | last tenth 0.81 of the first, "
        "ready 1.5 s after SIGTERM, 1.8 s after SIGKILL, "
        "get 0.5 / 2 ms, list 0.5 / 2 ms, "
        "cancel 0.5 / 2 ms | 0 |"
    )


def test_the_topic_beside_a_burst_has_rows_of_its_own() -> None:
    made = result("burst")
    times = {"p50_ms": 0.0, "p99_ms": 2.0, "p999_ms": 3.0, "max_ms": 4.0}
    made.parts = {"memory": {"pss_mb_max": 1.0}, "side topic meanwhile": times}
    first, second = table([to_line(made)]).splitlines()[2:]
    assert first.startswith("| `burst` | 12,346 |")
    assert second == "| - side topic meanwhile | | 0 / 2 / 3 / 4 | | | | |"


def test_cancels_of_both_kinds_are_rows() -> None:
    made = result("cancel")
    bulk = {"rate_per_s": 60_000.0, "rss_mb": 1.0, "anonymous_mb": 1.0}
    bulk["server_cpu_us_per_message"] = 9.0
    made.parts = {"single": figures(made), "bulk": bulk}
    rows = table([to_line(made)]).splitlines()[2:]
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| `cancel` single", "12,346", "1 / 2 / 2 / 2"],
        ["| `cancel` bulk", "60,000", ""],
    ]

"""The registry of benchmarks, their settings, and the form of their results."""

import io
import json

import pytest
from rich.console import Console

from halfpast_loadtest import bench
from halfpast_loadtest.bench_result import (
    BenchResult,
    figures,
    from_part,
    print_table,
    to_line,
    with_latency,
)
from halfpast_loadtest.bench_settings import changed
from halfpast_loadtest.errors import BadSetting, UnknownBench
from halfpast_loadtest.http_wire import Response
from halfpast_loadtest.latency import summarise
from halfpast_loadtest.lateness import LatenessSettings, due_times
from halfpast_loadtest.request_set import created_in_batch, one_if_created
from halfpast_loadtest.write_bench import WriteSettings

NAMES = {
    "publish-single",
    "publish-batch",
    "schedule-single",
    "schedule-batch",
    "lateness",
    "pending",
    "burst",
    "cancel",
    "produce-consume",
    "transactions",
    "transaction-lanes",
    "overload",
    "rocketmq",
    "audit",
}


def test_all_benches_are_named_and_explained() -> None:
    assert set(bench.names()) == NAMES
    assert all(bench.names().values())


def test_the_list_shows_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--list"]) == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert {row[0] for row in rows} == NAMES
    assert all(len(row) > 3 for row in rows)  # the name, and what it does


def test_an_unknown_bench_is_refused_with_the_names() -> None:
    with pytest.raises(UnknownBench, match="publish-single"):
        bench.find("speed")


def test_a_wrong_command_line_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main([]) == 2
    assert bench.main(["publish-single", "--fast"]) == 2
    assert bench.main(["publish-single", "colour=red"]) == 2
    assert "callers" in capsys.readouterr().err


def test_settings_get_the_type_of_their_default() -> None:
    settings = changed(
        WriteSettings(), {"callers": "3", "seconds": "0.5", "mode": "up"}
    )
    assert settings == WriteSettings(callers=3, seconds=0.5, mode="up")


@pytest.mark.parametrize(("name", "text"), [("colour", "red"), ("callers", "many")])
def test_wrong_settings_are_refused(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=name):
        changed(WriteSettings(), {name: text})


def test_a_result_is_one_json_object_on_one_line() -> None:
    result = BenchResult(bench="x", settings={"callers": 2}, rate_per_s=1.5, lost=0)
    with_latency(result, summarise([1.0, 2.0]))
    line = to_line(result)
    assert "\n" not in line
    decoded = json.loads(line)
    assert decoded["bench"] == "x"
    assert decoded["lost"] == 0
    assert decoded["max_ms"] == 2.0
    assert "early" not in decoded  # does not apply, is left out


def printed(result: BenchResult) -> str:
    file = io.StringIO()
    print_table(result, Console(width=200, file=file))
    return file.getvalue()


def test_a_few_parts_stand_side_by_side_with_what_is_missing_told() -> None:
    result = BenchResult(bench="x", settings={"callers": 2}, notes=["without [it]"])
    result.parts = {"json": {"rate_per_s": 1.0}, "msgpack": {"rate_per_s": 2.5}}
    text = printed(result)
    assert [line.split() for line in text.splitlines() if "rate_per_s" in line] == [
        ["│", "rate_per_s", "│", "1", "│", "2.500", "│"]
    ]
    assert "without [it]" in text


def test_many_parts_get_a_table_for_each_kind() -> None:
    result = BenchResult(bench="x", settings={}, rate_per_s=5.0)
    result.parts = {name: {"pss_mb": 1.0} for name in ("up", "broker", "api")}
    result.parts |= {name: {"p50_ms": 2.0} for name in ("get", "list")}
    rows = [line.split("│") for line in printed(result).splitlines() if "│" in line]
    assert {row[1].strip(): len(row) - 3 for row in rows} == {
        "rate_per_s": 1,
        "pss_mb": 3,
        "p50_ms": 2,
    }


def test_figures_of_a_part_stand_on_top() -> None:
    result = BenchResult(bench="x", settings={})
    result.parts["http"] = {"rate_per_s": 7.0, "check_backs": 0, "begin_p50_ms": 1.0}
    from_part(result, "http")
    assert (result.rate_per_s, result.check_backs) == (7.0, 0)
    assert "begin_p50_ms" not in figures(result)  # has no place there


@pytest.mark.parametrize(
    ("name", "setting", "choice"),
    [
        ("transactions", "through", "both"),
        ("transaction-lanes", "ratio", "both"),
        ("burst", "consumers", "all"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(
    name: str, setting: str, choice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main([name, f"{setting}=smoke"]) == 2
    assert choice in capsys.readouterr().err


def test_due_times_are_spread_evenly() -> None:
    settings = LatenessSettings(rate_per_s=2000, seconds=2)
    dues = due_times(1_000, settings)
    assert len(dues) == 4000
    assert dues[:5] == [1000, 1000, 1001, 1001, 1002]
    assert dues[-1] == 2_999


def test_a_burst_shares_one_due_time() -> None:
    dues = due_times(0, LatenessSettings(rate_per_s=1000, seconds=1, burst=100))
    assert dues[:101] == [0] * 100 + [100]


def test_only_what_was_created_counts() -> None:
    assert one_if_created(Response(201, b"", b"{}")) == 1
    assert one_if_created(Response(503, b"", b"{}")) == 0
    body = b'{"results":[{"index":0,"status":201},{"index":1,"status":422}]}'
    assert created_in_batch(Response(200, b"HTTP/1.1 200 OK", body)) == 1
    assert created_in_batch(Response(503, b"", b"busy")) == 0

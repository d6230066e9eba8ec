"""`halfpast audit`: what has been found, which rules do not hold, and what cannot be
audited, told before a Spark is started."""

import json
import re
import shutil
import socket
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select, update
from tests.integration.audit_books import Span, write
from typer.testing import CliRunner, Result

from halfpast_api.cli import app
from halfpast_api.metadata.migrate import migrate
from halfpast_core_store.folder import MANIFEST
from halfpast_spark import result_tables as tables
from halfpast_spark.rules import DEFAULTS

SPAN = Span(windows=48)
STORE = '{"format_version": 1, "store_id": "0123456789abcdef", "salt": 7}\n'


def halfpast(*words: str) -> Result:
    return CliRunner().invoke(app, ["audit", *words])


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose database has results, with a bad hour."""
    folder = tmp_path_factory.mktemp("audited")
    write(f"sqlite:///{folder}/metadata.sqlite", SPAN)
    return folder


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A store whose log holds nothing."""
    (tmp_path / MANIFEST).write_text(STORE)
    (tmp_path / "log").mkdir()
    return tmp_path


def test_show_prints_the_tables(audited: Path) -> None:
    done = halfpast("show", "--data", str(audited))
    assert done.exit_code == 0, done.output
    assert "Transactions, by when they began" in done.output
    assert "Delayed messages, by when they were due" in done.output
    assert "0.999 in 50 ms" in done.output


def test_show_adds_up_what_the_database_holds(audited: Path) -> None:
    done = halfpast("show", "--data", str(audited), "--json", "--last", "1h")
    shown = json.loads(done.stdout)
    assert shown["to_ms"] - shown["from_ms"] == 3_600_000
    by_topic = {row["topic"]: row["scheduled"] for row in shown["on_time"]}
    table = tables.on_time
    wanted = (
        select(func.sum(table.c.scheduled))
        .where(table.c.topic == "orders")
        .where(table.c.window_start_ms >= shown["from_ms"])
    )
    engine = create_engine(f"sqlite:///{audited}/metadata.sqlite")
    with engine.connect() as connection:
        assert by_topic["orders"] == connection.execute(wanted).scalar()
    engine.dispose()


def test_check_exits_with_1_and_names_what_is_broken(
    audited: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[bounds]\nsecond_phase_lost_rate = 0.0001\n")
    words = ("check", "--data", str(audited), "--rules", str(rules))
    done = halfpast(*words)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert any("second_phase_lost_rate is" in line for line in lines)
    assert any(re.fullmatch(r"topic \w+: lost is \d+, .*", line) for line in lines)
    assert any("the SLA is 99.9000%" in line for line in lines)
    assert "\x1b" not in done.output
    told = json.loads(halfpast(*words, "--json").stdout)["broken"]
    assert len(told) == len(lines)
    assert {it["kind"] for it in told} == {"run", "group", "topic"}


def test_check_is_content_with_rules_that_hold(audited: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    bounds = "".join(f"{name} = false\n" for name in DEFAULTS)
    rules.write_text(f"[bounds]\n{bounds}dead = 1000000\n")
    done = halfpast("check", "--data", str(audited), "--rules", str(rules))
    assert (done.exit_code, done.output) == (0, "All rules hold.\n")


def test_check_fails_when_nobody_has_audited_lately(audited: Path) -> None:
    done = halfpast("check", "--data", str(audited), "--max-age", "1h", "--last", "5m")
    assert done.exit_code == 1
    assert "the last run saw nothing of the last" in done.output


def test_check_tells_what_could_not_be_seen(audited: Path, tmp_path: Path) -> None:
    shutil.copy(audited / "metadata.sqlite", tmp_path)
    engine = create_engine(f"sqlite:///{tmp_path}/metadata.sqlite")
    with engine.begin() as connection:
        gaps = json.dumps(["positions 0 to 8: damaged"])
        connection.execute(update(tables.runs).values(gaps=gaps))
    engine.dispose()
    done = halfpast("check", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert "could not see 1 places of the log" in done.output
    assert (
        "not seen: positions 0 to 8" in halfpast("show", "--data", str(tmp_path)).output
    )


def test_report_writes_one_file(audited: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = halfpast("report", str(page), "--data", str(audited), "--last", "3h")
    assert (done.exit_code, done.output) == (0, f"report: {page}\n")
    text = page.read_text()
    assert "orders" in text
    assert [it.name for it in tmp_path.iterdir()] == ["report.html"]
    assert 'src="http' not in text
    assert 'href="http' not in text


@pytest.mark.parametrize("command", ["show", "check", "report"])
def test_before_the_first_run_they_name_it(tmp_path: Path, command: str) -> None:
    migrate(f"sqlite:///{tmp_path}/metadata.sqlite")
    file = [str(tmp_path / "report.html")] if command == "report" else []
    done = halfpast(command, *file, "--data", str(tmp_path))
    assert done.exit_code == 1
    assert "there was no run yet: 'halfpast audit run'" in done.output


def test_prune_deletes_old_windows_and_says_so(audited: Path, tmp_path: Path) -> None:
    shutil.copy(audited / "metadata.sqlite", tmp_path)
    words = ("prune", "--data", str(tmp_path))
    for_ever = "--keep", "36500d"
    kept = halfpast(*words, *for_ever)
    assert kept.exit_code == 0, kept.output
    assert re.fullmatch(r"Nothing to delete: [\d,]+ rows\.\n", kept.output)
    few_words = (*words, *for_ever, "--keep-rows", "1000", "--json")
    few = json.loads(halfpast(*few_words).stdout)
    assert few["rows_left"] <= 1000
    assert few["deleted"]["on_time"] > 0
    done = halfpast(*words)
    assert re.fullmatch(r"Deleted [\d,]+ rows; 0 are left\.\n", done.output)
    for wrong in (("--keep", "0s"), ("--keep-rows", "9"), ("--keep", "long")):
        assert halfpast(*words, *wrong).exit_code == 2


# --- what cannot be audited ---------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--master", "localhost:7077"), 2, "names no Spark: give local[2]"),
        (("--window", "5 minuets"), 2, "5 minuets"),
        (("--report", "/nowhere/report.html"), 2, "there is no folder /nowhere"),
        (("--rules", "/nowhere/rules.toml"), 2, "rules.toml: No such file"),
        (("--read", "parquet"), 1, "'halfpast audit export' does it"),
        (("--metadata", "mysql://root:secret@host/x"), 69, "--metadata"),
    ],
)
def test_wrong_options(
    written_store: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    pytest.importorskip("pyspark")
    done = halfpast("run", "--data", str(written_store), *words)
    assert done.exit_code == code, done.output
    assert text in done.output
    assert "secret" not in done.output


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_that_does_not_answer(written_store: Path, scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        master = f"{scheme}://127.0.0.1:{unused.getsockname()[1]}"
        done = halfpast("run", "--data", str(written_store), "--master", master)
    assert done.exit_code == 69
    assert f"no Spark at {master}" in done.output
    assert "Connection refused" in done.output


def test_an_empty_store(empty: Path) -> None:
    done = halfpast("run", "--data", str(empty))
    assert done.exit_code == 1
    assert "the log is empty" in done.output


def test_a_store_of_a_newer_format(empty: Path) -> None:
    (empty / MANIFEST).write_text(STORE.replace(": 1,", ": 2,"))
    done = halfpast("run", "--data", str(empty))
    assert done.exit_code == 78
    assert "format" in done.output


def test_no_store(tmp_path: Path) -> None:
    done = halfpast("run", "--data", str(tmp_path))
    assert done.exit_code == 78
    assert "is no data folder of Halfpast" in done.output


@pytest.fixture(scope="module")
def written_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a little in its log."""
    pytest.importorskip("numpy")
    from halfpast_loadtest.audit_log import AuditLog

    folder = tmp_path_factory.mktemp("store")
    start_ms = 1_767_268_800_000
    with AuditLog(folder, start_ms=start_ms, rate_per_s=100) as log:
        for number in range(20):
            log.append(start_ms + number * log.frame_ms)
        log.publish()
    return folder

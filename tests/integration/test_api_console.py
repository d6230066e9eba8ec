"""The pages of the audits over real HTTP, on results in SQLite and PostgreSQL."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, update
from tests.integration.api_server import Api, real_services, running_api, serve
from tests.integration.audit_books import END_MS, Span, bucket_of, write

from halfpast_api.console.audits.dashboard import Dashboard, read_dashboard
from halfpast_api.console.audits.reading import merged
from halfpast_api.console.audits.scope import DAY_MS, HOUR_MS, Wish
from halfpast_api.metadata.database import Database, migration_engine, parse_url
from halfpast_api.metadata.migrate import migrate
from halfpast_spark import result_tables as tables
from halfpast_spark.result_rows import preferred

pytest_plugins = ["tests.integration.postgres_server"]

PAGE = "/console/audits"
NOW_MS = END_MS + DAY_MS
SPAN = Span(windows=48, topics=3, window_ms=HOUR_MS)


@pytest.fixture
def results(database_url: str) -> Iterator[Connection]:
    """Two days of results; closed with whatever was changed taken back."""
    write(database_url, SPAN)
    engine = migration_engine(parse_url(database_url))
    with engine.connect() as connection:
        transaction = connection.begin()
        yield connection
        transaction.rollback()
    engine.dispose()


def rows(connection: Connection, table: Any, **wanted: object) -> list[dict[str, Any]]:
    found = [dict(row) for row in connection.execute(select(table)).mappings()]
    return [row for row in found if all(row[name] == it for name, it in wanted.items())]


def show(connection: Connection, wish: Wish) -> Dashboard:
    return read_dashboard(connection, wish, NOW_MS)


@pytest.mark.parametrize("name", ["24h", "7d", "30d"])
def test_sums_are_those_of_the_rows(results: Connection, name: str) -> None:
    board = show(results, Wish(range=name))
    inside = board.scope.from_ms
    on_time = [
        row
        for row in rows(results, tables.on_time, topic="*")
        if row["window_start_ms"] >= inside
    ]
    total = board.on_time.total
    for field in ("scheduled", "fired", "lost", "judged", "in_sla"):
        assert getattr(total, field) == sum(row[field] for row in on_time) > 0, field
    drawn = [it for it in board.on_time.counts["fired"] if it is not None]
    assert sum(drawn) == total.fired
    assert isinstance(total.fired, int)
    assert board.on_time.lateness_max_ms == max(
        row["lateness_max_ms"] for row in on_time
    )
    begun = [
        row
        for row in rows(results, tables.transactions, topic="*")
        if row["window_start_ms"] >= inside
    ]
    assert board.transactions.total.half == sum(row["half"] for row in begun)
    counted = {it.upper: it.count for it in board.transactions.checks}
    assert sum(counted.values()) == board.transactions.total.half
    assert sum(n for _, _, n in board.on_time.heat.cells) == total.fired
    assert not board.is_empty


def test_steps_of_one_window_have_the_exact_percentiles(results: Connection) -> None:
    board = show(results, Wish(topic="payments"))
    assert board.on_time.is_exact
    known = {
        row["window_start_ms"]: row["lateness_p99_ms"]
        for row in rows(results, tables.on_time, topic="payments")
    }
    wanted = [known[at_ms] for at_ms in board.scope.steps]
    assert board.on_time.lateness["p99"] == wanted
    assert board.on_time.sla_ms == 50


def test_longer_steps_are_bounds_from_the_histograms(results: Connection) -> None:
    board = show(results, Wish(range="30d"))
    assert board.scope.step_ms == 3 * HOUR_MS
    assert not board.on_time.is_exact
    exact = {
        row["window_start_ms"]: row["lateness_p50_ms"]
        for row in rows(results, tables.on_time, topic="*")
    }
    known = dict(zip(board.scope.steps, board.on_time.lateness["p50"], strict=True))
    for at_ms, bound in known.items():
        some = [
            exact[at]
            for at in range(at_ms, at_ms + 3 * HOUR_MS, HOUR_MS)
            if at in exact
        ]
        if some:
            assert bound is not None
            assert min(some) <= bound <= bucket_of(int(max(some)))[2]
        else:
            assert bound is None


def test_a_choice_of_topic_and_group(results: Connection) -> None:
    board = show(results, Wish(topic="payments", group="billing"))
    chosen = [
        row
        for row in rows(results, tables.transactions, topic="payments")
        if row["window_start_ms"] >= board.scope.from_ms
    ]
    assert board.transactions.total.half == sum(row["half"] for row in chosen) > 0
    assert [it.topic for it in board.end_to_end.topics] == ["payments"]
    assert {it.topic for it in board.offenders.shown} == {"payments", "*"}
    assert {it.name for it in board.on_time.topics} == {
        "orders",
        "payments",
        "reminders",
    }
    nobody = show(results, Wish(topic="orders", group="billing"))
    assert nobody.transactions.total.half == 0
    assert nobody.transactions.checks == []
    assert "billing" in nobody.groups


def test_of_two_sources_the_one_counts_that_the_jobs_prefer(
    results: Connection,
) -> None:
    """Streams know of other windows, of newer ones, and of those known anyway."""
    batch = rows(results, tables.on_time)
    last = max(row["window_start_ms"] for row in batch)
    for table in (tables.on_time, tables.transactions, tables.histograms):
        for row in rows(results, table):
            newer = {"source": "stream", "horizon_ms": END_MS + 60_000}
            stream: dict[str, Any] = row | newer
            if row["window_start_ms"] < last - HOUR_MS:
                stream["horizon_ms"] = 0
            for field in ("scheduled", "fired", "half", "count"):
                if field in stream:
                    stream[field] += 1000
            results.execute(insert(table), stream)
    everything = rows(results, tables.on_time)
    chosen = preferred(everything)
    assert set(chosen.values()) == {"batch", "stream"}
    board = show(results, Wish())
    wanted = [
        sum(
            row["fired"]
            for row in everything
            if row["window_start_ms"] == at_ms
            and row["topic"] == "*"
            and row["source"] == chosen[at_ms]
        )
        for at_ms in board.scope.steps
    ]
    assert board.on_time.counts["fired"] == wanted
    values = [
        sum(
            row["count"]
            for row in rows(
                results, tables.histograms, measure="lateness_ms", topic="*"
            )
            if row["window_start_ms"] == at_ms and row["source"] == chosen[at_ms]
        )
        for at_ms in board.scope.steps
    ]
    drawn = [0] * len(values)
    for step, _, count in board.on_time.heat.cells:
        drawn[step] += count
    assert drawn == values


def test_the_worst_of_each_reason_are_listed_with_their_number(
    results: Connection,
) -> None:
    board = show(results, Wish())
    counts = dict(board.offenders.counts)
    known = [
        row
        for row in rows(results, tables.offenders)
        if row["window_start_ms"] >= board.scope.from_ms
    ]
    for reason, number in counts.items():
        ids = {row["event_id"] for row in known if row["reason"] == reason}
        assert number == len(ids)
    shown = [it.reason for it in board.offenders.shown]
    assert set(shown) == set(counts)
    assert shown == sorted(shown, key=list(counts).index)
    late = [it.lateness_ms or 0 for it in board.offenders.shown if it.reason == "late"]
    assert late == sorted(late, reverse=True)
    only = show(results, Wish(reason="late")).offenders
    assert {it.reason for it in only.shown} == {"late"}
    assert dict(only.counts) == counts


def test_nothing_audited_is_an_empty_dashboard(database_url: str) -> None:
    migrate(database_url)
    database = Database(parse_url(database_url))
    with database.reading() as connection:
        board = show(connection, Wish())
    database.dispose()
    assert board.is_empty
    assert board.newest_ms is None
    assert merged([]) == board.transactions.checks == []


def test_the_series_audited_last_comes_first(results: Connection) -> None:
    known = rows(results, tables.runs)[0]
    newer = {"run_id": "newer", "window_ms": 60_000, "finished_ms": NOW_MS}
    results.execute(insert(tables.runs), known | newer)
    board = show(results, Wish())
    assert board.coverage.series == [60_000, HOUR_MS]
    assert board.is_empty
    assert not show(results, Wish(window_ms=HOUR_MS)).is_empty
    results.execute(update(tables.runs).values(gaps="not JSON"))
    assert show(results, Wish()).coverage.gaps == ["not JSON"]


async def site(stack: AsyncExitStack, folder: Path) -> Api:
    """An API on two days of results."""
    write(f"sqlite:///{folder}/metadata.sqlite", SPAN)
    services = await stack.enter_async_context(real_services(folder))
    return await stack.enter_async_context(serve(*services, folder))


@pytest.mark.asyncio
async def test_a_page_lets_nothing_in_from_elsewhere(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        api = await site(stack, tmp_path)
        page = await api.get(PAGE)
        assert page.status == 200
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        text = page.content.decode()
        assert "http://" not in text
        assert "https://" not in text
        assert " style=" not in text
        assert not re.search(r"<script(?! (defer src|type=\"application/json\"))", text)
        assert not re.search(r"\son[a-z]+=", text)
        files = re.findall(r'(?:href|src)="(/console/assets/[^"]+)"', text)
        assert len(files) == 10
        for url in files:
            file = await api.get(url)
            assert file.status == 200
            assert "immutable" in file.headers["Cache-Control"]
            assert file.headers["X-Content-Type-Options"] == "nosniff"
        old = await api.get(files[0].partition("?")[0] + "?v=old")
        assert old.headers["Cache-Control"] == "no-cache"
        assert (await api.get("/console/assets/nothing.js")).code == "unknown_route"
        assert (await api.get("/console/assets/..%2fassets.py")).status == 404
        assert (await api.call("HEAD", PAGE)).content == b""


@pytest.mark.asyncio
async def test_the_figures_of_the_page_are_those_of_the_dashboard(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        api = await site(stack, tmp_path)
        text = (await api.get(PAGE + "?range=24h&topic=&group=")).content.decode()
        block = re.search(r'id="figures">(.*?)</script>', text)
        assert block is not None
        figures = json.loads(block[1])
        assert len(figures["times"]) == 24
        assert figures["times"][-1] == (END_MS - HOUR_MS) // 1000
        columns = [*figures["on_time"].values(), *figures["lateness"].values()]
        columns += [*figures["transactions"].values(), *figures["outcome"].values()]
        columns += [figures["rate"], figures["attainment"]]
        assert {len(column) for column in columns} == {24}
        assert {it["name"] for it in figures["rates"]} == {
            "shop",
            "billing",
            "warehouse",
        }


@pytest.mark.asyncio
async def test_what_goes_wrong_is_a_page_too(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        for query, status in (
            ("?range=2h", 422),
            ("?from=x", 422),
            ("?colour=red", 422),
            ("/events/nonsense", 422),
            ("/events/01936f1e-8c00-7abc-8def-0123456789ab", 404),
        ):
            page = await api.get(PAGE + query)
            assert page.status == status, query
            assert page.headers["Content-Type"].startswith("text/html")
            assert b"<h1>" in page.content
        empty = await api.get(PAGE)
        assert empty.status == 200
        assert b"Nothing has been audited yet" in empty.content
        (tmp_path / "metadata.sqlite").unlink()
        away = await api.get(PAGE)
        assert away.status == 503
        assert away.headers["Retry-After"] == "1"
        assert b"The metadata database is away" in away.content


@pytest.mark.asyncio
async def test_an_event_is_shown_as_the_services_know_it(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        event = await api.publish("orders", data=1, key="k-7", delay_ms=3_600_000)
        page = (await api.get(f"{PAGE}/events/{event['id']}")).content.decode()
        assert "No audit has found anything wrong" in page
        assert "As the services know it now: scheduled" in page
        assert "k-7" in page
        stored = await api.publish("orders", data=1)
        page = (await api.get(f"{PAGE}/events/{stored['id']}")).content.decode()
        assert "now: stored" in page
        message = {"topic": "orders", "data": 1}
        begun = await api.post(
            "/v1/transactions", {"producer_group": "shop", "messages": [message]}
        )
        ids = begun.body["id"], begun.body["messages"][0]["id"]
        for event_id in ids:
            page = (await api.get(f"{PAGE}/events/{event_id}")).content.decode()
            assert "now: prepared" in page


@pytest.mark.asyncio
async def test_an_offender_is_shown_with_its_time_line(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        api = await site(stack, tmp_path)
        text = (await api.get(PAGE)).content.decode()
        links = re.findall(rf'"({PAGE}/events/[0-9a-f-]+)"', text)
        assert links
        started = time.perf_counter()
        page = (await api.get(links[0])).content.decode()
        assert time.perf_counter() - started < 5
        assert "Time line, as the log has it" in page
        assert "<strong>schedule</strong>" in page


def test_the_api_needs_nothing_of_spark() -> None:
    """It reads the definitions of the tables, which need neither Spark nor Arrow."""
    code = (
        "import sys, halfpast_api.app\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(names & {'pyspark', 'pyarrow', 'pandas', 'numpy'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"

"""What Grafana and Prometheus are given speaks of tables and metrics that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from markdown.extensions.toc import slugify  # type: ignore[import-untyped]
from sqlalchemy import Connection, text
from tests.integration.audit_books import END_MS, Span, write
from tests.integration.postgres_server import PostgresServer
from tests.integration.push_rig import push_rig

from halfpast_api.metadata.database import migration_engine, parse_url

pytest_plugins = ["tests.integration.postgres_server"]

METRIC = re.compile(r"\bhalfpast_[a-z0-9_]+")
RECORDED = re.compile(r"\bhalfpast:[a-z0-9_:]+")
HOUR_MS = 3_600_000
LABEL = re.compile(r'[{,]([a-z_]+)="')
LABELS = {
    *("action", "at_least_ms", "code", "direction", "endpoint", "group", "lane", "le"),
    *("method", "outcome", "reason", "result", "route", "service", "since", "source"),
    *("state", "status", "topic", "transport", "version"),
}
SPAN = Span(windows=24, topics=2, window_ms=HOUR_MS)
# As Grafana would fill them in.
FILLED = {
    "$__unixEpochFrom()": str(END_MS // 1000 - 86_400),
    "$__unixEpochTo()": str(END_MS // 1000),
    "$window_ms": str(HOUR_MS),
    "'$topic'": "'*'",
    "$producer_group": "'shop', 'billing', 'warehouse'",
}


@pytest.fixture
def board(repository_root: Path) -> dict[str, Any]:
    path = repository_root / "docker/grafana/dashboards/halfpast-audits.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


@pytest.fixture
def results(postgres: PostgresServer) -> Iterator[Connection]:
    url = postgres.new_database()
    write(url, SPAN)
    engine = migration_engine(parse_url(url))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def panels_of(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


@pytest.mark.postgres
def test_every_query_of_the_dashboard_finds_something(
    board: dict[str, Any], results: Connection
) -> None:
    queries = {it["name"]: it["query"] for it in board["templating"]["list"]}
    for panel in panels_of(board):
        for target in panel["targets"]:
            if "rawSql" in target:
                queries[panel["title"]] = target["rawSql"]
    assert len(queries) > 15
    for name, query in queries.items():
        for macro, value in FILLED.items():
            query = query.replace(macro, value)
        assert "$" not in query, name
        rows = results.execute(text(query.replace(":", r"\:"))).all()
        assert rows, name
        assert any(it is not None for row in rows for it in row), name


@pytest.mark.postgres
def test_the_dashboard_says_what_the_tables_hold(
    board: dict[str, Any], results: Connection
) -> None:
    queries = {it["title"]: it["targets"][0].get("rawSql") for it in panels_of(board)}
    query = queries["Check-back rate"]
    for macro, value in FILLED.items():
        query = query.replace(macro, value)
    drawn = results.execute(text(query.replace(":", r"\:"))).all()
    known = results.execute(
        text(
            "SELECT count(DISTINCT (window_start_ms, producer_group)) "
            "FROM halfpast_audit_transactions WHERE topic = '*'"
        )
    ).scalar_one()
    assert len(drawn) == known


def rules_of(root: Path) -> list[dict[str, Any]]:
    rules = read_yaml(root / "docker/prometheus/halfpast.rules.yml")
    return [rule for group in rules["groups"] for rule in group["rules"]]


def board_queries(root: Path) -> list[str]:
    """What the boards ask Prometheus."""
    found: list[str] = []
    for path in sorted((root / "docker/grafana/dashboards").glob("*.json")):
        for panel in panels_of(json.loads(path.read_text("utf-8"))):
            found += [it["expr"] for it in panel["targets"] if "expr" in it]
    return found


async def scrape(folder: Path) -> str:
    """What a running suite tells of itself, once everything has been in use."""
    async with push_rig(folder) as rig:
        await rig.api.publish("orders", data=1, delay_ms=1)
        await rig.api.publish("hello", data=1)
        assert await rig.api.pop("readers", "hello", wait_ms=10_000)
        await rig.put("crm", "http://127.0.0.1:9/", "others")
        return (await rig.api.get("/metrics")).content.decode()


@pytest.mark.asyncio
async def test_metrics_are_those_that_the_services_have(
    repository_root: Path, tmp_path: Path
) -> None:
    rules = rules_of(repository_root)
    expressions = [rule["expr"] for rule in rules] + board_queries(repository_root)
    wanted = {name for it in expressions for name in METRIC.findall(it)}
    assert len(wanted) >= 40
    text_ = await scrape(tmp_path)
    known = {re.split(r"[{ ]", line)[0] for line in text_.splitlines()}
    assert wanted - known == set()
    recorded = {rule["record"] for rule in rules if "record" in rule}
    used = {name for it in expressions for name in RECORDED.findall(it)}
    assert used <= recorded
    # Whoever reads a name in a board finds out what it means.
    explained = dict(
        line.removeprefix("# HELP ").split(" ", 1)
        for line in text_.splitlines()
        if line.startswith("# HELP halfpast_")
    )
    assert [it for it in explained.items() if it[1].startswith("Of the ")] == []
    labels = {it for line in text_.splitlines() for it in LABEL.findall(line)}
    assert labels <= LABELS


def test_queries_are_promql(repository_root: Path) -> None:
    queries = [rule["expr"] for rule in rules_of(repository_root)]
    queries += board_queries(repository_root)
    for query in queries:
        filled = query.replace("$__rate_interval", "1m").replace("$__range", "1h")
        promql_parser.parse(filled)


def test_alerts_say_what_is_wrong_and_where_it_says_what_to_do(
    repository_root: Path,
) -> None:
    alerts = [rule for rule in rules_of(repository_root) if "alert" in rule]
    assert len({it["alert"] for it in alerts}) == len(alerts) > 15
    page = (repository_root / "docs/operations/playbooks.md").read_text("utf-8")
    headings = re.findall(r"^## (.+?)(?: \{#(.+)\})?$", page, re.M)
    sections = {own or slugify(heading, "-") for heading, own in headings}
    for alert in alerts:
        assert alert["labels"]["severity"] in {"warning", "critical"}
        assert alert["annotations"]["summary"]
        assert alert["annotations"]["playbook"] in sections
        assert set(alert) <= {"alert", "expr", "for", "labels", "annotations"}


def test_the_pieces_know_each_other(
    repository_root: Path, board: dict[str, Any]
) -> None:
    folder = repository_root / "docker"
    sources = read_yaml(folder / "grafana/provisioning/datasources/halfpast.yml")
    known = {(it["uid"], it["type"]) for it in sources["datasources"]}
    used = {
        (it["datasource"]["uid"], it["datasource"]["type"])
        for panel in panels_of(board)
        for it in (panel, *panel["targets"])
    }
    assert used == known
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    assert all(it["gridPos"]["x"] + it["gridPos"]["w"] <= 24 for it in board["panels"])
    providers = read_yaml(folder / "grafana/provisioning/dashboards/halfpast.yml")
    assert providers["providers"][0]["type"] == "file"
    own = json.loads((folder / "grafana/dashboards/halfpast.json").read_text("utf-8"))
    ids = [panel["id"] for panel in own["panels"]]
    assert len(ids) == len(set(ids)) > 40
    places = [panel["gridPos"] for panel in own["panels"]]
    cells = [
        (it["x"] + dx, it["y"] + dy)
        for it in places
        for dx in range(it["w"])
        for dy in range(it["h"])
    ]
    assert len(cells) == len(set(cells))  # nothing lies on something else
    assert all(it["x"] + it["w"] <= 24 for it in places)
    server = read_yaml(folder / "prometheus/prometheus.yml")
    assert all((folder / "prometheus" / it).is_file() for it in server["rule_files"])

"""The commands about transactions against a real server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from tests.integration.cli_process import Suite, halfpast, until
from typer.testing import CliRunner, Result

from halfpast_api.cli import app

NOBODY = "00000000-0000-7000-8000-000000000000"
MINUTES_LATER = ("--check-after", "10m")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite


@pytest.fixture
def group() -> str:
    return f"g{uuid4().hex}"


def run(suite: Suite, *words: str, stdin: str = "") -> Result:
    """One command, in this process."""
    return CliRunner().invoke(app, [*words, "--server", suite.address], input=stdin)


def answers(suite: Suite, *words: str, stdin: str = "") -> list[Any]:
    """The JSON objects that a command prints, one a line."""
    done = run(suite, *words, "--json", stdin=stdin)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def answer(suite: Suite, *words: str, stdin: str = "") -> Any:
    (found,) = answers(suite, *words, stdin=stdin)
    return found


def begun(suite: Suite, group: str, *options: str) -> str:
    """The id of a transaction with one message that nobody asks about for a while."""
    words = ("tx", "begin", group, "t", "1", *MINUTES_LATER, *options)
    found: str = answer(suite, *words)["id"]
    return found


def parked(suite: Suite, group: str, count: int) -> set[str]:
    """Ids of transactions that were checked back in vain."""
    settings = {"check_after_ms": 0, "check_interval_ms": 100, "check_max": 1}
    request = Request(
        f"{suite.address}/v1/producer-groups/{group}",
        data=json.dumps(settings).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    with urlopen(request) as reply:
        assert reply.status in (200, 201)
    ids = {answer(suite, "tx", "begin", group, "t", "1")["id"] for _ in range(count)}
    until(lambda: set(listed(suite, group, "parked")) == ids)
    return ids


def listed(suite: Suite, group: str, state: str) -> list[str]:
    words = ("tx", "list", "--group", group, "--state", state)
    return [view["id"] for view in answers(suite, *words)]


def test_a_commit_delivers_and_a_rollback_does_not(suite: Suite, group: str) -> None:
    topic = f"t{uuid4().hex}"
    words = ("tx", "begin", group, topic, *MINUTES_LATER)
    first = answer(suite, *words, '{"n": 1}', "--key", "k", "--property", "a=b")
    second = answer(suite, *words, '{"n": 2}')
    assert first["state"] == "prepared"
    assert [message["topic"] for message in first["messages"]] == [topic]
    assert answers(suite, "pop", "readers", topic) == []
    back = answer(suite, "tx", "rollback", second["id"])
    assert (back["state"], back["source"]) == ("rolled_back", "producer")
    done = answer(suite, "tx", "commit", first["id"])
    assert (done["state"], done["source"]) == ("committed", "producer")
    assert answer(suite, "tx", "commit", first["id"]) == done
    (message,) = answers(suite, "pop", "readers", topic, "--max", "10")
    assert message["id"] == first["messages"][0]["id"]
    assert (message["data"], message["key"]) == ({"n": 1}, "k")
    assert message["properties"] == {"a": "b"}


def test_bytes_and_delays_can_be_sent(suite: Suite, group: str) -> None:
    words = ("tx", "begin", group, "t", "-", "--as", "bytes", "--delay", "30m")
    transaction = answer(suite, *words, *MINUTES_LATER, stdin="abc")["id"]
    (message,) = answer(suite, "tx", "show", transaction)["messages"]
    assert message["delay_ms"] == 30 * 60 * 1000
    answer(suite, "tx", "commit", transaction)
    event = answer(suite, "get", message["id"])
    assert event["state"] == "scheduled"
    assert event["data_base64"] == "YWJj"


def test_a_repeated_begin_is_one_transaction(suite: Suite, group: str) -> None:
    key = ("--idempotency-key", uuid4().hex)
    assert begun(suite, group, *key) == begun(suite, group, *key)
    assert len(listed(suite, group, "prepared")) == 1


def test_what_is_in_doubt_is_listed(suite: Suite, group: str) -> None:
    assert run(suite, "tx", "list", "--group", group).stdout == "nothing in doubt\n"
    ids = [begun(suite, group, "--reference", f"order {n}") for n in range(3)]
    begun(suite, f"{group}x")
    assert listed(suite, group, "in_doubt") == ids
    table = run(suite, "tx", "list", "--group", group).stdout.splitlines()
    assert [line.split()[:2] for line in table[:1]] == [["begun", "state"]]
    for line, transaction, number in zip(table[1:], ids, range(3), strict=True):
        assert transaction in line
        assert line.rstrip().endswith(f"0 of 15  order {number}")
    cut = run(suite, "tx", "list", "--group", group, "--limit", "2")
    assert len(cut.stdout.splitlines()) == 3
    assert "the first 2" in cut.stderr
    answer(suite, "tx", "commit", ids[0])
    assert listed(suite, group, "committed") == ids[:1]
    ended = run(suite, "tx", "list", "--group", group, "--state", "committed").stdout
    assert ended.split()[:3] == ["begun", "decided", "state"]
    assert listed(suite, group, "in_doubt") == ids[1:]


def test_one_is_shown_with_its_time_line_and_messages(suite: Suite, group: str) -> None:
    transaction = begun(suite, group, "--reference", "order 7", "--tag", "paid")
    shown = run(suite, "tx", "show", transaction).stdout
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert lines["id"] == transaction
    assert lines["state"] == "prepared"
    assert lines["reference"] == "order 7"
    assert lines["checks"] == "0 of 15"
    assert "ago)" in lines["begun"]
    assert "(in 9 min" in lines["next"]
    assert lines["messages"] == "1"
    assert "paid" in lines["t"]
    assert "with the commit" in lines["t"]
    answer(suite, "tx", "rollback", transaction)
    shown = run(suite, "tx", "show", transaction).stdout
    assert "state      rolled back\n" in shown
    assert "by the producer" in shown
    whats = [
        line.split("Z  ")[1] for line in shown.splitlines() if line.startswith("  ")
    ]
    assert whats == ["begun", "rolled back"]


def test_a_parked_one_is_resumed_or_forced(suite: Suite, group: str) -> None:
    first, second = sorted(parked(suite, group, 2))
    refused = run(suite, "tx", "commit", first)
    assert refused.exit_code == 1
    assert "transaction_parked" in refused.stderr
    assert "halfpast tx resume ID" in refused.stderr
    view = answer(suite, "tx", "resume", first, "--reason", "mended", "--by", "me")
    assert view["state"] == "prepared"
    words = ("tx", "force", second, "committed", "--reason", "seen it", "--by", "me")
    assert answer(suite, *words, "--yes")["source"] == "operator"
    shown = answer(suite, "tx", "show", second)
    assert (shown["state"], shown["reason"], shown["by"]) == (
        "committed",
        "seen it",
        "me",
    )
    again = run(suite, "tx", "force", second, "rolled_back", "--reason", "x", "--yes")
    assert again.exit_code == 1
    assert "transaction_conflict" in again.stderr
    assert "halfpast tx show ID" in again.stderr


def test_forcing_asks_first(suite: Suite, group: str) -> None:
    transaction = begun(suite, group)
    words = ("tx", "force", transaction, "rolled_back", "--reason", "given up")
    for reply in ("n\n", "\n", ""):
        kept = run(suite, *words, stdin=reply)
        assert kept.exit_code == 1
        assert transaction in kept.stdout
        assert "cannot be taken back" in kept.stderr
        assert "not forced" in kept.stderr
    assert listed(suite, group, "in_doubt") == [transaction]
    done = run(suite, *words, stdin="y\n")
    assert done.exit_code == 0
    assert "rolled back" in done.stdout
    assert listed(suite, group, "rolled_back") == [transaction]


def test_all_parked_ones_of_a_group_are_resumed(suite: Suite, group: str) -> None:
    ids, other = parked(suite, group, 5), parked(suite, f"{group}x", 1)
    done = run(suite, "tx", "resume", "--all", "--group", group)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "resumed    5\n"
    for transaction in ids:
        whats = [
            entry["what"]
            for entry in answer(suite, "tx", "show", transaction)["timeline"]
        ]
        assert "resumed" in whats
    assert set(listed(suite, f"{group}x", "parked")) == other
    until(lambda: set(listed(suite, group, "parked")) == ids)
    assert answer(suite, "tx", "resume", "--all", "--group", group)["resumed"] == 5


@pytest.mark.parametrize(
    ("words", "code", "text", "hint"),
    [
        (("show", NOBODY), 1, "unknown_transaction", "halfpast tx list"),
        (("commit", "x"), 1, "invalid_transaction_id", None),
        (("commit", NOBODY), 1, "unknown_transaction", "halfpast tx list"),
        (("resume",), 2, "name one transaction", "--all --group GROUP"),
        (("resume", "--all"), 2, "name one transaction", "--all --group GROUP"),
        (("resume", NOBODY, "--all", "--group", "g"), 2, "name one", None),
        (("force", NOBODY, "committed"), 2, "--reason", None),
        (("force", NOBODY, "perhaps", "--reason", "x"), 2, "rolled_back", None),
        (("list", "--state", "odd"), 2, "in_doubt", None),
        (("begin", "g", "t", "1", "--delay", "soon"), 2, "not a span", None),
        (("begin", "g", "t", "1", "--property", "x"), 2, "NAME=VALUE", None),
        (
            ("list", "--server", "http://127.0.0.1:9"),
            69,
            "cannot reach",
            "halfpast dev",
        ),
    ],
)
def test_errors_name_what_to_do(
    suite: Suite, words: tuple[str, ...], code: int, text: str, hint: str | None
) -> None:
    done = CliRunner().invoke(
        app, ["tx", *words], env={"HALFPAST_URL": suite.address, "COLUMNS": "200"}
    )
    assert done.exit_code == code, done.stderr
    assert text in done.stderr
    if hint is not None:
        assert hint in done.stderr


def test_errors_as_json(suite: Suite) -> None:
    done = run(suite, "tx", "show", NOBODY, "--json")
    report = json.loads(done.stderr)
    assert (report["status"], report["code"]) == (404, "unknown_transaction")
    assert done.stdout == ""


def test_doctor_counts_what_is_in_doubt(tmp_path: Path) -> None:
    with Suite("dev", tmp_path, "--port", "0") as suite:
        begun(suite, "g")
        parked(suite, "h", 1)
        beside = halfpast("doctor", "--data", str(tmp_path))
        assert beside.returncode == 0, beside.stdout
    after = halfpast("doctor", "--data", str(tmp_path))
    assert after.returncode == 0
    assert "2 transactions without outcome" in after.stdout
    assert "1 transaction parked" in after.stdout

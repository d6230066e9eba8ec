"""The commands against a real server."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.integration.cli_process import PROGRAM, Suite, halfpast, until
from typer.testing import CliRunner

from halfpast_api.cli import app

NOBODY = "00000000-0000-7000-8000-0000000000ff"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite


@pytest.fixture
def topic() -> str:
    return f"t{uuid4().hex}"


def answer(suite: Suite, *words: str, stdin: bytes = b"") -> Any:
    """The one JSON object that a command prints. Runs it in this process."""
    words = (*words, "--json", "--server", suite.address)
    done = CliRunner().invoke(app, words, input=stdin)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_publish_now_and_later(suite: Suite, topic: str) -> None:
    now = answer(suite, "publish", topic, '{"a": 1}', "--tag", "paid")
    assert (now["state"], now["deliver_at"]) == ("stored", None)
    later = answer(
        suite, "publish", topic, "x", "--delay", "30m", "--property", "who=me"
    )
    assert later["state"] == "scheduled"
    assert 0 < later["due_in_ms"] <= 30 * 60 * 1000
    event = answer(suite, "get", later["id"])
    assert (event["data"], event["properties"]) == ("x", {"who": "me"})
    assert [entry["what"] for entry in event["timeline"]] == ["scheduled"]
    same = answer(
        suite, "publish", topic, "--at", "2036-01-01T00:00:00+01:00", "--key", "k"
    )
    assert same["deliver_at"] == "2035-12-31T23:00:00.000Z"


def test_data_from_standard_input(suite: Suite, topic: str) -> None:
    kinds = [("auto", b'{"a":1}', {"a": 1}), ("text", b"1", "1"), ("auto", b"hi", "hi")]
    for kind, stdin, data in kinds:
        published = answer(suite, "publish", topic, "-", "--as", kind, stdin=stdin)
        assert answer(suite, "get", published["id"])["data"] == data
    raw = answer(suite, "publish", topic, "-", "--as", "bytes", stdin=b"abc")
    assert answer(suite, "get", raw["id"])["data_base64"] == "YWJj"


def test_one_idempotency_key_publishes_once(suite: Suite, topic: str) -> None:
    words = ("publish", topic, "1", "--idempotency-key", uuid4().hex)
    first, again = answer(suite, *words), answer(suite, *words)
    assert (again["id"], again["replayed"]) == (first["id"], True)


def test_list_cancel_reschedule_deliver(suite: Suite, topic: str) -> None:
    ids = [
        answer(suite, "publish", topic, "--delay", delay)["id"]
        for delay in ("2h", "1h", "3h")
    ]
    listed = halfpast("list", "--topic", topic, server=suite.address)
    due = [line for line in listed.stdout.splitlines() if topic in line]
    assert [next(i for i in ids if i in line) for line in due] == [
        ids[1],
        ids[0],
        ids[2],
    ]
    assert answer(suite, "cancel", ids[0])["outcome"] == "cancelled"
    moved = answer(suite, "reschedule", ids[1], "--delay", "4h")
    assert moved["version"] == 2
    answer(suite, "deliver-now", ids[2])
    until(lambda: answer(suite, "get", ids[2])["state"] == "delivered")
    late = halfpast("cancel", ids[2], server=suite.address)
    assert late.returncode == 1
    assert "too late" in late.stderr
    assert f"halfpast get {ids[2]}" in late.stderr
    shown = halfpast("get", ids[2], server=suite.address)
    assert re.search(r"late by +\d", shown.stdout)
    assert "promoted" in shown.stdout
    dead = halfpast("list", "--state", "dead", server=suite.address)
    assert dead.stdout == "nothing dead\n"


def test_a_cancelled_one_that_is_not_there(suite: Suite) -> None:
    missing = halfpast("cancel", NOBODY, "--json", server=suite.address)
    assert missing.returncode == 1
    assert json.loads(missing.stdout)["outcome"] == "not_found"
    assert missing.stderr == ""


def test_pop_ack_nack(suite: Suite, topic: str) -> None:
    published = answer(suite, "publish", topic, '{"a": 1}')
    popped = answer(suite, "pop", "g", topic)
    assert (popped["id"], popped["attempt"]) == (published["id"], 1)
    answer(suite, "nack", "g", popped["receipt"], "--delay", "0s")
    again = answer(suite, "pop", "g", topic, "--wait", "5s")
    assert (again["id"], again["attempt"]) == (published["id"], 2)
    assert answer(suite, "ack", "g", again["receipt"])["ok"] is True
    gone = halfpast("ack", "g", again["receipt"], server=suite.address)
    assert (gone.returncode, gone.stdout.split()[0]) == (1, "receipt_expired")
    empty = halfpast("pop", "g", topic, server=suite.address)
    assert (empty.returncode, empty.stdout) == (0, "")


def test_tail_waits_for_the_topic_and_tells_the_lateness(
    suite: Suite, topic: str
) -> None:
    tail = subprocess.Popen(
        [*PROGRAM, "tail", topic, "-n", "2", "--server", suite.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tail.stderr is not None
    assert "waiting" in tail.stderr.readline()
    answer(suite, "publish", topic, '{"n": 1}', "--delay", "300ms")
    answer(suite, "publish", topic, '{"n": 2}')
    output, _ = tail.communicate(timeout=30)
    assert tail.returncode == 0
    lines = sorted(output.splitlines(), key=lambda line: line[-2])
    assert re.search(r'delivered +late by \d+ ms +\S+ +\{"n":1\}$', lines[0])
    assert re.search(r'delivered +at once +\S+ +\{"n":2\}$', lines[1])


def test_tail_begins_at_the_end_or_at_the_start(suite: Suite, topic: str) -> None:
    old = answer(suite, "publish", topic, "1")
    words = ("tail", topic, "-n", "1")
    assert answer(suite, *words, "--from-start")["id"] == old["id"]
    tail = subprocess.Popen(
        [*PROGRAM, *words, "--json", "--server", suite.address],
        stdout=subprocess.PIPE,
        text=True,
    )
    while tail.poll() is None:  # until it has begun, nothing that comes is shown
        answer(suite, "publish", topic, "2")
    output, _ = tail.communicate(timeout=30)
    assert json.loads(output)["data"] == 2


def test_tail_in_a_group_acknowledges_what_it_shows(suite: Suite, topic: str) -> None:
    ids = {answer(suite, "publish", topic, str(number))["id"] for number in range(3)}
    shown = halfpast(
        "tail", topic, "--group", "g", "-n", "2", "--json", server=suite.address
    )
    seen = {json.loads(line)["id"] for line in shown.stdout.splitlines()}
    assert len(seen) == 2
    rest = answer(suite, "pop", "g", topic, "--max", "10")
    assert seen | {rest["id"]} == ids


@pytest.mark.parametrize(
    ("words", "code", "text", "hint"),
    [
        (("get", NOBODY), 1, "unknown_event", "halfpast list"),
        (("publish", "a.b", "1"), 1, "invalid_topic", None),
        (("publish", "t", "1", "--delay", "soon"), 2, "not a span", None),
        (("publish", "t", "1", "--at", "2040-01-01T00:00"), 2, "time zone", None),
        (("publish", "t", "{", "--as", "json"), 2, "not JSON", None),
        (("publish", "t", "1", "--property", "x"), 2, "NAME=VALUE", None),
        (("list", "--state", "odd"), 2, "odd", None),
        (("reschedule", NOBODY), 2, "needs deliver_at or delay", None),
        (("get", "x", "--server", NOWHERE), 69, "cannot reach", "halfpast dev"),
        (("get", "x", "--server", "nowhere"), 2, "not the address", None),
        (("nonsense",), 2, "No such command", None),
        (("bench",), 2, "name one", "halfpast bench --list"),
    ],
)
def test_errors_name_what_to_do(
    suite: Suite, words: tuple[str, ...], code: int, text: str, hint: str | None
) -> None:
    done = CliRunner().invoke(app, words, env={"HALFPAST_URL": suite.address})
    assert done.exit_code == code, done.stderr
    assert text in done.stderr
    if hint is not None:
        assert hint in done.stderr


def test_errors_as_json(suite: Suite) -> None:
    done = halfpast("get", NOBODY, "--json", server=suite.address)
    report = json.loads(done.stderr)
    assert (report["status"], report["code"]) == (404, "unknown_event")
    assert "halfpast list" in report["hint"]
    assert done.stdout == ""


def test_help_and_version() -> None:
    assert "halfpast dev" in halfpast("--help").stdout
    assert halfpast("version").stdout.startswith("halfpast ")
    assert json.loads(halfpast("version", "--json").stdout)["version"]
    assert halfpast("--version").stdout == halfpast("version").stdout


def test_the_benchmarks_are_named() -> None:
    assert "publish-single" in halfpast("bench", "--list").stdout
    assert "publish-single" in json.loads(halfpast("bench", "--list", "--json").stdout)


def test_the_command_starts_without_heavy_modules() -> None:
    code = (
        "import sys, halfpast_api.cli\n"
        "heavy = {'aiohttp', 'rocksdict', 'sqlalchemy', 'msgspec', 'asyncio', 'uvloop'}"
        "\nprint(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [PROGRAM[0], "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in ("[]", "['asyncio']"), done.stdout


def test_many_events_are_changed_by_filter(suite: Suite, topic: str) -> None:
    for n in range(6):
        words = ("--delay", "2h", "--tag", "even" if n % 2 == 0 else "odd")
        answer(suite, "publish", topic, str(n), *words)
    counted = answer(suite, "cancel", "--topic", topic, "--dry-run")
    assert (counted["matched"], counted["changed"]) == (6, 0)
    cancelled = answer(
        suite, "cancel", "--topic", topic, "--tag", "even", "--all", "--no-wait"
    )
    until(lambda: operation_of(suite, cancelled)["state"] == "done")
    assert operation_of(suite, cancelled)["changed"] == 3
    moved = answer(suite, "reschedule", "--topic", topic, "--shift", "-30m", "--all")
    assert (moved["changed"], moved["shift_ms"]) == (3, -1_800_000)
    late = halfpast("operation", "cancel", moved["id"], "--server", suite.address)
    assert late.returncode == 1
    assert "ended already" in late.stderr
    shown = halfpast("operation", "list", "--server", suite.address).stdout
    assert moved["id"] in shown
    assert "reschedule" in shown
    shown = halfpast("operation", "show", moved["id"], "--server", suite.address).stdout
    assert re.search(r"changed\s+3", shown)
    listed = halfpast("list", "--topic", topic, "--data", "--server", suite.address)
    assert listed.stdout.count(topic) == 3


def operation_of(suite: Suite, begun: Any) -> Any:
    return answer(suite, "operation", "show", begun["id"])


def test_what_is_coming_is_shown_as_a_histogram(suite: Suite, topic: str) -> None:
    for delay in ("10m", "10m", "20m"):
        answer(suite, "publish", topic, "1", "--delay", delay)
    found = answer(suite, "due", topic)
    assert (found["pending"], found["count"], found["exact"]) == (3, 3, True)
    shown = halfpast("due", topic, "--server", suite.address).stdout
    assert f"3 pending in topic {topic}" in shown
    assert "3 due from" in shown
    assert sum(line.count("█") > 0 or "#" in line for line in shown.splitlines()) >= 2
    everything = halfpast("due", "--resolution", "1d", "--server", suite.address)
    assert "in all topics" in everything.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("cancel",),
        ("cancel", "--topic", "t"),
        ("cancel", NOBODY, "--all"),
        ("cancel", NOBODY, "--topic", "t"),
        ("reschedule", NOBODY, "--shift", "1h"),
        ("reschedule", "--topic", "t", "--all"),
        ("reschedule", "--topic", "t", "--all", "--shift", "soon"),
        ("reschedule", "--topic", "t", "--all", "--delay", "1h", "--at", "x"),
        ("cancel", "--due-after", "soon", "--dry-run"),
    ],
)
def test_what_cannot_be_meant_is_refused(suite: Suite, words: tuple[str, ...]) -> None:
    done = halfpast(*words, "--server", suite.address)
    assert done.returncode == 2, done.stderr
    assert done.stderr


def test_everything_is_changed_only_if_somebody_says_yes(suite: Suite) -> None:
    done = CliRunner().invoke(
        app, ("cancel", "--all", "--server", suite.address), input="n\n"
    )
    assert done.exit_code == 1
    assert "nobody said yes" in done.stderr


def test_an_ordered_group_and_what_it_holds_back(suite: Suite, topic: str) -> None:
    group = f"g{uuid4().hex}"
    changed = answer(suite, "group", "set", group, "--ordered", "--max-attempts", "5")
    assert (changed["ordered"], changed["max_attempts"]) == (True, 5)
    for data in ("first", "second"):
        answer(suite, "publish", topic, data, "--key", "k")
    popped = answer(suite, "pop", group, topic, "--max", "10")
    assert popped["data"] == "first"
    lag = answer(suite, "group", "lag", group, topic)
    assert (lag["lag"], lag["in_flight"], lag["held_back"]) == (2, 2, 1)
    shown = halfpast("group", "lag", group, topic, server=suite.address).stdout
    assert "held back  1\n" in shown
    answer(suite, "ack", group, popped["receipt"])
    assert answer(suite, "pop", group, topic)["data"] == "second"
    changed = answer(suite, "group", "set", group, "--backoff", "2s", "--unordered")
    assert (changed["ordered"], changed["max_attempts"]) == (False, 5)
    assert changed["backoff_initial_ms"] == 2000
    shown = halfpast("group", "show", group, server=suite.address).stdout
    assert "ordered    no\n" in shown
    assert "pauses     2s to 300s\n" in shown


def test_a_group_is_not_changed_by_nothing(suite: Suite) -> None:
    done = halfpast("group", "set", "some", server=suite.address)
    assert done.returncode == 2
    assert "halfpast group set some --ordered" in done.stderr
    done = halfpast("group", "show", "never-seen", server=suite.address)
    assert done.returncode != 0


def test_a_pop_by_an_expression(suite: Suite, topic: str) -> None:
    for region in ("eu", "us"):
        answer(suite, "publish", topic, region, "--property", f"region={region}")
    words = ("--filter", "region = 'us'", "--filter-type", "sql92", "--max", "9")
    assert answer(suite, "pop", "g", topic, *words)["data"] == "us"
    wrong = ("--filter", "region == 'us'", "--filter-type", "sql92")
    done = halfpast("pop", "g", topic, *wrong, server=suite.address)
    assert done.returncode != 0
    assert "at character 9" in done.stderr

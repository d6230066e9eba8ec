"""import and export against a real server, and killed ones."""

import json
import os
import signal
import subprocess
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.integration.cli_process import PROGRAM, Suite, halfpast, until
from typer.testing import CliRunner, Result

import halfpast as sdk
from halfpast_api.cli import app
from halfpast_api.transfer.chunk import LINES_MAX
from halfpast_api.transfer.parquet import load_arrow

SUFFIX = ".halfpast-progress"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with Suite("dev", tmp_path_factory.mktemp("data"), "--port", "0") as suite:
        yield suite


@pytest.fixture
def topic() -> str:
    return f"t{uuid4().hex}"


def run(suite: Suite, *words: str) -> Result:
    """In this process."""
    return CliRunner().invoke(app, [*words, "--server", suite.address])


def imported(suite: Suite, *words: str, code: int = 0) -> Any:
    """The totals that an import prints."""
    done = run(suite, "import", *words, "--json")
    assert done.exit_code == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def write(path: Path, *events: object) -> Path:
    lines = (it if isinstance(it, str) else json.dumps(it) for it in events)
    path.write_text("".join(line + "\n" for line in lines))
    return path


def numbers(suite: Suite, topic: str) -> Counter[int]:
    """How often each number was delivered to a topic."""
    found: Counter[int] = Counter()
    with sdk.SyncClient(suite.address) as client:
        for queue in client.topic(topic).queues:
            offset = queue.min_offset
            while offset < queue.max_offset:
                page = client.pull(topic, queue.queue, offset, max_messages=1000)
                found.update(message.data["n"] for message in page.messages)
                offset = page.next_offset
    return found


def delivered(suite: Suite, topic: str) -> int:
    """How many messages a topic holds, which may not exist yet."""
    with sdk.SyncClient(suite.address) as client:
        try:
            queues = client.topic(topic).queues
        except sdk.NotFound:
            return 0
    return sum(queue.max_offset - queue.min_offset for queue in queues)


def exported(suite: Suite, path: Path, *words: str) -> list[Any]:
    done = run(suite, "export", "-o", str(path), *words)
    assert done.exit_code == 0, done.stderr
    assert not path.with_name(path.name + ".part").exists()
    if path.suffix == ".parquet":
        rows: list[Any] = load_arrow().parquet.read_table(path).to_pylist()
        return rows
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_killed_import_goes_on_and_adds_nothing_twice(
    suite: Suite, topic: str, tmp_path: Path
) -> None:
    count = 60 * LINES_MAX
    events = ({"topic": topic, "data": {"n": n}} for n in range(count))
    path = write(tmp_path / "many.ndjson", *events)
    progress = path.with_name(path.name + SUFFIX)
    words = [*PROGRAM, "import", str(path), "--server", suite.address]

    def line() -> int:
        if not progress.exists():
            return 0
        found: int = json.loads(progress.read_bytes())["position"]["line"]
        return found

    lines = [0]
    for _ in range(2):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
            until(lambda: line() > lines[-1])
            # It stands still with requests under way: stored or not, it cannot know.
            os.kill(suite.pid, signal.SIGSTOP)
            try:
                process.kill()
                assert process.wait(10) == -signal.SIGKILL
            finally:
                os.kill(suite.pid, signal.SIGCONT)
        lines.append(line())
    assert 0 < lines[1] < lines[2] < count

    totals = imported(suite, str(path))
    assert totals["complete"]
    assert (totals["line"], totals["stored"]) == (count, count)
    found = numbers(suite, topic)
    assert len(found) == count
    assert set(found.values()) == {1}

    assert imported(suite, str(path)) == totals  # there is nothing left to do
    progress.unlink()
    again = imported(suite, str(path))  # the server recognises what it has
    assert (again["stored"], again["recognised"]) == (count, count)
    assert numbers(suite, topic) == found


def test_a_server_that_is_killed_meanwhile_is_waited_for(tmp_path: Path) -> None:
    count = 60 * LINES_MAX
    path = write(
        tmp_path / "f", *({"topic": "t", "data": {"n": n}} for n in range(count))
    )
    progress = path.with_name(path.name + SUFFIX)
    first = Suite("dev", tmp_path / "d", "--port", "0").wait_ready()
    port = first.address.rpartition(":")[2]
    words = [*PROGRAM, "import", str(path), "--server", first.address]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        until(
            lambda: (
                progress.exists()
                and json.loads(progress.read_bytes())["position"]["line"] > 0
            )
        )
        first.stop(signal.SIGKILL)
        assert process.poll() is None
        with Suite("dev", tmp_path / "d", "--port", port) as second:
            assert process.wait(60) == 0
            found = numbers(second, "t")
    assert len(found) == count
    assert set(found.values()) == {1}


@pytest.mark.parametrize("suffix", [".ndjson", ".parquet"])
def test_what_is_exported_comes_back(
    suite: Suite, topic: str, tmp_path: Path, suffix: str
) -> None:
    raw = b64encode(bytes(range(256))).decode()
    events = [
        {"data": {"a": [1.5, None]}, "deliver_at": "2035-01-01T00:00:00.001Z"},
        {"data_base64": raw, "deliver_at": "2035-01-01T00:00:00.002Z", "key": "k"},
        {"data": None, "deliver_at": "2035-01-01T00:00:00.003Z", "tag": "g"},
        {
            "data": "ü",
            "deliver_at": "2035-01-01T01:00:00.9991+01:00",
            "properties": {"a": "1", "ü": "2"},
        },
    ]
    source = write(tmp_path / "source.ndjson", *events)
    assert imported(suite, str(source), "--topic", topic)["scheduled"] == 4
    first = exported(suite, tmp_path / f"out{suffix}", "--topic", topic)
    assert len(first) == 4
    again = f"{topic}-again"
    if suffix == ".ndjson":
        dues = [it["deliver_at"].rpartition(":")[2] for it in first]
        assert dues == ["00.001Z", "00.002Z", "00.003Z", "01.000Z"]
        text = (tmp_path / "out.ndjson").read_text().replace(topic, again)
        (tmp_path / "out.ndjson").write_text(text)
    else:
        table = load_arrow().parquet.read_table(tmp_path / "out.parquet")
        names = load_arrow().array([again] * 4)
        table = table.set_column(table.schema.get_field_index("topic"), "topic", names)
        load_arrow().parquet.write_table(table, tmp_path / "out.parquet")
    assert imported(suite, str(tmp_path / f"out{suffix}"))["scheduled"] == 4
    second = exported(suite, tmp_path / f"back{suffix}", "--topic", again)
    assert [{**it, "topic": topic} for it in second] == first


def test_export_by_filter(suite: Suite, topic: str, tmp_path: Path) -> None:
    events = [
        {
            "topic": topic,
            "data": n,
            "key": f"k{n % 2}",
            "tag": f"g{n % 3}",
            "deliver_at": f"2035-01-01T00:00:0{n}Z",
        }
        for n in range(6)
    ]
    imported(suite, str(write(tmp_path / "f.ndjson", *events)))
    chosen = {
        ("--key", "k1"): [1, 3, 5],
        ("--tag", "g0"): [0, 3],
        ("--due-after", "2035-01-01T00:00:04Z"): [4, 5],
        ("--due-before", "2035-01-01T01:00:02+01:00"): [0, 1],
    }
    for index, (words, data) in enumerate(chosen.items()):
        path = tmp_path / f"{index}.ndjson"
        found = exported(suite, path, "--topic", topic, *words)
        assert sorted(it["data"] for it in found) == data
    path = tmp_path / "ids.ndjson"
    ids = {it["id"] for it in exported(suite, path, "--topic", topic, "--with-ids")}
    assert len(ids) == 6
    piped = halfpast("export", "--topic", topic, server=suite.address)
    assert len(piped.stdout.splitlines()) == 6
    refused = run(suite, "export", "-o", str(path))
    assert (refused.exit_code, "exists already" in refused.stderr) == (2, True)
    assert exported(suite, path, "--topic", f"{topic}", "--overwrite", "--key", "k0")


def test_an_export_beside_firing_has_nothing_twice(
    suite: Suite, topic: str, tmp_path: Path
) -> None:
    soon = [{"topic": topic, "data": {"n": n}, "delay_ms": n // 4} for n in range(4000)]
    late = [{"topic": topic, "data": {"n": -n}, "delay": "P1D"} for n in range(1, 4000)]
    imported(suite, str(write(tmp_path / "f.ndjson", *soon, *late)))
    found = Counter(
        it["data"]["n"]
        for it in exported(suite, tmp_path / "out.ndjson", "--topic", topic)
    )
    assert set(found.values()) == {1}
    assert {n for n in found if n < 0} == {-n for n in range(1, 4000)}


def test_bad_events_stop_an_import_unless_they_are_skipped(
    suite: Suite, topic: str, tmp_path: Path
) -> None:
    good = [{"topic": topic, "data": {"n": n}} for n in range(10 * LINES_MAX)]
    too_late = {"topic": topic, "data": 1, "delay": "P20000D"}  # the server's limit
    path = write(
        tmp_path / "f.ndjson", good[0], "?", too_late, *good[1:], {"topic": topic}
    )
    bad_path = path.with_name(path.name + ".refused.ndjson")
    stopped = run(suite, "import", str(path))
    assert stopped.exit_code == 1
    assert "line 2: the body is not JSON" in stopped.stderr
    assert "line 3: this is 20000 days ahead" in stopped.stderr
    assert "run this again" in stopped.stderr
    progress = json.loads(path.with_name(path.name + SUFFIX).read_bytes())
    assert LINES_MAX <= progress["position"]["line"] < len(good)
    assert not progress["is_complete"]

    totals = imported(suite, str(path), "--skip-bad")
    assert (totals["stored"], totals["refused"]) == (len(good), 3)
    assert set(numbers(suite, topic).values()) == {1}
    bad = [json.loads(line) for line in bad_path.read_bytes().splitlines()]
    assert [it["refused"]["line"] for it in bad] == [2, 3, len(good) + 3]
    assert [it["refused"]["code"] for it in bad] == [
        "malformed_json",
        "delay_too_long",
        "missing_field",
    ]

    mended = [{**it, "topic": topic, "data": {"n": -1}, "delay": "P1D"} for it in bad]
    write(bad_path, *mended)
    assert imported(suite, str(bad_path))["scheduled"] == 3


def test_a_dry_run_sends_nothing(topic: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f", {"topic": topic, "data": 1}, {"topic": topic})
    done = halfpast("import", str(path), "--dry-run", server="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (
        1,
        "1 event could be sent; nothing was\n",
    )
    assert "line 2: an event needs data" in done.stderr
    assert [it.name for it in tmp_path.iterdir()] == ["f"]


def test_standard_input(
    suite: Suite, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stdin = b"".join(b'{"data":{"n":%d}}\n' % n for n in range(2500))
    words = ("import", "-", "--topic", topic)
    done = halfpast(*words, stdin=stdin, server=suite.address)
    assert (done.returncode, done.stderr) == (0, "")
    assert numbers(suite, topic) == Counter(range(2500))
    bad = halfpast(*words, stdin=b"?\n", server=suite.address)
    assert bad.returncode == 1
    assert (tmp_path / "stdin.refused.ndjson").exists()


def test_a_pipe_that_is_silent_can_be_interrupted(
    suite: Suite, topic: str, tmp_path: Path
) -> None:
    words = [*PROGRAM, "import", "-", "--topic", topic, "--server", suite.address]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(b'{"data":1}\n' * (LINES_MAX + 1))
        process.stdin.flush()
        until(lambda: delivered(suite, topic) == LINES_MAX)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stdout is not None
        assert b"imported 1,000 events" in process.stdout.read()


def test_nobody_there(tmp_path: Path) -> None:
    path = write(tmp_path / "f", {"topic": "t", "data": 1})
    done = halfpast("import", str(path), server="http://127.0.0.1:9")
    assert done.returncode == 69
    assert "halfpast dev" in done.stderr
    missing = halfpast("import", str(tmp_path / "none"), server="http://127.0.0.1:9")
    assert missing.returncode == 2
    assert "No such file" in missing.stderr

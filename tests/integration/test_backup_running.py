"""backup and restore with real processes: under writes, killed amid, damaged."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli_process import PROGRAM, SMALL, Suite, until
from typer.testing import CliRunner, Result

import halfpast as sdk
from halfpast_api.cli import app

HASTY = sdk.RetryPolicy(total_s=30.0, attempt_s=5.0, backoff_max_s=0.1)
TINY = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(1024 * 1024),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(512 * 1024),
    "HALFPAST_STORE_LOG_RESERVE_SIZE": str(64 * 1024),
    "HALFPAST_STORE_INDEX_FLUSH_MS": "100",
}
PAYLOAD = "x" * 50_000
HOUR = timedelta(hours=1)
FIRST_SEGMENT = f"log/{0:020d}.seg"


class Publisher:
    """Publishes all the time; `acknowledged` grows."""

    def __init__(self, client: sdk.SyncClient) -> None:
        self.acknowledged: list[str] = []
        self._client = client
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Generator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._ends.is_set():
            event = self._client.publish("steady", {"payload": PAYLOAD})
            self.acknowledged.append(event.id)


def ran(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def client_of(suite: Suite) -> sdk.SyncClient:
    return sdk.SyncClient(suite.address, retry=HASTY)


def backed_up(data: Path, target: Path, *options: str) -> dict[str, Any]:
    done = ran("backup", "--data", str(data), "--to", str(target), "--json", *options)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def restored(target: Path, data: Path, *options: str) -> dict[str, Any]:
    done = ran(
        "restore", "--from", str(target), "--data", str(data), "--json", *options
    )
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def listed(target: Path) -> list[dict[str, Any]]:
    done = ran("backup", "list", str(target), "--json")
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def pool_file(target: Path, backup: str, path: str) -> Path:
    """Where the bytes of a file of a backup lie."""
    manifest = json.loads((target / "backups" / f"{backup}.json").read_bytes())
    files: list[dict[str, str]] = manifest["content"]["files"]
    (sha256,) = {file["sha256"] for file in files if file["path"] == path}
    return target / "files" / sha256[:2] / sha256


def delivered(client: sdk.SyncClient, topic: str) -> list[str]:
    """The ids of all messages of a topic, as often as they lie there."""
    found: list[str] = []
    for queue in client.topic(topic).queues:
        offset = queue.min_offset
        while offset < queue.max_offset:
            pulled = client.pull(topic, queue.queue, offset, max_messages=100)
            found += [message.id for message in pulled.messages]
            offset = pulled.next_offset
    return found


def test_a_backup_under_writes_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    data, target = tmp_path / "d", tmp_path / "b"
    suite = Suite("up", data, "--port", "0", **TINY).wait_ready()
    with client_of(suite) as client:
        # Some fire before the backup, some amid it, some only after the restore.
        due = [
            client.publish("due", n, delay=timedelta(milliseconds=150 * n)).id
            for n in range(40)
        ]
        transaction = client.publish("settled", 1).id
        publisher = Publisher(client)
        with publisher.running():
            until(lambda: len(publisher.acknowledged) >= 30)
            first = backed_up(data, target)
            known = list(publisher.acknowledged)
            second = backed_up(data, target)
    assert suite.stop(signal.SIGKILL) == -signal.SIGKILL

    closed = pool_file(target, first["backup"], FIRST_SEGMENT)
    assert closed == pool_file(target, second["backup"], FIRST_SEGMENT)
    assert closed.stat().st_size == 1024 * 1024
    assert second["log_end"] > first["log_end"] > 30 * len(PAYLOAD)
    assert second["copied"] < second["size"] - first["log_end"] // (1 << 20) * (1 << 20)
    assert [one["backup"] for one in listed(target)] == [
        first["backup"],
        second["backup"],
    ]

    assert restored(target, tmp_path / "r")["backup"] == second["backup"]
    again = Suite("dev", tmp_path / "r", "--port", "0", **TINY)
    with again, client_of(again) as client:
        assert client.get(transaction).data == 1
        until(lambda: len(delivered(client, "due")) >= len(due))
        assert sorted(delivered(client, "due")) == sorted(due)
        assert set(known) <= set(delivered(client, "steady"))
        assert client.get(known[-1]).data == {"payload": PAYLOAD}


def test_what_the_log_no_longer_has_is_restored(tmp_path: Path) -> None:
    data, target = tmp_path / "d", tmp_path / "b"
    options = {**TINY, "HALFPAST_STORE_LOG_RETENTION_SIZE": "1"}
    suite = Suite("dev", data, "--port", "0", **options)
    with suite, client_of(suite) as client:
        waits = client.publish("later", {"n": 1}, delay=HOUR, key="k").id
        publisher = Publisher(client)
        with publisher.running():
            until(lambda: not (data / FIRST_SEGMENT).exists())
            done = backed_up(data, target)
    assert done["log_start"] > 0
    restored(target, tmp_path / "r")
    again = Suite("dev", tmp_path / "r", "--port", "0", **options)
    with again, client_of(again) as client:
        event = client.get(waits)
        assert event.state is sdk.EventState.SCHEDULED
        assert (event.data, event.key) == ({"n": 1}, "k")
        client.deliver_now(waits)
        until(lambda: delivered(client, "later") == [waits])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that nobody uses, with some closed segments."""
    folder = tmp_path_factory.mktemp("stopped") / "d"
    with (
        Suite("dev", folder, "--port", "0", **TINY) as suite,
        client_of(suite) as client,
    ):
        for _ in range(30):
            client.publish("steady", {"payload": PAYLOAD})
        client.publish("later", 1, delay=HOUR)
    return folder


@pytest.fixture
def data(stopped: Path, tmp_path: Path) -> Path:
    shutil.copytree(stopped, tmp_path / "d", ignore=shutil.ignore_patterns("*.sock"))
    return tmp_path / "d"


def test_a_killed_backup_is_none_and_the_next_one_is_whole(
    data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "b"
    first = backed_up(data, target)
    with closing(sqlite3.connect(data / "metadata.sqlite")) as settings:
        # The settings are copied last: a backup that has to wait for them is amid.
        settings.execute("PRAGMA journal_mode = DELETE")
        settings.execute("BEGIN EXCLUSIVE")
        amid = subprocess.Popen(
            [*PROGRAM, "backup", "--full", "--data", str(data), "--to", str(target)],
            env={**os.environ, **SMALL},
        )
        until((target / "incoming" / "metadata.sqlite").exists)
        amid.kill()
        assert amid.wait(20) == -signal.SIGKILL
    assert [(one["backup"], one["damaged"]) for one in listed(target)] == [
        (first["backup"], [])
    ]
    assert restored(target, tmp_path / "r")["backup"] == first["backup"]
    second = backed_up(data, target)
    assert second["log_end"] == first["log_end"]
    assert list((target / "incoming").iterdir()) == []
    assert ran("backup", "verify", str(target)).exit_code == 0
    restored(target, tmp_path / "r2", "--backup", second["backup"])
    assert (tmp_path / "r" / FIRST_SEGMENT).read_bytes() == (
        data / FIRST_SEGMENT
    ).read_bytes()


@pytest.mark.parametrize("path", [FIRST_SEGMENT, "halfpast.json"])
def test_a_damaged_file_is_named_and_nothing_is_restored(
    data: Path, tmp_path: Path, path: str
) -> None:
    target = tmp_path / "b"
    done = backed_up(data, target)
    damaged = pool_file(target, done["backup"], path)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)

    refused = ran("restore", "--from", str(target), "--data", str(tmp_path / "r"))
    assert refused.exit_code == 1
    assert path in refused.stderr
    assert not (tmp_path / "r").exists()
    checked = ran("backup", "verify", str(target), "--json")
    assert checked.exit_code == 1
    assert json.loads(checked.stdout)["damaged"] == [path]

    backed_up(data, target, "--full")  # mends what is still there to be copied
    assert ran("backup", "verify", str(target)).exit_code == 0
    restored(target, tmp_path / "r")
    health = ran("doctor", "--data", str(tmp_path / "r"), "--json")
    assert health.exit_code == 0, health.stdout


def test_a_missing_file_is_told_before_anything_is_written(
    data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "b"
    done = backed_up(data, target)
    pool_file(target, done["backup"], "metadata.sqlite").unlink()
    assert listed(target)[0]["damaged"] == ["metadata.sqlite"]
    (tmp_path / "r").mkdir()
    refused = ran(
        "restore", "--from", str(target), "--data", str(tmp_path / "r"), "--json"
    )
    assert refused.exit_code == 1
    assert json.loads(refused.stderr)["damaged"] == ["metadata.sqlite"]
    assert list((tmp_path / "r").iterdir()) == []


def test_a_restore_that_was_cut_short_is_begun_anew(data: Path, tmp_path: Path) -> None:
    target, place = tmp_path / "b", tmp_path / "r"
    backed_up(data, target)
    (place / "log").mkdir(parents=True)
    (place / FIRST_SEGMENT).write_bytes(b"half")
    refused = ran("restore", "--from", str(target), "--data", str(place))
    assert refused.exit_code == 1
    assert "not empty" in refused.stderr
    assert (place / FIRST_SEGMENT).read_bytes() == b"half"
    (place / "restore.unfinished").touch()
    restored(target, place)
    assert (place / FIRST_SEGMENT).stat().st_size == 1024 * 1024
    assert not (place / "restore.unfinished").exists()


def test_what_cannot_be_backed_up_says_why(data: Path, tmp_path: Path) -> None:
    backed_up(data, tmp_path / "b")
    other = tmp_path / "other"
    other.mkdir()
    (other / "halfpast.json").write_text(
        '{"format_version": 1, "store_id": "0123456789abcdef", "salt": 7}'
    )
    for words, what in [
        (("--data", str(other), "--to", str(tmp_path / "b")), "of the store"),
        (("--data", str(data), "--to", str(data / "b")), "lie in each other"),
        (("--data", str(tmp_path), "--to", str(tmp_path / "c")), "no data folder"),
        (("--data", str(data)), "--to FOLDER"),
    ]:
        refused = ran("backup", *words)
        assert refused.exit_code in {1, 2}
        assert what in refused.stderr
        assert "try:" in refused.stderr
    assert len(listed(tmp_path / "b")) == 1
    assert ran("restore", "--from", str(data)).exit_code == 1


def test_settings_in_another_database_are_said_to_be_missing(
    data: Path, tmp_path: Path
) -> None:
    words = ("backup", "--data", str(data), "--to", str(tmp_path / "b"))
    done = ran(*words, "--metadata", "postgresql://db.invalid/halfpast")
    assert done.exit_code == 0, done.stderr
    assert "pg_dump" in done.stdout
    assert listed(tmp_path / "b")[0]["metadata"] == "elsewhere"


def test_only_the_newest_are_kept(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "b"
    names = [backed_up(data, target)["backup"] for _ in range(3)]
    last = backed_up(data, target, "--keep", "2")["backup"]
    assert [one["backup"] for one in listed(target)] == [names[-1], last]
    assert ran("backup", "verify", str(target)).exit_code == 0


def test_damage_in_the_data_folder_is_passed_on_with_a_word(
    data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "b"
    with (data / FIRST_SEGMENT).open("r+b") as segment:
        segment.seek(500_000)
        segment.write(b"?")
    words = ("backup", "--data", str(data), "--to", str(target))
    copied: list[int] = []
    for _ in range(2):
        done = ran(*words, "--json")
        assert done.exit_code == 1
        assert json.loads(done.stdout)["damaged_originals"] == [FIRST_SEGMENT]
        assert FIRST_SEGMENT in done.stderr
        assert "doctor" in json.loads(done.stderr)["hint"]
        copied.append(json.loads(done.stdout)["copied"])
    assert copied[0] - copied[1] >= 1024 * 1024  # not copied again, told all the same
    assert [one["damaged"] for one in listed(target)] == [[], []]
    assert "originals were damaged" in ran("backup", "list", str(target)).stdout
    restored(target, tmp_path / "r")
    assert (tmp_path / "r" / FIRST_SEGMENT).read_bytes()[500_000:500_001] == b"?"

"""dev and up as processes: starting, stopping, dying, being started again."""

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.integration.cli_process import (
    PROGRAM,
    SMALL,
    Suite,
    children_of,
    halfpast,
    is_alive,
    until,
)
from typer.testing import CliRunner

import halfpast as sdk
from halfpast_api.cli import app

HASTY = sdk.RetryPolicy(total_s=30.0, attempt_s=5.0, backoff_max_s=0.1)
SERVICES = {"broker", "chronos", "txn", "push", "api"}


def publish(suite: Suite, data: object) -> str:
    with sdk.SyncClient(suite.address, retry=HASTY) as client:
        return client.publish("t", data).id


def stored(suite: Suite, event_id: str) -> object:
    with sdk.SyncClient(suite.address, retry=HASTY) as client:
        return client.get(event_id).data


def fetched(request: urllib.request.Request | str) -> tuple[int, bytes]:
    """Status and body, also of a refusal."""
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def readiness(suite: Suite) -> dict[str, object]:
    found: dict[str, object] = json.loads(fetched(f"{suite.address}/readyz")[1])
    return found


def until_gone(pid: int) -> None:
    until(lambda: not is_alive(pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_dev_keeps_its_data_and_ends_gracefully(
    tmp_path: Path, number: signal.Signals
) -> None:
    first = Suite("dev", tmp_path / "d", "--port", "0").wait_ready()
    assert first.ready["data"] == str(tmp_path / "d")
    event_id = publish(first, {"n": 1})
    assert first.stop(number) == 0
    assert first.lines == []
    with Suite("dev", tmp_path / "d", "--port", "0") as second:
        assert stored(second, event_id) == {"n": 1}


def test_dev_survives_sigkill(tmp_path: Path) -> None:
    first = Suite("dev", tmp_path, "--port", "0").wait_ready()
    event_id = publish(first, {"n": 1})
    assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    with Suite("dev", tmp_path, "--port", "0") as second:
        assert stored(second, event_id) == {"n": 1}


@pytest.mark.parametrize("command", ["dev", "up"])
def test_a_port_in_use_is_explained(tmp_path: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = halfpast(command, "--data", str(tmp_path), "--port", port)
    assert done.returncode == 1
    assert done.stderr.count("in use") == 1
    assert "--port" in done.stderr
    assert done.stdout == ""


def test_a_newcomer_sees_what_to_try(tmp_path: Path) -> None:
    dev = subprocess.Popen(
        [*PROGRAM, "dev", "--data", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **SMALL},
    )
    assert dev.stdout is not None
    shown = [dev.stdout.readline() for _ in range(6)]
    dev.terminate()
    dev.communicate(timeout=30)
    assert dev.returncode == 0
    assert f"data {tmp_path} (kept)" in shown[0]
    assert "no authentication" in shown[1]
    assert shown[4].startswith("  curl http://127.0.0.1:")
    assert shown[5].startswith("  halfpast tail hello --server http://127.0.0.1:")


def test_tail_waits_out_a_killed_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    first = Suite("dev", tmp_path, "--port", port).wait_ready()
    publish(first, "first")
    tail = subprocess.Popen(
        [*PROGRAM, "tail", "t", "-n", "2", "--from-start", "--server", first.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tail.stdout is not None
    assert "first" in tail.stdout.readline()
    first.stop(signal.SIGKILL)
    assert tail.stderr is not None
    assert "waiting" in tail.stderr.readline()
    with Suite("dev", tmp_path, "--port", port) as second:
        publish(second, "second")
        output, _ = tail.communicate(timeout=30)
    assert tail.returncode == 0
    assert "second" in output


@pytest.mark.parametrize("command", ["dev", "up"])
def test_a_folder_cannot_be_used_twice(tmp_path: Path, command: str) -> None:
    with Suite("dev", tmp_path, "--port", "0") as first:
        second = halfpast(command, "--data", str(tmp_path), "--port", "0")
        assert second.returncode == os.EX_CONFIG
        assert second.stderr.count(f"in use by process {first.pid}") == 1
        assert second.stdout == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
@pytest.mark.parametrize("command", ["dev", "up", "api"])
def test_strangers_are_not_let_in(tmp_path: Path, host: str, command: str) -> None:
    words = [command, "--host", host, "--data", str(tmp_path / "d")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--unsafe-open" in done.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("command", ["dev", "up"])
@pytest.mark.parametrize("name", ["CHRONOS_FIRE_COUNT", "TXN_LOAD_COUNT"])
def test_a_bad_setting_is_named(tmp_path: Path, command: str, name: str) -> None:
    name = f"HALFPAST_{name}"
    suite = Suite(command, tmp_path / "d", **{name: "many"})
    assert suite.wait() == 2
    assert f"{name}='many'" in suite.lines[0]
    assert len(suite.lines) == 1
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("command", ["dev", "up", "txn", "api"])
def test_a_wrong_allow_list_is_refused_first(tmp_path: Path, command: str) -> None:
    words = [command, "--data", str(tmp_path / "d"), "--check-allow", "10.0.0.0/99"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--check-allow '10.0.0.0/99' cannot be used" in done.stderr
    assert "'10.0.0.0/99' is not an IP address or network" in done.stderr
    assert not (tmp_path / "d").exists()


def test_only_dev_checks_back_on_this_machine_unasked() -> None:
    helps = {
        command: halfpast(command, "--help").stdout
        for command in ("dev", "up", "txn", "api")
    }
    assert all("--check-allow" in text for text in helps.values())
    assert [name for name, text in helps.items() if "127.0.0.0/8" in text] == ["dev"]


@pytest.mark.parametrize(
    ("command", "options", "status"),
    [("dev", (), 201), ("up", (), 422), ("up", ("--check-allow", "localhost"), 201)],
)
def test_where_check_backs_may_go(
    tmp_path: Path, command: str, options: tuple[str, ...], status: int
) -> None:
    with Suite(command, tmp_path, "--port", "0", *options) as suite:
        put = urllib.request.Request(
            f"{suite.address}/v1/producer-groups/orders",
            data=b'{"check_url": "http://localhost:9/checks"}',
            headers={"Content-Type": "application/json"},
            method="PUT",
        )
        found, content = fetched(put)
    assert found == status
    assert (b"forbidden_endpoint" in content) == (status == 422)


def test_up_starts_its_services_and_stops_them(tmp_path: Path) -> None:
    suite = Suite("up", tmp_path, "--port", "0").wait_ready()
    assert children_of(suite.pid).keys() == SERVICES
    event_id = publish(suite, {"n": 1})
    assert stored(suite, event_id) == {"n": 1}
    pids = children_of(suite.pid).values()
    assert suite.stop() == 0
    assert not any(map(is_alive, pids))
    assert list((tmp_path / "run").glob("*.sock")) == []
    assert any(line.startswith("broker  | ") for line in suite.lines)


def test_up_starts_again_what_dies(tmp_path: Path) -> None:
    with Suite("up", tmp_path, "--port", "0") as suite:
        for service in sorted(SERVICES):
            event_id = publish(suite, service)
            before = children_of(suite.pid)[service]
            os.kill(before, signal.SIGKILL)
            until_gone(before)
            assert stored(suite, publish(suite, "again")) == "again"
            assert stored(suite, event_id) == service
        told = "SIGKILL; starting it again"
        until(lambda: sum(told in it for it in suite.lines) == len(SERVICES))


def test_up_is_ready_again_after_the_death_of_txn(tmp_path: Path) -> None:
    with Suite("up", tmp_path, "--port", "0") as suite:
        assert readiness(suite) == {
            "status": "ready",
            "broker": "ok",
            "delay": "ok",
            "transactions": "ok",
            "push": "ok",
            "metadata": "ok",
        }
        words = ("tx", "begin", "g", "t", "1", "--json")
        begun = halfpast(*words, server=suite.address)
        transaction = json.loads(begun.stdout)["id"]
        before = children_of(suite.pid)["txn"]
        os.kill(before, signal.SIGKILL)
        until_gone(before)
        until(lambda: children_of(suite.pid).get("txn", before) != before)
        until(lambda: readiness(suite).get("transactions") == "ok")
        metrics = fetched(f"{suite.address}/metrics")[1].decode()
        assert 'halfpast_up{service="transactions"} 1.0' in metrics
        assert "halfpast_txn_service_ready 1.0" in metrics
        committed = halfpast("tx", "commit", transaction, server=suite.address)
        assert committed.returncode == 0, committed.stderr
        popped = halfpast("pop", "g", "t", "--json", server=suite.address)
        assert json.loads(popped.stdout)["data"] == 1


def test_the_services_die_with_a_killed_up(tmp_path: Path) -> None:
    first = Suite("up", tmp_path, "--port", "0").wait_ready()
    event_id = publish(first, {"n": 1})
    pids = children_of(first.pid).values()
    first.stop(signal.SIGKILL)
    with Suite("up", tmp_path, "--port", "0") as second:
        assert not any(map(is_alive, pids))
        assert stored(second, event_id) == {"n": 1}


def test_up_gives_up_on_a_folder_it_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "halfpast.json").write_text(
        json.dumps({"format_version": 999, "store_id": "x", "salt": 1})
    )
    suite = Suite("up", tmp_path, "--port", "0")
    assert suite.wait() == os.EX_CONFIG
    told = [line for line in suite.lines if "format version 999" in line]
    assert len(told) == 1
    assert "error: broker does not start" in suite.lines[-1]


def test_services_can_meet_over_tcp(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp:127.0.0.1:{free.getsockname()[1]}"
    with (
        Suite("broker", tmp_path, "--broker", address),
        Suite("chronos", tmp_path / "c", "--broker", address) as chronos,
        Suite("txn", tmp_path / "t", "--broker", address) as txn,
        Suite(
            "api",
            tmp_path / "a",
            *("--broker", address, "--chronos", chronos.address, "--port", "0"),
            *("--txn", txn.address),
        ) as api,
    ):
        assert stored(api, publish(api, "x")) == "x"
        assert readiness(api)["transactions"] == "ok"


def test_doctor_explains_a_folder(tmp_path: Path) -> None:
    missing = halfpast("doctor", "--data", str(tmp_path / "none"))
    assert missing.returncode == 1
    assert "no such folder" in missing.stdout
    assert not (tmp_path / "none").exists()
    data = tmp_path / "d"
    with Suite("dev", data, "--port", "0") as suite:
        publish(suite, {"n": 1})
        beside = halfpast("doctor", "--data", str(data))
        assert beside.returncode == 0, beside.stdout
        assert f"process {suite.pid}" in beside.stdout
    after = halfpast("doctor", "--data", str(data), "--json")
    report = json.loads(after.stdout)
    assert report["healthy"] is True
    about = {finding["about"]: finding["text"] for finding in report["findings"]}
    assert "verified" in about["log"]
    assert "no broker is running" in about["lock"]
    assert about["metadata"] == "metadata.sqlite is sound"


@pytest.mark.parametrize("index", ["index", "chronos", "txn"])
def test_doctor_finds_a_broken_index(tmp_path: Path, index: str) -> None:
    with Suite("dev", tmp_path, "--port", "0") as suite:
        publish(suite, "x")
    (tmp_path / index / "CURRENT").write_text("nonsense")
    refused = halfpast("dev", "--data", str(tmp_path), "--port", "0")
    assert refused.returncode == os.EX_CONFIG
    done = halfpast("doctor", "--data", str(tmp_path))
    assert done.returncode == 1
    assert f"the index {tmp_path / index} cannot be opened" in done.stdout
    assert "move it away" in done.stdout
    assert "not there" not in done.stdout


def test_doctor_finds_damage(tmp_path: Path) -> None:
    with Suite("dev", tmp_path, "--port", "0") as suite:
        for number in range(3):
            publish(suite, f"number {number}")
    segment = min((tmp_path / "log").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[content.index(b"number 0")] ^= 1
    segment.write_bytes(content)
    done = halfpast("doctor", "--data", str(tmp_path))
    assert done.returncode == 1
    assert "corrupt" in done.stdout
    assert "from a backup" in done.stdout
    shutil.rmtree(tmp_path / "index")  # so that the whole log has to be replayed
    refused = halfpast("dev", "--data", str(tmp_path), "--port", "0")
    assert refused.returncode == os.EX_CONFIG
    assert "corrupt at offset" in refused.stderr
    assert f"halfpast doctor --data {tmp_path}\n" in refused.stderr


def test_small_really_is_small(tmp_path: Path) -> None:
    with Suite("dev", tmp_path, "--port", "0"):
        pass
    sizes = {path.stat().st_size for path in (tmp_path / "log").glob("*.seg")}
    assert sizes == {int(SMALL["HALFPAST_STORE_LOG_SEGMENT_SIZE"])}

"""dev and up as processes: starting, stopping, dying, being started again."""

import json
import os
import shutil
import signal
import socket
import subprocess
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
SERVICES = {"broker", "chronos", "api"}


def publish(suite: Suite, data: object) -> str:
    with sdk.SyncClient(suite.address, retry=HASTY) as client:
        return client.publish("t", data).id


def stored(suite: Suite, event_id: str) -> object:
    with sdk.SyncClient(suite.address, retry=HASTY) as client:
        return client.get(event_id).data


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


def test_a_port_in_use_is_explained(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = halfpast("dev", "--data", str(tmp_path), "--port", port)
    assert done.returncode == 1
    assert "--port" in done.stderr


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


def test_a_folder_cannot_be_used_twice(tmp_path: Path) -> None:
    with Suite("dev", tmp_path, "--port", "0") as first:
        second = halfpast("dev", "--data", str(tmp_path), "--port", "0")
        assert second.returncode == os.EX_CONFIG
        assert f"in use by process {first.pid}" in second.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
@pytest.mark.parametrize("command", ["dev", "up", "api"])
def test_strangers_are_not_let_in(tmp_path: Path, host: str, command: str) -> None:
    words = [command, "--host", host, "--data", str(tmp_path / "d")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--unsafe-open" in done.stderr
    assert not (tmp_path / "d").exists()


def test_a_bad_setting_is_named(tmp_path: Path) -> None:
    suite = Suite("dev", tmp_path, HALFPAST_CHRONOS_FIRE_COUNT="many")
    assert suite.wait() == 2
    assert "HALFPAST_CHRONOS_FIRE_COUNT='many'" in suite.lines[0]


def test_up_starts_three_services_and_stops_them(tmp_path: Path) -> None:
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
        deaths = [line for line in suite.lines if "SIGKILL; starting it again" in line]
        assert len(deaths) == len(SERVICES)


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
    assert any("format version 999" in line for line in suite.lines)
    assert "error: broker does not start" in suite.lines[-1]


def test_services_can_meet_over_tcp(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp:127.0.0.1:{free.getsockname()[1]}"
    with (
        Suite("broker", tmp_path, "--broker", address),
        Suite("chronos", tmp_path / "c", "--broker", address) as chronos,
        Suite(
            "api",
            tmp_path / "a",
            *("--broker", address, "--chronos", chronos.address, "--port", "0"),
        ) as api,
    ):
        assert stored(api, publish(api, "x")) == "x"


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
    assert "halfpast doctor" in refused.stderr


def test_small_really_is_small(tmp_path: Path) -> None:
    with Suite("dev", tmp_path, "--port", "0"):
        pass
    sizes = {path.stat().st_size for path in (tmp_path / "log").glob("*.seg")}
    assert sizes == {int(SMALL["HALFPAST_STORE_LOG_SEGMENT_SIZE"])}

"""What the image would run, run here: as another user, by the Dockerfile's own commands
and environment; and none of its log lines tells a secret."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from halfpast_loadtest.server_process import free_port

NOBODY = 65534
SECRETS = {
    "payload": "4111111111111111",
    "endpoint secret": "whsec_cGxhbnRlZC1lbmRwb2ludC1zZWNyZXQtMDAwMDE=",
    "wrong key": "hp_a1b2c3d4_plantedplantedplantedplanted1",
    "token": "cGxhbnRlZC10b2tlbg",
    "url password": "hunter2planted",
}


@dataclass
class Image:
    """A Dockerfile, as far as it matters here, with a data folder of its own."""

    data: Path
    port: int
    environment: dict[str, str]
    start: list[str]
    probe: list[str]
    user: dict[str, Any]
    out: Path
    key: str = ""
    process: "subprocess.Popen[Any] | None" = None

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.found(command),
            env=self.environment,
            cwd=self.data,
            capture_output=True,
            text=True,
            check=False,
            **self.user,
        )

    def found(self, command: tuple[str, ...] | list[str]) -> list[str]:
        """As the image's PATH would find it."""
        return [str(Path(sys.executable).parent / command[0]), *command[1:]]

    def call(self, method: str, path: str, body: object, key: str) -> int:
        """The status of an answer; 0 for none."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {key}",
                "Content-Type": "application/json",
                "X-Request-Id": "planted-request",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except (urllib.error.URLError, TimeoutError):
            return 0

    def is_healthy(self) -> bool:
        return self.run(*self.probe).returncode == 0


def another_user() -> dict[str, Any]:
    """Who may read this environment and write none of it; ourselves, where only we may
    read it, or may not become anybody else."""
    if os.geteuid() != 0:
        return {}
    needed = [Path(sys.executable).resolve(), Path(__file__), Path(sys.prefix)]
    folders = {parent for it in needed for parent in it.parents}
    if not all(it.stat().st_mode & 0o001 for it in folders):
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def instruction(text: str, name: str) -> list[str]:
    """The last `NAME […]` of a Dockerfile."""
    found = re.findall(rf"^\s*{name} (\[.*\])$", text, re.M)
    command: list[str] = json.loads(found[-1])
    return command


@pytest.fixture(scope="module")
def image(repository_root: Path) -> Iterator[Image]:
    text = (repository_root / "docker/Dockerfile").read_text("utf-8")
    last = text.rpartition("\nFROM ")[2].replace("\\\n", " ")
    environment = dict(
        re.findall(r"(\w+)=(\S+)", re.findall(r"^ENV (.*)$", last, re.M)[0])
    )
    folder = Path(tempfile.mkdtemp(prefix="halfpast-image-"))
    data = folder / "data"
    data.mkdir(mode=0o700)
    user = another_user()
    folder.chmod(0o755)
    if user:
        os.chown(data, NOBODY, NOBODY)
    port = free_port()
    assert environment["HALFPAST_DATA"] == "/var/lib/halfpast"
    environment |= {
        "HALFPAST_DATA": str(data),
        "HOME": str(data),
        "HALFPAST_PORT": str(port),
        "HALFPAST_LOG_LEVEL": "debug",
        "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(64 << 20),
        "HALFPAST_PUSH_ALLOW": "127.0.0.1",
    }
    health = re.findall(r"^HEALTHCHECK .* (CMD \[.*\])$", last, re.M)
    found = Image(
        data=data,
        port=port,
        environment=environment,
        start=[*instruction(last, "ENTRYPOINT"), *instruction(last, "CMD")],
        probe=instruction(health[0], "CMD"),
        user=user,
        out=folder / "out",
    )
    try:
        yield found
    finally:
        if found.process is not None and found.process.poll() is None:
            found.process.send_signal(signal.SIGTERM)
            found.process.wait(30)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def running(image: Image) -> Image:
    """Started by the Dockerfile's command, and found healthy by its check."""
    made = image.run("halfpast", "keys", "create", "--admin", "--json")
    assert made.returncode == 0, made.stderr
    image.key = json.loads(made.stdout)["secret"]
    with image.out.open("wb") as out:
        image.process = subprocess.Popen(
            image.found(image.start),
            env=image.environment,
            cwd=image.data,
            stdout=out,
            stderr=subprocess.STDOUT,
            **image.user,
        )
    process: subprocess.Popen[Any] = image.process
    deadline = time.monotonic() + 60
    while not image.is_healthy():
        assert process.poll() is None, image.out.read_text()
        assert time.monotonic() < deadline, image.out.read_text()
    return image


def test_without_a_key_it_says_how_to_make_one(image: Image) -> None:
    assert not image.is_healthy()
    done = image.run(*image.start)
    assert done.returncode == 2
    assert "halfpast keys create --admin" in done.stdout + done.stderr


def test_each_service_has_a_probe(running: Image) -> None:
    for service in ("broker", "chronos", "txn", "push", "api"):
        assert running.run(*running.probe[:-1], service).returncode == 0, service
    assert running.run(*running.probe[:-1], "nothing").returncode == 2


def test_it_runs_as_the_user_it_was_given(running: Image) -> None:
    assert running.process is not None
    wanted = running.user.get("user", os.geteuid())
    processes = psutil.Process(running.process.pid).children(recursive=True)
    assert len(processes) >= 5
    assert {it.uids().effective for it in processes} == {wanted}


def test_no_line_tells_a_secret(running: Image) -> None:
    """Everything that can be provoked from outside, and a broker that dies."""
    key, planted = running.key, SECRETS
    event = {
        "data": {"card": planted["payload"]},
        "properties": {"p": planted["token"]},
    }
    assert running.call("POST", "/v1/topics/orders/events", event, key) == 201
    later = {**event, "delay_ms": 50}
    assert running.call("POST", "/v1/topics/orders/events", later, key) == 201
    broken = {"data": planted["payload"], "delay": planted["payload"]}
    assert running.call("POST", "/v1/topics/orders/events", broken, key) == 422
    assert running.call("GET", "/v1/topics", None, planted["wrong key"]) == 401
    path = f"/v1/nothing?access_token={planted['token']}"
    assert running.call("GET", path, None, key) == 404
    endpoint = {
        "url": f"http://127.0.0.1:9/hook?token={planted['token']}",
        "topics": ["orders"],
        "secret": planted["endpoint secret"],
    }
    assert running.call("PUT", "/v1/endpoints/crm", endpoint, key) in (200, 201, 422)
    begin = {"producer_group": "shop", "messages": [{"topic": "orders", **event}]}
    assert running.call("POST", "/v1/transactions", begin, key) == 201
    assert running.process is not None
    children = psutil.Process(running.process.pid).children(recursive=True)
    (broker,) = (it for it in children if "broker" in it.cmdline())
    broker.kill()
    deadline = time.monotonic() + 60
    while running.call("POST", "/v1/topics/orders/events", event, key) != 201:
        assert time.monotonic() < deadline, running.out.read_text()
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    text = running.out.read_text("utf-8")
    told = [name for name, secret in planted.items() if secret in text]
    assert told == []
    assert key.rpartition("_")[2] not in text
    lines = [json.loads(line) for line in text.splitlines()]
    logged = [line for line in lines if "ready" not in line]
    loggers = {line["logger"] for line in logged}
    assert {"halfpast.broker", "halfpast.chronos"} <= loggers
    assert all({"event", "level", "timestamp"} <= line.keys() for line in logged)
    assert not running.is_healthy()

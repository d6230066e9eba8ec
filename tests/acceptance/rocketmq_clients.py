"""RocketMQ's official clients in processes of their own, and a Halfpast for them.

Each is installed once, at pinned versions, into the user's cache. `RocketmqClient` asks
one of them to do something, in the words of `rocketmq_python.py`.
"""

import base64
import json
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import pytest
from tests.integration.unavailable import unavailable

from halfpast_loadtest.debian_packages import install
from halfpast_loadtest.errors import ClientUnavailable
from halfpast_loadtest.rocketmq_client import (
    client_environment,
    client_python,
    fingerprint,
    kept_folder,
    run,
)

HERE = Path(__file__).parent
PYTHON, NODE, JAVA = "python", "node", "java"
LANGUAGES = (PYTHON, NODE, JAVA)
TIMEOUT_S = 60.0
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
NOTHING: Mapping[str, str] = {}
Message = dict[str, Any]


class ClientRefused(Exception):
    """What a client raised: the name of its error, and the status that it got."""

    def __init__(self, kind: str, code: object, message: str) -> None:
        super().__init__(kind, code, message)
        self.kind = kind
        self.code = code
        self.message = message


class ClientGone(Exception):
    """The process has ended; `errors` is what it wrote at last."""


class Clients:
    """One process for each language, started when it is asked for."""

    def __init__(self, **how: Any) -> None:
        self._how = how
        self._running: dict[str, RocketmqClient] = {}

    def __getitem__(self, language: str) -> "RocketmqClient":
        if language not in self._running:
            self._running[language] = RocketmqClient(language, **self._how)
        return self._running[language]

    def stop_all(self) -> None:
        """What they have started, in good order."""
        for client in self._running.values():
            client.stop_all()

    def end(self) -> None:
        for client in self._running.values():
            client.end()


class RocketmqClient:
    """One process with one official client. It knows `how` to connect: endpoints,
    credentials, namespace, tls."""

    def __init__(
        self, language: str, environment: Mapping[str, str] = NOTHING, **how: Any
    ) -> None:
        self.language = language
        self.how = how
        self._home = Path(tempfile.mkdtemp(prefix="halfpast-rocketmq-"))
        command, more = COMMANDS[language]()
        self._errors = (self._home / "stderr").open("wb")
        self._process = subprocess.Popen(
            command,
            env={**client_environment(self._home), **more, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Any]] = {}
        self._number = 0
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._seen: list[dict[str, Any]] = []
        self._names: list[str] = []
        self._reader = threading.Thread(target=self._read, name=f"{language} client")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # --- what it can be asked to do -----------------------------------------------

    def producer(self, name: str, *topics: str, answer: str = "", **how: Any) -> None:
        """Start a producer. `answer`: to check-backs (commit, rollback, unknown)."""
        given = {**self.how, **how}
        self._start("producer", name, topics=topics, answer=answer, **given)

    def simple(
        self, name: str, group: str, topics: Mapping[str, Any] | str, wait_s: int = 5
    ) -> None:
        """Start a simple consumer; `topics`: one, or a filter for each."""
        given = {topics: "*"} if isinstance(topics, str) else dict(topics)
        more = {"topics": given, "wait_s": wait_s, **self.how}
        self._start("simple", name, group=group, **more)

    def push(
        self, name: str, group: str, topics: Mapping[str, Any] | str, fail: int = 0
    ) -> None:
        """Start a push consumer, which fails `fail` times for each message."""
        given = {topics: "*"} if isinstance(topics, str) else dict(topics)
        self._start("push", name, group=group, topics=given, fail=fail, **self.how)

    def stop(self, name: str) -> None:
        """Shut one down, in good order."""
        self._names.remove(name)
        self.do("stop", name=name)

    def stop_all(self) -> None:
        """All that were started."""
        stopping = [self.begin("stop", name=name) for name in self._names]
        self._names.clear()
        for one in stopping:
            one.result(TIMEOUT_S)

    def send(self, producer: str, topic: str, body: bytes, **more: Any) -> Any:
        """Send a message; the receipt."""
        sent = base64.b64encode(body).decode()
        return self.do("send", producer=producer, topic=topic, body=sent, **more)

    def publish(self, topic: str, body: bytes) -> Any:
        """Start a producer of the topic, and send a message."""
        self._number += 1
        producer = f"producer-{self._number}"
        self.producer(producer, topic)
        return self.send(producer, topic, body)

    def consume(self, group: str, topic: str) -> list[Message]:
        """Start a simple consumer of the topic, and receive once."""
        self._number += 1
        consumer = f"consumer-{self._number}"
        self.simple(consumer, group, topic, wait_s=1)
        return self.receive(consumer)

    def receive(
        self, consumer: str, count: int = 16, hidden_s: int = 30
    ) -> list[Message]:
        """One receive; there may be nothing."""
        found = self.do("receive", consumer=consumer, count=count, hidden_s=hidden_s)
        return [with_body(message) for message in found]

    def receive_all(
        self, consumer: str, count: int, hidden_s: int = 30, *, ack: bool = True
    ) -> list[Message]:
        """So many messages, acknowledged as they come."""
        found: list[Message] = []
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(found) < count:
            assert time.monotonic() < deadline_s, (count, found)
            some = self.receive(consumer, hidden_s=hidden_s)
            for message in some if ack else ():
                self.do("ack", consumer=consumer, receipt=message["receipt"])
            found += some
        return found

    def event(
        self, is_wanted: Callable[[dict[str, Any]], bool], timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """The first event of this kind that was not given before."""
        for event in self._seen:
            if is_wanted(event):
                self._seen.remove(event)
                return event
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                event = self._events.get(timeout=deadline_s - time.monotonic())
            except (queue.Empty, ValueError):
                raise AssertionError(f"did not happen; {self._seen}") from None
            if not event:
                raise ClientGone(self.errors())
            if "message" in event:
                event["message"] = with_body(event["message"])
            if is_wanted(event):
                return event
            self._seen.append(event)

    def consumed(self, consumer: str, body: bytes | None = None) -> dict[str, Any]:
        """The next time that this push consumer is given something; this, if named."""
        return self.event(
            lambda it: (
                it["event"] == "consumed"
                and it["consumer"] == consumer
                and body in (None, it["message"]["body"])
            )
        )

    def told(self, event: str, name: str) -> list[dict[str, Any]]:
        """All that was told of a client so far, and not given before."""
        while not self._events.empty():
            one = self._events.get()
            if "message" in one:
                one["message"] = with_body(one["message"])
            self._seen.append(one)
        ours = [
            it
            for it in self._seen
            if it.get("event") == event
            and name in (it.get("consumer"), it.get("producer"))
        ]
        self._seen = [it for it in self._seen if it not in ours]
        return ours

    def checked(self, producer: str) -> Message:
        """What this producer is asked about next."""
        event = self.event(
            lambda it: it["event"] == "checked" and it["producer"] == producer
        )
        message: Message = event["message"]
        return message

    def do(self, what: str, **given: Any) -> Any:
        """Raises ClientRefused or ClientGone."""
        return self.begin(what, **given).result(TIMEOUT_S)

    def begin(self, what: str, **given: Any) -> "Future[Any]":
        """The same, without waiting for it."""
        future: Future[Any] = Future()
        with self._lock:
            self._number += 1
            self._pending[self._number] = future
            line = json.dumps({"id": self._number, "do": what, **given})
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
            except OSError:
                raise ClientGone(self.errors()) from None
        return future

    def _start(self, what: str, name: str, **given: Any) -> None:
        self.do(what, name=name, **given)
        self._names.append(name)

    # --- its end ------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, as when a machine is gone."""
        self._process.kill()
        self._clean()

    def end(self) -> None:
        """Let go of it, whatever it is about."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
                self._process.wait(10)
            except (OSError, subprocess.TimeoutExpired):
                self._process.kill()
        self._clean()

    def errors(self) -> str:
        """What it wrote to stderr, and to its log."""
        found = [self._home / "stderr", *self._home.glob("logs/*/*.log")]
        return "\n".join(file.read_text(errors="replace")[-8000:] for file in found)

    def _clean(self) -> None:
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except OSError:
                    continue
        shutil.rmtree(self._home, ignore_errors=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "event" in told:
                self._events.put(told)
                continue
            with self._lock:
                future = self._pending.pop(told["id"])
            if "error" in told:
                future.set_exception(ClientRefused(**told["error"]))
            else:
                future.set_result(told["result"])
        self._events.put({})
        with self._lock:
            left, self._pending = self._pending, {}
        for future in left.values():
            future.set_exception(ClientGone())


def with_body(message: Message) -> Message:
    """The body as bytes."""
    if isinstance(message["body"], str):
        message["body"] = base64.b64decode(message["body"])
    return message


def bodies(messages: list[Message]) -> list[bytes]:
    return [message["body"] for message in messages]


def _python() -> tuple[list[str], dict[str, str]]:
    try:
        return [str(client_python()), str(HERE / "rocketmq_python.py")], {}
    except ClientUnavailable as error:
        unavailable(str(error))


def _node() -> tuple[list[str], dict[str, str]]:
    missing = install(["nodejs", "npm"], lambda: _has("node") and _has("npm"))
    if missing:
        unavailable(missing)
    program = HERE / "rocketmq_node"
    pins = [program / "package.json", program / "package-lock.json"]
    try:
        with kept_folder(f"rocketmq-node-{fingerprint(*pins)}") as (home, is_new):
            if is_new:
                for file in pins:
                    shutil.copy(file, home)
                quiet = (
                    "--ignore-scripts",
                    "--no-audit",
                    "--no-fund",
                    "--loglevel=error",
                )
                run(["npm", "ci", *quiet], home)
            return ["node", str(program / "client.mjs")], {"CLIENT_HOME": str(home)}
    except ClientUnavailable as error:
        unavailable(str(error))


def _java() -> tuple[list[str], dict[str, str]]:
    """Skipped where there is no repository that Maven can reach, also in CI."""
    programs = ("java", "javac", "mvn")
    missing = install(
        ["default-jdk-headless", "maven"], lambda: all(map(_has, programs))
    )
    if missing:
        unavailable(missing)
    sources = HERE / "rocketmq_java"
    pins, program = sources / "pom.xml", sources / "Client.java"
    try:
        with kept_folder(f"rocketmq-java-{fingerprint(pins)}") as (home, is_new):
            if is_new:
                shutil.copy(pins, home)
                run(["mvn", "-B", "-q", COPY, f"-DoutputDirectory={home}/lib"], home)
            libraries = f"{home}/lib/*"
        with kept_folder(f"rocketmq-java-{fingerprint(program)}") as (made, is_new):
            if is_new:
                run(["javac", "-cp", libraries, "-d", made, program])
    except ClientUnavailable as error:
        pytest.skip(str(error))
    # What its locale says is not what a pipe of ours carries.
    small = (
        "-Dfile.encoding=UTF-8",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx512m",
    )
    return ["java", *small, "-cp", f"{made}:{libraries}", "Client"], {}


def _has(program: str) -> bool:
    return shutil.which(program) is not None


COMMANDS: dict[str, Callable[[], tuple[list[str], dict[str, str]]]] = {
    PYTHON: _python,
    NODE: _node,
    JAVA: _java,
}

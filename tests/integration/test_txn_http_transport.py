"""Check-backs by HTTP, against real servers: answers, limits, circuits."""

import asyncio
import gzip
import json
from collections import Counter

import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook
from structlog.testing import capture_logs
from tests.integration.check_endpoint import (
    LONG_MS,
    SHORT_MS,
    HandClock,
    TableLookup,
    Talk,
    cause,
    http_server,
    raw_server,
    results,
    transport_to,
)

from halfpast_txn.circuit_breaker import CircuitConfig
from halfpast_txn.signature import secret_text

OK = b"HTTP/1.1 200 OK\r\n"
COMMITTED = b'{"state":"committed"}'
KIB64 = 64 * 1024


async def commits(_: web.Request) -> web.Response:
    return web.Response(body=COMMITTED)


async def waits(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    (length,) = (line for line in lines if line.startswith("content-length:"))
    await reader.readexactly(int(length.partition(":")[2]))


# --- the question -----------------------------------------------------------------


@pytest.mark.asyncio
async def test_the_call_is_signed_json_and_nothing_of_ours_goes_with_it() -> None:
    seen: list[tuple[web.Request, bytes]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request, await request.read()))
        answer = web.Response(body=COMMITTED)
        answer.set_cookie("session", "1")
        return answer

    secrets = secret_text(bytes(24)), secret_text(bytes(range(32)))
    transport = transport_to()
    async with http_server(handle) as url:
        for _ in range(2):
            assert await cause(transport, f"{url}?a=b", secrets=secrets) == "state 2"
    request, body = seen[1]
    assert (request.method, request.path_qs) == ("POST", "/check?a=b")
    assert json.loads(body)["data"]["reference"] == "order"
    for secret in secrets:
        question = Webhook(secret).verify(body, dict(request.headers))
        assert question["type"] == "transaction.check"
    assert set(request.headers) == {
        "Host",
        "Connection",
        "Content-Type",
        "Content-Length",
        "Accept",
        "Accept-Encoding",
        "User-Agent",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    }


@pytest.mark.asyncio
async def test_proxies_of_the_environment_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with http_server(commits) as url:
        assert await cause(transport_to(), url) == "state 2"


# --- answers ----------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "expected", "result"),
    [
        ((200, "application/json", COMMITTED), "state 2", "committed"),
        (
            (202, "application/json", b'{"state":"rolled_back"}'),
            "state 3",
            "rolled_back",
        ),
        ((200, "application/json", b'{"state":"unknown"}'), "unknown", "unknown"),
        ((200, "text/html; charset=utf-16", COMMITTED), "state 2", "committed"),
        ((200, "application/json", b"<html>"), "not json", "bad_answer"),
        ((200, "application/json", b""), "not json", "bad_answer"),
        ((204, "application/json", b""), "not json", "bad_answer"),
        ((200, "application/json", b'{"ok":1}'), "no state", "bad_answer"),
        ((200, "application/json", b'{"state":"maybe"}'), "bad state", "bad_answer"),
        ((400, "application/json", COMMITTED), "http 400", "http_error"),
        ((404, "application/json", COMMITTED), "http 404", "http_error"),
        ((410, "application/json", COMMITTED), "http 410", "http_error"),
        ((429, "application/json", COMMITTED), "http 429", "http_error"),
        ((503, "application/json", COMMITTED), "http 503", "http_error"),
    ],
)
async def test_answers(
    answer: tuple[int, str, bytes], expected: str, result: str
) -> None:
    async def handle(_: web.Request) -> web.Response:
        status, content_type, body = answer
        headers = {"Content-Type": content_type}
        return web.Response(status=status, headers=headers, body=body)

    transport = transport_to()
    async with http_server(handle) as url:
        assert await cause(transport, url) == expected
    assert results(transport) == {result: 1}


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    paths: Counter[str] = Counter()

    async def handle(request: web.Request) -> web.Response:
        paths[request.path] += 1
        if request.path == "/check":
            headers = {"Location": "/elsewhere"}
            return web.Response(status=status, headers=headers, body=COMMITTED)
        return web.Response(body=COMMITTED)

    async with http_server(handle) as url:
        assert await cause(transport_to(), url) == "redirect"
    assert paths == {"/check": 1}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("size", "expected"), [(KIB64, "state 2"), (KIB64 + 1, "answer too long")]
)
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_an_answer_has_64_kib_at_most(
    size: int, expected: str, is_chunked: bool
) -> None:
    async def handle(_: web.Request) -> web.Response:
        answer = web.Response(body=COMMITTED.ljust(size))
        if is_chunked:
            answer.enable_chunked_encoding()
        return answer

    async with http_server(handle) as url:
        assert await cause(transport_to(), url) == expected


@pytest.mark.asyncio
async def test_an_endless_answer_is_cut_off() -> None:
    is_cut = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK + b"\r\n")
        try:
            while True:
                writer.write(b" " * KIB64)
                await writer.drain()
        finally:
            is_cut.set()

    transport = transport_to()
    async with raw_server(talk) as url:
        assert await cause(transport, url) == "answer too long"
        await is_cut.wait()
    assert results(transport) == {"bad_answer": 1}


@pytest.mark.asyncio
async def test_a_compressed_answer_is_not_inflated() -> None:
    bomb = gzip.compress(b'{"state":"committed"}' + b" " * 50_000_000)

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    assert len(bomb) < KIB64
    async with http_server(handle) as url:
        assert await cause(transport_to(), url) == "not json"


# --- a broken world ---------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        OK,
        OK + b"Content-Length: 500\r\n\r\n" + COMMITTED,
        OK + b"Transfer-Encoding: chunked\r\n\r\n15\r\n" + COMMITTED + b"\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + COMMITTED,
        OK + b"X: " + b"x" * 100_000 + b"\r\n\r\n" + COMMITTED,
    ],
    ids=["nothing", "ssh", "head", "short", "chunks", "no chunk", "header"],
)
async def test_a_broken_answer_is_no_answer(said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)
        writer.write_eof()
        await reader.read()

    transport = transport_to()
    async with raw_server(talk) as url:
        assert await cause(transport, url) == "connection failed"
    assert results(transport) == {"failed": 1}


@pytest.mark.asyncio
async def test_a_reset_connection_is_no_answer() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()  # with unread data: a reset

    async with raw_server(talk) as url:
        assert await cause(transport_to(), url) == "connection failed"


@pytest.mark.asyncio
async def test_nobody_listens() -> None:
    async with http_server(commits) as url:
        pass
    assert await cause(transport_to(), url) == "connection failed"


async def _accept_only(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(KIB64):
        pass


async def _drip_head(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await read_request(reader)
    writer.write(OK)
    while not reader.at_eof():
        writer.write(b"X: y\r\n")
        await writer.drain()  # raises when the connection is reset
        await asyncio.sleep(0.005)


async def _drip_body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await read_request(reader)
    writer.write(OK + b"Content-Length: 60000\r\n\r\n")
    while not reader.at_eof():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.005)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("talk", "scheme"),
    [
        (_accept_only, "http"),
        (_accept_only, "https"),
        (_drip_head, "http"),
        (_drip_body, "http"),
    ],
)
async def test_the_time_out_is_for_the_whole_call(talk: Talk, scheme: str) -> None:
    is_reached, is_cut = asyncio.Event(), asyncio.Event()

    async def watched(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        is_reached.set()
        try:
            await talk(reader, writer)
        finally:
            is_cut.set()

    transport = transport_to(circuits=CircuitConfig(failures_max=1000))
    async with raw_server(watched) as url:
        asked = url.replace("http", scheme)
        while not is_reached.is_set():  # once, unless the machine is very busy
            assert await cause(transport, asked, timeout_ms=SHORT_MS) == "timeout"
        await is_cut.wait()  # the connection does not outlive the call
    assert set(results(transport)) == {"timeout"}
    assert transport.gauges()["check_calls_in_flight"] == 0


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "url",
    [
        "",
        "check",
        "/check",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "http://",
        "http:///check",
        "http://127.0.0.1:99999/",
        "http://user:word@127.0.0.1/",
        "http://user@127.0.0.1/",
        "http://[::1",
        "http://\ud800.example/",
        f"http://{'a' * 64}.example/",
    ],
)
async def test_a_url_that_is_none_is_said(url: str) -> None:
    assert await cause(transport_to(), url) == "bad url"


@pytest.mark.asyncio
async def test_a_secret_that_is_none_is_said() -> None:
    transport = transport_to()
    async with http_server(waits) as url:
        assert await cause(transport, url, secrets=("hunter2",)) == "bad secret"
    assert results(transport) == {"failed": 1}


@pytest.mark.asyncio
async def test_a_mistake_of_ours_is_logged_and_stops_nobody() -> None:
    lookup = TableLookup(a_example=[RuntimeError("planted")])
    transport = transport_to(lookup=lookup)
    with capture_logs() as logged:
        assert await cause(transport, "http://a.example/") == "internal error"
    assert "planted" in logged[0]["error"]


# --- limits -----------------------------------------------------------------------


class Gate:
    """Holds requests until it is opened; knows how many came at once."""

    def __init__(self, expected: int) -> None:
        self.peak = self.inside = 0
        self.is_full = asyncio.Event()
        self.opened = asyncio.Event()
        self._expected = expected

    async def __call__(self, _: web.Request) -> web.Response:
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        if self.inside >= self._expected:
            self.is_full.set()
        try:
            await self.opened.wait()
        finally:
            self.inside -= 1
        return web.Response(body=COMMITTED)


@pytest.mark.asyncio
async def test_an_endpoint_gets_so_many_calls_at_once() -> None:
    gate, transport = Gate(3), transport_to()
    async with http_server(gate) as url, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(cause(transport, url, concurrency_max=3))
            for _ in range(12)
        ]
        await gate.is_full.wait()
        assert transport.gauges()["check_calls_in_flight"] == 3
        late = await cause(transport, url, timeout_ms=SHORT_MS, concurrency_max=3)
        assert late == "busy"
        other = f"{url}/other"
        early = group.create_task(cause(transport, other, concurrency_max=3))
        gate.opened.set()
    assert {task.result() for task in tasks} == {"state 2"}
    assert early.result() == "state 2"
    assert gate.peak <= 4
    assert results(transport) == {"committed": 13, "busy": 1}


@pytest.mark.asyncio
async def test_all_endpoints_together_get_so_many_calls_at_once() -> None:
    gate, transport = Gate(2), transport_to(in_flight_max=2)
    async with http_server(gate) as url, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(cause(transport, f"{url}/{number}"))
            for number in range(8)
        ]
        await gate.is_full.wait()
        assert await cause(transport, f"{url}/9", timeout_ms=SHORT_MS) == "busy"
        gate.opened.set()
    assert {task.result() for task in tasks} == {"state 2"}
    assert gate.peak == 2


@pytest.mark.asyncio
async def test_a_cancelled_call_gives_its_slot_back() -> None:
    gate, transport = Gate(1), transport_to()
    async with http_server(gate) as url:
        task = asyncio.create_task(cause(transport, url, concurrency_max=1))
        await gate.is_full.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.opened.set()
        assert await cause(transport, url, concurrency_max=1) == "state 2"
    assert results(transport) == {"committed": 1}


# --- circuits ---------------------------------------------------------------------


class Moody:
    """A producer that answers with the status it is told to."""

    def __init__(self) -> None:
        self.status = 200
        self.calls = 0

    async def __call__(self, _: web.Request) -> web.Response:
        self.calls += 1
        return web.Response(status=self.status, body=COMMITTED)


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [500, 503, 429, 410])
async def test_the_life_of_a_circuit(status: int) -> None:
    clock, producer = HandClock(), Moody()
    circuits = CircuitConfig(failures_max=3, back_off_ms=1000, back_off_ms_max=4000)
    transport = transport_to(clock=clock, circuits=circuits)

    async def ask(expected: str, calls: int) -> None:
        before = producer.calls
        assert await cause(transport, url) == expected
        assert producer.calls - before == calls

    def circuit() -> float:
        gauges = transport.gauges()
        (name,) = (name for name in gauges if name.startswith("check_endpoint"))
        assert name.startswith('check_endpoint_circuit{endpoint="127.0.0.1:')
        return gauges[name]

    async with http_server(producer) as url:
        with capture_logs() as logged:
            producer.status = status
            for _ in range(3):
                await ask(f"http {status}", calls=1)
            assert circuit() == 2
            await ask("circuit open", calls=0)
            clock.now_s += 1.0
            await ask(f"http {status}", calls=1)
            clock.now_s += 1.9
            await ask("circuit open", calls=0)
            producer.status = 200
            clock.now_s += 0.1
            await ask("state 2", calls=1)
            assert circuit() == 0
            await ask("state 2", calls=1)
        assert [entry["log_level"] for entry in logged] == ["warning", "info"]
        assert "/check" not in str(logged)
    assert results(transport) == {"http_error": 4, "circuit_open": 2, "committed": 2}


@pytest.mark.asyncio
async def test_time_outs_and_lost_connections_open_the_circuit() -> None:
    circuits = CircuitConfig(failures_max=2)
    transport = transport_to(circuits=circuits)
    async with http_server(waits) as url:
        assert await cause(transport, url, timeout_ms=SHORT_MS) == "timeout"
    assert await cause(transport, url) == "connection failed"
    assert await cause(transport, url) == "circuit open"
    assert await cause(transport, f"{url}/other") == "connection failed"


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [200, 302, 400, 401, 404])
async def test_an_endpoint_that_answers_at_all_stays_connected(status: int) -> None:
    producer = Moody()
    producer.status = status
    transport = transport_to(circuits=CircuitConfig(failures_max=1))
    async with http_server(producer) as url:
        for _ in range(3):
            assert await cause(transport, url) != "circuit open"


@pytest.mark.asyncio
async def test_half_open_lets_one_call_through_and_survives_its_end() -> None:
    clock, gate = HandClock(), Gate(1)
    circuits = CircuitConfig(failures_max=1, back_off_ms=1000)
    transport = transport_to(clock=clock, circuits=circuits)
    statuses = [500]

    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=statuses.pop()) if statuses else await gate(request)

    async with http_server(handle) as url:
        assert await cause(transport, url) == "http 500"
        clock.now_s += 1
        probe = asyncio.create_task(cause(transport, url))
        await gate.is_full.wait()
        assert await cause(transport, url) == "circuit open"
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        gate.opened.set()
        assert await cause(transport, url) == "state 2"


@pytest.mark.asyncio
async def test_those_in_line_are_not_sent_to_a_circuit_that_opened() -> None:
    transport = transport_to(circuits=CircuitConfig(failures_max=1))
    calls: list[web.Request] = []

    async def fail(request: web.Request) -> web.Response:
        calls.append(request)
        return web.Response(status=500)

    async with http_server(fail) as url:
        asked = [
            cause(transport, url, concurrency_max=1, timeout_ms=LONG_MS)
            for _ in range(5)
        ]
        found = await asyncio.gather(*asked)
    assert Counter(found) == {"http 500": 1, "circuit open": 4}
    assert len(calls) == 1


def test_all_results_are_counted_from_the_start() -> None:
    names = ["committed", "rolled_back", "unknown", "timeout", "http_error"]
    names += ["bad_answer", "refused_address", "circuit_open", "busy", "failed"]
    assert transport_to().counters() == {
        f'check_calls_total{{result="{name}"}}': 0 for name in names
    }

"""Where check-backs may go, against real servers and a name server that lies."""

import asyncio
import gc
import shutil
import socket
import ssl
import subprocess
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp import web
from tests.integration.check_endpoint import (
    SHORT_MS,
    SilentLookup,
    TableLookup,
    cause,
    http_server,
    results,
    transport_to,
)

from halfpast_txn.http_resolver import SystemLookup

HOME = ip_address("127.0.0.1")
SECOND_HOME = ip_address("127.0.0.2")
OUTSIDE = ip_address("10.255.255.1")
Found = tuple[int, int, int, str, tuple[str, int]]


class Producer:
    """Commits, and remembers who was asked for."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.hosts.append(request.host)
        return web.Response(body=b'{"state":"committed"}')


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "127.0.0.2",
        "\uff11\uff12\uff17.0.0.1",
        "ⓛocalhost",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::1]",
        "[fe80::1%25lo]",
    ],
)
async def test_no_spelling_of_this_machine_is_reached(host: str) -> None:
    producer, transport = Producer(), transport_to(allow="")
    async with http_server(producer) as url:
        asked = url.replace("127.0.0.1", host)
        assert await cause(transport, asked) in ("refused address", "host not found")
    assert not producer.hosts
    assert set(results(transport)) <= {"refused_address", "failed"}


@pytest.mark.asyncio
async def test_refusals_are_counted_and_open_no_circuit() -> None:
    transport = transport_to(allow="")
    for _ in range(20):
        assert await cause(transport, "http://169.254.169.254/") == "refused address"
    assert results(transport) == {"refused_address": 20}


@pytest.mark.asyncio
@pytest.mark.parametrize("allow", ["127.0.0.0/8", "a.example", "a.example:{port}"])
async def test_what_an_operator_lists_is_reached(allow: str) -> None:
    producer = Producer()
    lookup = TableLookup(a_example=[[HOME]])
    async with http_server(producer) as url:
        port = url.split(":")[2].partition("/")[0]
        transport = transport_to(allow.format(port=port), lookup=lookup)
        asked = url.replace("127.0.0.1", "a.example")
        assert await cause(transport, asked) == "state 2"
    assert producer.hosts == [f"a.example:{port}"], "the name goes with the call"
    assert lookup.asked == [("a.example", int(port))]


@pytest.mark.asyncio
@pytest.mark.parametrize("allow", ["127.0.0.1:1", "b.example", "127.0.0.2", "[::1]"])
async def test_what_the_list_means_otherwise_is_not(allow: str) -> None:
    producer = Producer()
    lookup = TableLookup(a_example=[[HOME]])
    async with http_server(producer) as url:
        asked = url.replace("127.0.0.1", "a.example")
        found = await cause(transport_to(allow, lookup=lookup), asked)
    assert (found, producer.hosts) == ("refused address", [])


@pytest.mark.asyncio
async def test_a_name_that_changes_its_meaning_leads_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Judged as 127.0.0.2, which is listed; everybody else would get 127.0.0.1."""
    inner, outer = Producer(), Producer()
    lookup = TableLookup(a_example=[[SECOND_HOME], [HOME], [SECOND_HOME]])
    transport = transport_to("127.0.0.2", lookup=lookup)
    lookups: list[object] = []

    async def lie(host: object, port: int, **_: object) -> Sequence[Found]:
        lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lie)
    async with http_server(outer, host="127.0.0.2") as url:
        port = int(url.split(":")[2].partition("/")[0])
        async with http_server(inner, port=port):
            asked = url.replace("127.0.0.2", "a.example")
            lookups.clear()
            assert await cause(transport, asked) == "state 2"
            assert await cause(transport, asked) == "refused address"
            assert await cause(transport, asked) == "state 2"
    assert len(lookup.asked) == 3, "looked up once for each call"
    assert len(outer.hosts) == 2
    assert inner.hosts == []
    assert "a.example" not in lookups


@pytest.mark.asyncio
async def test_of_several_addresses_only_permitted_ones_are_tried() -> None:
    inner, outer = Producer(), Producer()
    lookup = TableLookup(a_example=[[OUTSIDE, HOME, SECOND_HOME]])
    transport = transport_to("127.0.0.2", lookup=lookup)
    async with http_server(outer, host="127.0.0.2") as url:
        port = int(url.split(":")[2].partition("/")[0])
        async with http_server(inner, port=port):
            found = await cause(transport, url.replace("127.0.0.2", "a.example"))
    assert found == "state 2"
    assert inner.hosts == []


@pytest.mark.asyncio
async def test_the_next_address_is_tried_where_the_first_is_dead() -> None:
    producer = Producer()
    lookup = TableLookup(a_example=[[SECOND_HOME, HOME]])
    transport = transport_to("127.0.0.0/8", lookup=lookup)
    async with http_server(producer) as url:
        found = await cause(transport, url.replace("127.0.0.1", "a.example"))
    assert found == "state 2"


@pytest.mark.asyncio
async def test_ipv6() -> None:
    producer = Producer()
    try:
        async with http_server(producer, host="::1") as url:
            assert await cause(transport_to("[::1]"), url) == "state 2"
            lookup = TableLookup(a_example=[[ip_address("::1")]])
            asked = url.replace("[::1]", "a.example")
            assert await cause(transport_to("a.example", lookup=lookup), asked)
    except OSError:
        pytest.skip("no IPv6 here")
    assert len(producer.hosts) == 2


@pytest.mark.asyncio
async def test_a_name_without_address() -> None:
    missing = socket.gaierror(socket.EAI_NONAME, "no such name")
    transport = transport_to(lookup=TableLookup(a_example=[missing], b_example=[[]]))
    assert await cause(transport, "http://a.example/") == "host not found"
    assert await cause(transport, "http://b.example/") == "refused address"


@pytest.mark.asyncio
async def test_the_time_out_includes_the_lookup() -> None:
    transport = transport_to(lookup=SilentLookup())
    found = await cause(transport, "http://a.example/", timeout_ms=SHORT_MS)
    assert found == "timeout"


# --- the machine's own resolver ---------------------------------------------------


class SlowResolver:
    """Stands in for the loop's `getaddrinfo`, which holds a thread."""

    def __init__(self) -> None:
        self.calls = 0
        self.answer: asyncio.Future[Sequence[Found]] = asyncio.Future()

    async def __call__(self, host: str, port: int, **_: object) -> Sequence[Found]:
        self.calls += 1
        return await asyncio.shield(self.answer)


@pytest.mark.asyncio
async def test_the_machine_knows_itself() -> None:
    found = await SystemLookup().addresses("localhost", 80)
    assert found
    assert all(address.is_loopback for address in found)


@pytest.mark.asyncio
async def test_calls_share_a_lookup_and_each_may_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver, lookup = SlowResolver(), SystemLookup()
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolver)
    tasks = [asyncio.create_task(_addresses(lookup, "a.example")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    late = asyncio.create_task(_addresses(lookup, "a.example"))
    await asyncio.sleep(0)
    resolver.answer.set_result(
        [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%lo", 80))]
    )
    assert await asyncio.gather(*tasks[1:], late) == [["fe80::1%lo"]] * 3
    assert tasks[0].cancelled()
    assert resolver.calls == 1
    await _addresses(lookup, "a.example")
    assert resolver.calls == 2, "an answer is not kept"
    resolver.answer = asyncio.Future()
    resolver.answer.set_exception(socket.gaierror("no such name"))
    with pytest.raises(socket.gaierror):
        await _addresses(lookup, "a.example")


@pytest.mark.asyncio
async def test_a_failed_lookup_that_nobody_waits_for_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver, lookup = SlowResolver(), SystemLookup()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", resolver)
    complaints: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    task = asyncio.create_task(_addresses(lookup, "a.example"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    resolver.answer.set_exception(socket.gaierror("no such name"))
    for _ in range(5):
        await asyncio.sleep(0)
    resolver.answer = asyncio.Future()
    resolver.answer.set_result([])
    assert await _addresses(lookup, "a.example") == []
    del task
    gc.collect()  # a forgotten error is complained about when it is collected
    assert not complaints


async def _addresses(lookup: SystemLookup, host: str) -> list[str]:
    return [str(address) for address in await lookup.addresses(host, 80)]


# --- TLS --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of a.example, which nobody signed, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "a.example.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    command += " -days 2 -subj /CN=a.example -addext subjectAltName=DNS:a.example"
    arguments = [*command.split(), "-keyout", str(path), "-out", str(path) + ".crt"]
    subprocess.run(arguments, check=True, capture_output=True)
    with path.open("ab") as file:
        file.write(Path(f"{path}.crt").read_bytes())
    return path


@pytest.mark.asyncio
async def test_certificates_are_verified_for_the_name(certificate: Path) -> None:
    named: list[str] = []
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate)
    server.sni_callback = lambda _, name, __: named.append(name)
    trusting = ssl.create_default_context(cafile=f"{certificate}.crt")
    lookup = TableLookup(a_example=[[HOME]], b_example=[[HOME]])
    producer = Producer()
    async with http_server(producer, tls=server) as url:
        first = url.replace("127.0.0.1", "a.example")
        other = url.replace("127.0.0.1", "b.example")
        strange = transport_to(lookup=lookup)
        assert await cause(strange, first) == "tls failed"
        known = transport_to(lookup=lookup, ssl_context=trusting)
        assert await cause(known, first) == "state 2"
        assert await cause(known, other) == "tls failed"
        assert await cause(known, url) == "tls failed"
    assert len(producer.hosts) == 1
    assert named[:3] == ["a.example", "a.example", "b.example"]

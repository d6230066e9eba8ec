"""Requests that two servers would cut in different places are refused, whole.

Behind each of them comes a second request. A proxy that reads the first one otherwise
would take it for a part of that; it must not be answered, let alone done.
"""

import asyncio
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.api_server import Api, serve
from tests.integration.api_stub import StubServices

pytestmark = pytest.mark.asyncio(loop_scope="module")
POST = b"POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\n"
DATA = b'{"data":1}'
TEN = b"Content-Length: 10\r\n"
TE = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"a\r\n" + DATA + b"\r\n0\r\n\r\n"
SECOND = (
    b"POST /v1/topics/smuggled/events HTTP/1.1\r\nHost: x\r\n" + TEN + b"\r\n" + DATA
)


def whole(headers: bytes, body: bytes = DATA) -> bytes:
    return POST + headers + b"\r\n" + body


def chunked(chunks: bytes) -> bytes:
    return whole(TE, chunks)


CUT_OTHERWISE = {
    "a length and chunks": whole(b"Content-Length: 3\r\n" + TE, CHUNKS),
    "chunks and a length": whole(TE + b"Content-Length: 4\r\n", CHUNKS),
    "two codings": whole(TE + b"Transfer-Encoding: identity\r\n", CHUNKS),
    "chunked not last": whole(b"Transfer-Encoding: chunked, identity\r\n", CHUNKS),
    "chunked twice": whole(b"Transfer-Encoding: chunked, chunked\r\n", CHUNKS),
    "identity": whole(b"Transfer-Encoding: identity\r\n" + TEN),
    "like chunked": whole(b"Transfer-Encoding: xchunked\r\n" + TEN),
    "a coding nobody reads": whole(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
    "space before the colon": whole(b"Transfer-Encoding : chunked\r\n" + TEN),
    "vertical tab": whole(b"Transfer-Encoding:\x0bchunked\r\n" + TEN),
    "chunks in HTTP/1.0": whole(TE, CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "the same length twice": whole(TEN + TEN),
    "two lengths": whole(TEN + b"Content-Length: 0\r\n"),
    "a list of lengths": whole(b"Content-Length: 10, 10\r\n"),
    "a plus": whole(b"Content-Length: +10\r\n"),
    "an underscore": whole(b"Content-Length: 1_0\r\n"),
    "hexadecimal": whole(b"Content-Length: 0xa\r\n"),
    "no length": whole(b"Content-Length: \r\n"),
    "a length beyond all": whole(b"Content-Length: 99999999999999999999999\r\n"),
    "other digits": whole("Content-Length: \u0661\u0660\r\n".encode()),
    "a folded line": whole(b"X: a\r\n b\r\n" + TEN),
    "a folded coding": whole(b"Transfer-Encoding:\r\n chunked\r\n" + TEN),
    "bare LF": whole(TEN).replace(b"\r\n", b"\n"),
    "one bare LF": whole(b"X: a\n" + TEN),
    "a bare CR": whole(b"X: a\rTransfer-Encoding: chunked\r\n" + TEN),
    "a NUL": whole(b"X: a\x00b\r\n" + TEN),
    "no name": whole(b": x\r\n" + TEN),
    "a name with a space": whole(b"X Y: x\r\n" + TEN),
    "two hosts": whole(b"Host: y\r\n" + TEN),
    "no host": whole(TEN).replace(b"Host: x\r\n", b""),
    "another version": whole(TEN).replace(b"HTTP/1.1", b"HTTP/1.2"),
    "a line in an extension": chunked(b"a;x\ny\r\n" + CHUNKS[3:]),
    "chunks with bare LF": chunked(CHUNKS.replace(b"\r\n", b"\n")),
    "a chunk of +a": chunked(b"+" + CHUNKS),
    "a chunk of -a": chunked(b"-" + CHUNKS),
    "a chunk of 0xa": chunked(b"0x" + CHUNKS),
    "space behind the size": chunked(b"a \r\n" + CHUNKS[3:]),
    "a size beyond all": chunked(b"1000000000000000" + CHUNKS),
    "a chunk too long": chunked(CHUNKS.replace(b"}\r\n", b"}XX")),
    "a length in the trailer": chunked(CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n"),
    "a flood of trailers": chunked(CHUNKS[:-2] + b"X: y\r\n" * 50_000 + b"\r\n"),
}


class Served:
    """An API on services that remember what they were asked to store."""

    def __init__(self, api: Api, services: StubServices) -> None:
        self.api = api
        self.services = services


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    services = StubServices()
    folder: Path = tmp_path_factory.mktemp("abuse")
    async with serve(*services.all, folder) as api:
        yield Served(api, services)


@pytest.mark.parametrize("name", CUT_OTHERWISE)
async def test_what_could_be_cut_otherwise_is_refused(
    served: Served, name: str
) -> None:
    served.services.appended.clear()
    answer = await served.api.raw(CUT_OTHERWISE[name] + SECOND)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"\r\n\r\n") == 1, "the second request was answered too"
    assert b"application/problem+json" in answer
    assert b"Connection: close" in answer
    assert not served.services.appended
    assert (await served.api.get("/healthz")).status == 200


@pytest.mark.parametrize(
    ("first", "statuses"),
    [
        (whole(TEN), [b"201", b"201"]),
        (chunked(CHUNKS), [b"201", b"201"]),
        (whole(b"transfer-encoding: CHUNKED\r\n", CHUNKS), [b"201", b"201"]),
        (chunked(b"a;x=" + b"y" * 100_000 + CHUNKS[1:]), [b"201", b"201"]),
        (
            b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + TEN + b"\r\n" + DATA,
            [b"200", b"201"],
        ),
        (whole(b"Content-Length: 0\r\n", b""), [b"400", b"201"]),
    ],
    ids=["length", "chunks", "CHUNKED", "extension", "a body for GET", "no body"],
)
async def test_what_is_plain_is_cut_where_everybody_cuts_it(
    served: Served, first: bytes, statuses: list[bytes]
) -> None:
    last = SECOND.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n")
    answer = await served.api.raw(first + last)
    assert [it[:3] for it in answer.split(b"HTTP/1.1 ")[1:]] == statuses


async def test_nothing_is_done_behind_an_upgrade(served: Served) -> None:
    """Whoever upgrades speaks something else from then on, of which we know nothing."""
    served.services.appended.clear()
    upgrade = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", served.api.port)
    try:
        writer.write(whole(upgrade + TEN) + SECOND)
        assert b" 201 " in await reader.readline()
        assert (await served.api.get("/healthz")).status == 200  # it had its turn
    finally:
        writer.close()
    assert len(served.services.appended) == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_what_is_compressed_many_times_over_is_refused(
    served: Served, encoding: str
) -> None:
    """A bomb within a bomb: one coding is undone, never two."""
    import gzip
    import zlib

    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = pack(pack(b" " * 60_000_000))
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for header in (encoding, f"{encoding}, {encoding}"):
        reply = await served.api.post(
            "/v1/events:batch", bomb, headers={"Content-Encoding": header}
        )
        assert reply.status in (400, 413, 415, 422), reply
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < 100_000  # the bomb itself was made in this process


async def test_a_bomb_is_not_blown_up_beyond_the_limit(served: Served) -> None:
    import zlib

    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(b" " * 1_000_000) for _ in range(100))
    bomb += packer.flush()
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reply = await served.api.post(
        "/v1/events:batch", bomb, headers={"Content-Encoding": "gzip"}
    )
    assert reply.code == "body_too_large"
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < 90_000, "100 MB were unpacked before somebody looked"


async def malformed(served: Served) -> int:
    """How many requests were not HTTP, as the metrics have it."""
    text = (await served.api.get("/metrics")).content.decode()
    name = 'halfpast_http_connections_ended_total{reason="malformed"} '
    return int(float(text.partition(name)[2].partition("\n")[0] or 0))


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz?" + b"a=b&" * 250_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100_000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a" * 1_000_000 + b": b\r\n\r\n",
    ],
    ids=["a long path", "a long query", "a long header", "many headers", "a long name"],
)
async def test_heads_without_end_are_refused(served: Served, request_: bytes) -> None:
    before = await malformed(served)
    try:
        answer = await served.api.raw(request_)
    except ConnectionResetError:  # it was refused before all of it had been sent
        answer = b"HTTP/1.1 400 "
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert await malformed(served) == before + 1

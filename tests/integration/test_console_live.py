"""Live parts of pages over real HTTP: what is sent, and that nothing is left behind."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.api_server import Api, running_api

STREAM = (
    "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    "Accept: text/event-stream\r\n{more}\r\n"
)


class Stream:
    """A page's own stream, over a connection of its own."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, api: Api, target: str, more: str = "") -> "Stream":
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(STREAM.format(target=target, more=more).encode())
        return cls(reader, writer)

    async def until(self, text: str) -> str:
        """What comes, up to an event that holds the text."""
        found = ""
        async with asyncio.timeout(15):
            while text not in found:
                found = (await self._reader.readuntil(b"\n\n")).decode()
        return found

    async def rest(self) -> bytes:
        async with asyncio.timeout(15):
            return await self._reader.read()

    def close(self) -> None:
        self._writer.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("more", ["", "Connection: close\r\n"], ids=["whole", "parts"])
async def test_a_change_is_sent_and_the_end_is_told(tmp_path: Path, more: str) -> None:
    """Also by aiohttp's own way, which requests with such a header go."""
    async with running_api(tmp_path) as api:
        event = await api.publish("orders", data=1, delay_ms=700)
        stream = await Stream.open(api, f"/console/events/{event['id']}", more)
        head = (await stream.until("HTTP/1.1 200 OK")).lower()
        assert "content-type: text/event-stream" in head
        assert "content-length" not in head
        assert "scheduled" in await stream.until("event: part")
        assert "late by" in (await stream.until("delivered")).lower()
        assert b"event: end" in await stream.rest()
        stream.close()


@pytest.mark.asyncio
async def test_a_stream_ends_when_the_server_stops(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        await api.publish("orders", data=1, delay_ms=3_600_000)
        stream = await Stream.open(api, "/console/topics/orders")
        await stream.until("event: part")
        async with asyncio.timeout(5):
            await api.stop()
        await stream.rest()
        stream.close()


@pytest.mark.asyncio
async def test_readers_who_leave_are_forgotten(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        await api.publish("orders", data=1, delay_ms=3_600_000)
        streams = [await Stream.open(api, "/console/topics/orders") for _ in range(5)]
        for stream in streams:
            await stream.until("event: part")
        waiting = await polls(api)
        assert waiting == 5
        for stream in streams:
            stream.close()
        async with asyncio.timeout(15):
            while await polls(api):  # noqa: ASYNC110 (the server's own count)
                await asyncio.sleep(0.02)


async def polls(api: Api) -> int:
    text = (await api.get("/metrics")).content.decode()
    (line,) = [
        it for it in text.splitlines() if it.startswith("halfpast_http_long_polls ")
    ]
    return int(float(line.rpartition(" ")[2]))


@pytest.mark.asyncio
async def test_a_stream_of_what_is_not_there_is_refused(tmp_path: Path) -> None:
    async with running_api(tmp_path) as api:
        headers = {"Accept": "text/event-stream"}
        reply = await api.get("/console/topics/none", headers=headers)
        assert reply.code == "unknown_topic"
        assert (await api.get("/console/topics", headers=headers)).status == 204

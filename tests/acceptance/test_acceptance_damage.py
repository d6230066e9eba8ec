"""Damage to a stopped store: told where it is, never delivered, never made worse."""

import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.acceptance.fault_ledger import TOPICS, Ledger, Load
from tests.acceptance.fault_server import FaultServer
from tests.integration.cli_process import halfpast

from halfpast_loadtest.event_request import problem_code
from halfpast_loadtest.http_wire import Response, WireClient
from halfpast_loadtest.message import Message, parse_popped, parse_pulled

TOPIC = TOPICS[0]
QUEUES = 4
COUNT = 150  # in several segments
BAD = "e000007"  # the serial of what is damaged


class Store:
    """A data folder with many events in it, and a server that can be put on it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.ledger = Ledger(Load(body_bytes=2000))
        self.server = FaultServer(self.data)

    async def fill(self) -> None:
        await self.server.start_ready()
        client = self.server.client()
        for _ in range(COUNT):
            await self.ledger.send(client, TOPIC)
        client.close()
        assert await self.server.stop() == 0

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[WireClient]:
        """A client of a server that runs inside the block."""
        await self.server.start_ready()
        client = self.server.client()
        try:
            yield client
        finally:
            client.close()
            assert await self.server.stop() == 0, self.server.log

    @property
    def segments(self) -> list[Path]:
        return sorted((self.data / "log").glob("*.seg"))

    def flip_a_bit(self, serial: str) -> None:
        """In the payload of this event."""
        for segment in self.segments:
            content = bytearray(segment.read_bytes())
            at = content.find(b'"serial":"%s"' % serial.encode())
            if at >= 0:
                content[at + 12] ^= 1
                segment.write_bytes(content)
                return
        raise AssertionError(serial)

    async def refused(self) -> str:
        """What a start says that does not succeed."""
        assert not await self.server.start().wait_ready(), self.server.log
        assert await self.server.wait_end() == os.EX_CONFIG, self.server.log
        [error] = self.server.errors
        assert "Address already in use" not in error
        return error


@asynccontextmanager
async def filled_store(folder: Path) -> AsyncGenerator[Store]:
    store = Store(folder)
    try:
        await store.fill()
        yield store
    finally:
        store.server.kill()


def assert_damage(answer: Response, segment: str) -> None:
    assert answer.status == 500, answer
    assert problem_code(answer.body) == "corrupt_log", answer
    problem = json.loads(answer.body)
    assert problem["retryable"] is False
    assert segment in problem["detail"]
    assert "halfpast doctor" in problem["detail"]


async def pull_all(client: WireClient, segment: str) -> list[Message]:
    """Everything that can be pulled; what cannot has to be told as damage."""
    messages: list[Message] = []
    for queue in range(QUEUES):
        offset = 0
        while True:
            path = f"/v1/topics/{TOPIC}/queues/{queue}/messages"
            answer = await client.request("GET", f"{path}?offset={offset}&max=100")
            if answer.status != 200:
                assert_damage(answer, segment)
                offset += 1
                continue
            page = parse_pulled(answer.body)
            if not page.messages:
                break
            messages += page.messages
            offset = page.next_offset
    return messages


async def pop_all(client: WireClient, segment: str) -> list[Message]:
    """Everything that a group gets before damage is all that is left."""
    messages: list[Message] = []
    while True:
        asked = {"topic": TOPIC, "max": 20}
        answer = await client.request("POST", "/v1/groups/readers:pop", asked)
        if answer.status != 200:
            assert_damage(answer, segment)
            return messages
        popped = parse_popped(answer.body)
        assert popped, "the damage was passed over in silence"
        messages += popped


@pytest.mark.asyncio
async def test_a_flipped_bit_is_told_and_everything_else_is_readable(
    tmp_path: Path,
) -> None:
    async with filled_store(tmp_path) as store:
        assert len(store.segments) > 2
        store.flip_a_bit(BAD)
        sent = {one.event_id: one.data for one in store.ledger.expectations.values()}
        bad = store.ledger.expectations[BAD].event_id
        name = store.segments[0].name
        async with store.served() as client:
            assert_damage(await client.request("GET", f"/v1/events/{bad}"), name)
            pulled = await pull_all(client, name)
            popped = await pop_all(client, name)
        assert {one.id: one.data for one in pulled}.items() <= sent.items()
        assert {one.id for one in pulled} == sent.keys() - {bad}
        # It holds up its own queue, and no other.
        [hurt] = {0, 1, 2, 3} - {
            queue
            for queue in range(QUEUES)
            if sum(one.queue == queue for one in pulled)
            == sum(one.queue == queue for one in popped)
        }
        assert hurt in range(QUEUES)
        assert {one.id: one.data for one in popped}.items() <= sent.items()


@pytest.mark.asyncio
async def test_damage_is_named_by_the_doctor_and_refused_by_a_replay(
    tmp_path: Path,
) -> None:
    async with filled_store(tmp_path) as store:
        whole = halfpast("doctor", "--data", str(store.data))
        assert whole.returncode == 0, whole.stdout
        store.flip_a_bit(BAD)
        before = [segment.read_bytes() for segment in store.segments]
        name = store.segments[0].name
        report = halfpast("doctor", "--data", str(store.data))
        assert report.returncode == 1
        assert report.stdout.count("problem") == 1, report.stdout
        assert f"segment {name} is damaged at" in report.stdout
        assert "delete the folder index" not in report.stdout  # it would not help
        assert "Not healthy" in report.stdout
        shutil.rmtree(store.data / "index")
        error = await store.refused()
        assert f"segment {name}" in error
        assert "the log is corrupt at offset" in error
        assert "an intact frame follows at" in error
        assert [segment.read_bytes() for segment in store.segments] == before


@pytest.mark.asyncio
async def test_the_end_of_a_sealed_segment_is_not_taken_for_the_tail(
    tmp_path: Path,
) -> None:
    async with filled_store(tmp_path) as store:
        first = store.segments[0]
        content = first.read_bytes()
        # The mark that ends the segment is its last frame, a header alone.
        at = content.rindex(b"HpF1")
        first.write_bytes(content[: at + 4] + bytes(8) + content[at + 12 :])
        report = halfpast("doctor", "--data", str(store.data))
        assert report.returncode == 1
        assert f"segment {first.name} is damaged at {at}" in report.stdout
        shutil.rmtree(store.data / "index")
        assert f"corrupt at offset {at}" in await store.refused()


@pytest.mark.asyncio
async def test_garbage_behind_the_end_is_cut_in_silence(tmp_path: Path) -> None:
    async with filled_store(tmp_path) as store:
        last = [one for one in store.segments if b"HpF1" in one.read_bytes()][-1]
        content = last.read_bytes()
        end = len(content.rstrip(b"\0")) // 8 * 8 + 8
        torn = content[content.index(b"HpF1") :][:300]  # as a frame begins
        last.write_bytes(content[:end] + torn + content[end + len(torn) :])
        report = halfpast("doctor", "--data", str(store.data))
        assert report.returncode == 0, report.stdout
        assert "ends in an unfinished frame" in report.stdout
        assert "the next start cuts it off" in report.stdout
        async with store.served() as client:
            await store.ledger.send(client, TOPIC)
            patient = store.server.patient()
            assert await store.ledger.problems(patient) == []
            patient.close()
        assert store.server.stderr == ""
        assert halfpast("doctor", "--data", str(store.data)).returncode == 0


@pytest.mark.asyncio
async def test_a_newer_format_and_a_folder_in_use_are_explained(
    tmp_path: Path,
) -> None:
    async with filled_store(tmp_path) as store:
        async with store.served():
            second = FaultServer(store.data, output=tmp_path)
            assert not await second.start().wait_ready()
            assert await second.wait_end() == os.EX_CONFIG
            [error] = second.errors
            [holder] = store.server.pids()
            assert f"in use by process {holder}" in error
            assert "--data" in error
        manifest = store.data / "halfpast.json"
        kept = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(kept | {"format_version": 2}))
        error = await store.refused()
        assert "has format version 2, this release reads up to 1" in error
        assert "newer release" in error
        manifest.write_text(json.dumps(kept))
        async with store.served() as client:
            await store.ledger.send(client, TOPIC)

"""A broker on a real folder, spoken to directly or over a unix socket."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from halfpast_core_store.broker import (
    Append,
    Appended,
    Broker,
    Delivered,
    ResolveTopics,
    Run,
    TopicInfo,
)
from halfpast_core_store.broker_rpc import BrokerClient, serve_broker
from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_core_store.record import RecordKind, decode_record, encode_record
from halfpast_core_store.rpc_server import Server
from halfpast_core_store.service import BrokerService

MIB = 1024 * 1024
SMALL = StoreConfig(
    log=LogConfig(segment_size=4 * MIB, frame_size_max=4 * MIB, reserve_size=MIB // 2),
    index_write_buffer=MIB,
    index_cache=MIB,
)


class Rig:
    """`broker` is what a test speaks to; `restart` closes and opens it again."""

    service: BrokerService
    broker: Broker

    def __init__(self, folder: Path, over_socket: bool) -> None:
        self.folder = folder
        self.over_socket = over_socket
        self._server: Server | None = None
        self._client: BrokerClient | None = None
        self._events = 0

    async def open(self, config: StoreConfig = SMALL) -> None:
        self.service = await BrokerService.open(self.folder / "data", config)
        if not self.over_socket:
            self.broker = self.service
            return
        address = f"unix:{self.folder}/broker.sock"
        self._server = await serve_broker(self.service, address)
        self.broker = self._client = BrokerClient(address)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._server is not None:
            await self._server.stop()
        await self.service.close()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    # --- sending --------------------------------------------------------------

    async def topic(self, name: str = "orders", queue_count: int = 1) -> TopicInfo:
        request = ResolveTopics([name], create=True, queue_count=queue_count)
        (info,) = (await self.broker.resolve_topics(request)).topics
        assert info is not None
        return info

    def record(self, body: bytes, tag: bytes = b"") -> bytes:
        self._events += 1
        event_id = (self._events << 14).to_bytes(16, "big")
        return encode_record(RecordKind.NORMAL, event_id=event_id, tag=tag, body=body)

    async def publish(
        self, *bodies: bytes, topic: str = "orders", queue: int = 0, tag: bytes = b""
    ) -> Appended:
        info = await self.topic(topic)
        records = [self.record(body, tag) for body in bodies]
        return await self.broker.append(Append([Run(info.id, queue, records)]))


@asynccontextmanager
async def open_rig(folder: Path, over_socket: bool) -> AsyncGenerator[Rig]:
    rig = Rig(folder, over_socket)
    await rig.open()
    try:
        yield rig
    finally:
        await asyncio.wait_for(rig.close(), 30)


def bodies(messages: list[Delivered]) -> list[bytes]:
    return [decode_record(message.record).body for message in messages]

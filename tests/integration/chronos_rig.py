"""A broker and a Delay Server on real folders, spoken to directly or over sockets."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfpast_chronos.config import ChronosConfig
from halfpast_chronos.delay_rpc import DelayClient, serve_delay
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.service import DelayService
from halfpast_chronos.topic_controls import TopicControls
from halfpast_core_store.broker import (
    Append,
    Broker,
    Follow,
    Pull,
    ResolveTopics,
    Run,
    TopicInfo,
)
from halfpast_core_store.broker_rpc import BrokerClient, serve_broker
from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_core_store.record import (
    Family,
    Record,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_core_store.rpc_server import Server
from halfpast_core_store.service import BrokerService
from halfpast_core_store.topics import SYS_SCHEDULE

MIB = 1024 * 1024
STORE = StoreConfig(
    log=LogConfig(segment_size=16 * MIB, frame_size_max=8 * MIB, reserve_size=MIB // 4),
    index_write_buffer=MIB,
    index_cache=MIB,
)
CHRONOS = ChronosConfig(index_write_buffer=MIB, index_cache=MIB, index_flush_ms=500)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message in its queue."""

    event_id: bytes
    due_ms: int
    stored_ms: int
    body: bytes


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class DelayRig:
    """`delay` and `broker` are what a test speaks to."""

    broker: Broker
    delay: DelayServer
    broker_service: BrokerService
    service: DelayService

    def __init__(self, folder: Path, over_socket: bool) -> None:
        self.folder = folder
        self.over_socket = over_socket
        self.config = CHRONOS
        self.controls: TopicControls | None = None
        self._broker_server: Server | None = None
        self._broker_client: BrokerClient | None = None
        self._delay_server: Server | None = None
        self._delay_client: DelayClient | None = None
        self._events = 0

    # --- processes --------------------------------------------------------------

    async def open_broker(self) -> None:
        self.broker_service = await BrokerService.open(self.folder / "data", STORE)
        if not self.over_socket:
            self.broker = self.broker_service
            return
        address = f"unix:{self.folder}/broker.sock"
        self._broker_server = await serve_broker(self.broker_service, address)
        if self._broker_client is None:
            self.broker = self._broker_client = BrokerClient(address)

    async def close_broker(self, grace_s: float = 5.0) -> None:
        """Without grace: calls in flight are cut off, as if the process died."""
        if self._broker_server is not None:
            await self._broker_server.stop(grace_s)
        await self.broker_service.close()

    async def open_delay(self, broker: Broker | None = None) -> None:
        self.service = await DelayService.open(
            self.folder / "data", broker or self.broker, self.config, self.controls
        )
        if not self.over_socket:
            self.delay = self.service
            return
        address = f"unix:{self.folder}/chronos.sock"
        self._delay_server = await serve_delay(self.service, address)
        self.delay = self._delay_client = DelayClient(address)

    async def close_delay(self) -> None:
        if self._delay_client is not None:
            await self._delay_client.close()
        if self._delay_server is not None:
            await self._delay_server.stop()
        await self.service.close()

    async def close(self) -> None:
        await self.close_delay()
        if self._broker_client is not None:
            await self._broker_client.close()
        await self.close_broker()

    # --- use --------------------------------------------------------------------

    async def topic(self, name: str = "orders") -> TopicInfo:
        request = ResolveTopics([name], create=True, queue_count=1)
        (info,) = (await self.broker.resolve_topics(request)).topics
        assert info is not None
        return info

    def fresh_id(self) -> bytes:
        self._events += 1
        return (self._events << 14).to_bytes(16, "big")

    async def record(self, due_ms: int, **fields: Any) -> bytes:
        info = await self.topic()
        return encode_record(
            RecordKind.SCHEDULE,
            topic_id=info.id,
            event_id=self.fresh_id(),
            born_ms=now_ms(),
            due_ms=due_ms,
            **fields,
        )

    async def schedule(self, *dues_ms: int, **fields: Any) -> list[bytes]:
        """Append timers in one request; gives their ids."""
        records = [await self.record(due_ms, **fields) for due_ms in dues_ms]
        await self.broker.append(Append([Run(SYS_SCHEDULE, 0, records)]))
        return [decode_record(record).event_id for record in records]

    async def arrivals(self) -> list[Arrival]:
        """Everything in the topic's queue."""
        await self.topic()
        found: list[Arrival] = []
        offset = 0
        while True:
            pulled = await self.broker.pull(Pull("orders", 0, offset, count=1000))
            if not pulled.messages:
                return found
            offset = pulled.next_offset
            for message in pulled.messages:
                record = decode_record(message.record)
                assert record.kind == RecordKind.NORMAL
                found.append(
                    Arrival(
                        record.event_id, record.due_ms, message.stored_ms, record.body
                    )
                )

    async def wait_for(self, *event_ids: bytes, timeout_s: float = 20) -> list[Arrival]:
        """Until all of these have arrived; gives all that has."""
        async with asyncio.timeout(timeout_s):
            while True:
                found = await self.arrivals()
                if {a.event_id for a in found} >= set(event_ids):
                    return found
                await asyncio.sleep(0.005)

    async def timer_records(self) -> list[Record]:
        """Everything in the log that concerns timers."""
        found: list[Record] = []
        position = 0
        while True:
            followed = await self.broker.follow(Follow(position, Family.TIMERS))
            for frame in followed.frames:
                found += map(decode_record, frame.records)
            position = followed.next_position
            if position >= followed.log_end:
                return found


@asynccontextmanager
async def open_rig(
    folder: Path,
    over_socket: bool,
    controls: TopicControls | None = None,
    config: ChronosConfig = CHRONOS,
) -> AsyncGenerator[DelayRig, None]:
    rig = DelayRig(folder, over_socket)
    rig.controls, rig.config = controls, config
    await rig.open_broker()
    await rig.open_delay()
    try:
        yield rig
    finally:
        await asyncio.wait_for(rig.close(), 30)


def check_arrivals(found: Sequence[Arrival], wanted: Sequence[bytes]) -> None:
    """Each once, none early, none that is not wanted."""
    ids = [arrival.event_id for arrival in found]
    assert sorted(ids) == sorted(wanted)
    assert [a for a in found if a.stored_ms < a.due_ms] == []

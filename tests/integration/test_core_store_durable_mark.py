"""A real broker tells how far its log is durable, and never too far."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.integration.chronos_rig import STORE

from halfpast_core_store import real_durable_mark
from halfpast_core_store.broker import Append, Empty, EnsureTopic, Run
from halfpast_core_store.durable_mark import NAME, DurableMark
from halfpast_core_store.folder import read_manifest, read_mark
from halfpast_core_store.pending import Sealed
from halfpast_core_store.real_clock import RealClock
from halfpast_core_store.real_durable_mark import current_mark
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.service import BrokerService
from halfpast_core_store.store import Store

pytestmark = pytest.mark.asyncio


def mark_of(folder: Path) -> DurableMark | None:
    return read_mark(folder, read_manifest(folder).salt)


async def until(folder: Path, is_so: Callable[[DurableMark], bool]) -> DurableMark:
    async with asyncio.timeout(10):
        while (mark := mark_of(folder)) is None or not is_so(mark):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return mark


def is_at(position: float, mark: DurableMark) -> bool:
    return mark.position >= position


async def append(broker: BrokerService) -> None:
    topic = await broker.ensure_topic(EnsureTopic("orders", 1))
    record = encode_record(RecordKind.NORMAL, topic_id=topic.id, body=b"x")
    await broker.append(Append([Run(topic.id, 0, [record])]))


async def test_the_mark_follows_the_log(tmp_path: Path) -> None:
    broker = await BrokerService.open(tmp_path, STORE)
    end = 0.0
    try:
        for _ in range(3):
            await append(broker)
            end = (await broker.status(Empty())).gauges["log_durable_position"]
            mark = await until(tmp_path, partial(is_at, end))
            assert mark.position == end
    finally:
        await broker.close()
    closed = mark_of(tmp_path)
    assert closed is not None
    assert closed.position == end


async def test_time_goes_on_while_nobody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_durable_mark, "HEARTBEAT_S", 0.02)
    broker = await BrokerService.open(tmp_path, STORE)
    try:
        await append(broker)
        now_ms = time.time_ns() // 1_000_000
        first = await until(tmp_path, lambda mark: mark.as_of_ms >= now_ms)
        later = await until(tmp_path, lambda mark: mark.as_of_ms > first.as_of_ms)
        assert later.position == first.position
    finally:
        await broker.close()
    assert (tmp_path / NAME).stat().st_size == 24


class LateClock(RealClock):
    """Some time after everything that happens."""

    def now_ns(self) -> int:
        return super().now_ns() + 60_000_000_000


async def test_what_is_on_its_way_is_not_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a frame is being synced, neither it nor its time is promised."""
    broker = await BrokerService.open(tmp_path, STORE)
    marks: list[tuple[DurableMark, Sealed]] = []
    write = Store.write

    def looking(self: Store, sealed: Sealed) -> None:
        marks.append((current_mark(self, LateClock()), sealed))
        write(self, sealed)

    monkeypatch.setattr(Store, "write", looking)
    try:
        for _ in range(5):
            await append(broker)
    finally:
        await broker.close()
    assert len(marks) == 6
    for mark, sealed in marks:
        header = sealed.write.draft.header
        assert mark.position == header.position
        assert mark.as_of_ms <= header.stored_ms

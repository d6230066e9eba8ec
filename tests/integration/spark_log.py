"""A store's log with every kind of record, written through a real broker."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uuid_utils

from halfpast_chronos import keys
from halfpast_chronos.bulk_records import cancel_records, move_records
from halfpast_chronos.recurrence import Plan
from halfpast_chronos.recurring_calls import Progress
from halfpast_chronos.recurring_state import Occurred, Occurrence
from halfpast_core_store.broker import (
    Append,
    CommitOffsets,
    EnsureTopic,
    GroupPolicy,
    Pop,
    Run,
    Settle,
    SettleAction,
)
from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_core_store.record import RecordFlag, RecordKind, encode_record
from halfpast_core_store.service import BrokerService
from halfpast_core_store.topics import SYS_FIRED, SYS_SCHEDULE, SYS_TRANS_OP
from halfpast_txn.half import (
    EndInfo,
    added_run,
    begin_run,
    check_record,
    message_id,
    op_record,
    parked_record,
    queue_of,
    released,
    resumed_record,
    runs_of,
)
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.transactions import Source, TransactionState

KIB = 1024
BORN_MS = 1_760_000_000_000
STORE = StoreConfig(
    log=LogConfig(
        segment_size=128 * KIB, frame_size_max=64 * KIB, reserve_size=4 * KIB
    ),
    index_write_buffer=KIB * KIB,
    index_cache=KIB * KIB,
)
QUEUES = 4


def fresh_id() -> bytes:
    return uuid_utils.uuid7().bytes[:14] + b"\0\0"


class LogWriter:
    """Appends what services and users append, in the form that they do it."""

    def __init__(self, broker: BrokerService) -> None:
        self.broker = broker
        self._topics: dict[str, int] = {}

    async def topic(self, name: str) -> int:
        if name not in self._topics:
            info = await self.broker.ensure_topic(EnsureTopic(name, QUEUES))
            self._topics[name] = info.id
        return self._topics[name]

    async def append(self, *runs: Run) -> None:
        await self.broker.append(Append(list(runs)))

    async def publish(self, topic: str, count: int, size: int = 100) -> list[bytes]:
        """Messages for now, with keys, tags and bodies of differing sizes."""
        topic_id = await self.topic(topic)
        ids = [fresh_id() for _ in range(count)]
        queues: dict[int, list[bytes]] = {}
        for i, event_id in enumerate(ids):
            record = encode_record(
                RecordKind.NORMAL,
                topic_id=topic_id,
                queue_id=i % QUEUES,
                event_id=event_id,
                born_ms=BORN_MS + i,
                key=b"" if i % 3 == 0 else f"schlüssel-{i}".encode(),
                tag=b"" if i % 2 == 0 else b"tag",
                properties=b"" if i % 5 else msgspec.msgpack.encode({"a": "b"}),
                body=b"x" * (size + i % 7),
            )
            queues.setdefault(i % QUEUES, []).append(record)
        runs = [Run(topic_id, queue, some) for queue, some in queues.items()]
        await self.append(*runs)
        return ids

    async def schedule(self, topic: str, count: int, due_ms: int) -> list[bytes]:
        topic_id = await self.topic(topic)
        records = [self._timer(topic_id, i, due_ms) for i in range(count)]
        await self.append(Run(SYS_SCHEDULE, 0, records))
        return [record[16:32] for record in records]

    def _timer(self, topic_id: int, i: int, due_ms: int) -> bytes:
        return encode_record(
            RecordKind.SCHEDULE,
            topic_id=topic_id,
            queue_id=i % QUEUES,
            event_id=fresh_id(),
            born_ms=BORN_MS,
            due_ms=due_ms,
            key=b"k\xff" if i == 1 else b"",  # no UTF-8
            body=b"later",
        )

    async def fire(self, topic: str, ids: list[bytes], due_ms: int) -> None:
        """The messages of timers, and the record that they have fired."""
        topic_id = await self.topic(topic)
        messages: dict[int, list[bytes]] = {}
        for i, event_id in enumerate(ids):
            message = encode_record(
                RecordKind.NORMAL,
                topic_id=topic_id,
                queue_id=i % QUEUES,
                event_id=event_id,
                born_ms=BORN_MS,
                due_ms=due_ms,
                body=b"later",
            )
            messages.setdefault(i % QUEUES, []).append(message)
        body = b"".join(keys.FIRED_ENTRY.pack(b"T", due_ms, one) for one in ids)
        fired = encode_record(RecordKind.FIRED, body=body)
        runs = [Run(topic_id, queue, some) for queue, some in messages.items()]
        await self.append(*runs, Run(SYS_FIRED, 0, [fired]))

    async def change_timers(self, topic: str, ids: list[bytes], due_ms: int) -> None:
        """Cancel, move, replace, fail and revive, each by a record of its kind."""
        topic_id = await self.topic(topic)
        kinds = (
            (RecordKind.CANCEL, 0, b"", 0),
            (RecordKind.RESCHEDULE, due_ms + 5, b"", 0),
            (RecordKind.REPLACE, due_ms + 6, b"new", 0),
            (RecordKind.FAILED, due_ms + 7, b"unknown_topic: gone", 1),
            (RecordKind.DEAD, 0, b"unknown_topic: gone for good", 2),
            (RecordKind.REDRIVEN, due_ms + 8, b"", 0),
        )
        records = [
            encode_record(
                kind,
                topic_id=topic_id,
                event_id=event_id,
                born_ms=BORN_MS,
                due_ms=due,
                body=body,
                attempt=attempt,
                version=2,
            )
            for (kind, due, body, attempt), event_id in zip(kinds, ids, strict=True)
        ]
        timers = [keys.timer(topic_id, due_ms, one) for one in ids]
        records += cancel_records(fresh_id(), timers)
        records += move_records(fresh_id(), [(one, due_ms + 9, 3) for one in timers])
        records.append(encode_record(RecordKind.OPERATION, event_id=fresh_id()))
        await self.append(Run(SYS_FIRED, 0, records))

    async def recur(self, topic: str, due_ms: int) -> None:
        """A schedule, what it brings, and its end."""
        topic_id = await self.topic(topic)
        schedule_id, first, second = fresh_id(), fresh_id(), fresh_id()
        plan = Plan(interval_ms=1000)
        progress = Progress(
            plan=plan,
            created_ms=BORN_MS,
            changed_ms=BORN_MS,
            topic_id=topic_id,
            reason="times",
        )
        fired = [Occurrence(due_ms, first), Occurrence(due_ms, second, True)]
        message = encode_record(
            RecordKind.NORMAL,
            topic_id=topic_id,
            queue_id=1,
            event_id=first,
            due_ms=due_ms,
            flags=RecordFlag.OCCURRENCE,
        )
        bodies = (
            (RecordKind.RECURRING, b"\0" * 8),
            (RecordKind.OCCURRED, msgspec.msgpack.encode(Occurred(progress, fired))),
            (RecordKind.RECURRING_ENDED, msgspec.msgpack.encode(progress)),
        )
        records = [
            encode_record(
                kind,
                topic_id=topic_id,
                event_id=schedule_id,
                born_ms=BORN_MS,
                due_ms=due_ms,
                key=b"every-second",
                body=body,
            )
            for kind, body in bodies
        ]
        runs = Run(topic_id, 1, [message]), Run(SYS_FIRED, 0, records)
        await self.append(*runs)

    async def begin(self, topic: str, group: str, count: int) -> tuple[bytes, Run]:
        """A transaction of messages for now, for later, and for after the commit."""
        topic_id = await self.topic(topic)
        identity = fresh_id()
        halves = [self._half(topic_id, identity, i) for i in range(count)]
        run = begin_run(identity, group, CheckPolicy(), BORN_MS, halves[:-1])
        more = added_run(identity, group, BORN_MS, count - 1, halves[-1:])
        await self.append(run)
        await self.append(more)
        return identity, Run(0, 0, halves)

    def _half(self, topic_id: int, identity: bytes, i: int) -> bytes:
        delay: tuple[dict[str, Any], ...] = (
            {"due_ms": 60_000, "flags": RecordFlag.AFTER_COMMIT},
            {"due_ms": BORN_MS + 86_400_000},
            {},
        )
        return encode_record(
            RecordKind.HALF,
            topic_id=topic_id,
            queue_id=i % QUEUES,
            event_id=message_id(identity, i),
            born_ms=BORN_MS,
            key=f"order-{i}".encode(),
            body=b"half",
            **delay[i % 3],
        )

    async def end(
        self, begun: tuple[bytes, Run], group: str, state: int, source: int, why: str
    ) -> None:
        identity, halves = begun
        info = EndInfo(why) if why else None
        op = op_record(identity, group, state, source, BORN_MS + 9, 2, info)
        is_committed = state == TransactionState.COMMITTED
        messages = [released(half, BORN_MS) for half in halves.records]
        await self.append(*runs_of(messages if is_committed else [], [op]))

    async def doubt(self, identity: bytes, group: str) -> None:
        queue = queue_of(identity)
        records = [
            check_record(identity, group, 1, BORN_MS, BORN_MS + 30_000, "no answer"),
            parked_record(identity, group, 1, BORN_MS + 1, "unknown"),
            resumed_record(identity, group, 1, BORN_MS + 2, EndInfo("by hand", "me")),
        ]
        await self.append(Run(SYS_TRANS_OP, queue, records))

    async def consume(self, topic: str, group: str) -> None:
        """Some acknowledged, some refused to death, some passed over."""
        policy = GroupPolicy(attempts_max=1)
        popped = await self.broker.pop(Pop(group, topic, count=10, policy=policy))
        receipts = [one.receipt for one in popped.messages]
        ack = Settle(group, SettleAction.ACK, receipts[::2])
        nack = Settle(group, SettleAction.NACK, receipts[1::2], policy=policy)
        await self.broker.settle(ack)
        await self.broker.settle(nack)
        await self.broker.commit_offsets(CommitOffsets(group + "2", topic, {0: 3}))
        await self.broker.commit_offsets(CommitOffsets(group + "2", topic, {0: 1}))

    async def everything(self) -> None:
        """A little of all kinds."""
        due_ms = BORN_MS + 1000
        await self.publish("orders", 40)
        await self.publish("invoices", 3, size=20_000)
        timers = await self.schedule("orders", 8, due_ms)
        await self.fire("orders", timers[:5], due_ms)
        await self.change_timers("orders", timers[2:], due_ms)
        await self.recur("orders", due_ms)
        outcomes = (
            (TransactionState.COMMITTED, Source.PRODUCER, ""),
            (TransactionState.COMMITTED, Source.CHECK, ""),
            (TransactionState.ROLLED_BACK, Source.OPERATOR, "it was a test"),
        )
        for state, source, why in outcomes:
            begun = await self.begin("orders", "shop", 4)
            await self.doubt(begun[0], "shop")
            await self.end(begun, "shop", state, source, why)
        await self.begin("invoices", "другая", 2)
        await self.consume("orders", "packers")


@asynccontextmanager
async def open_writer(
    folder: Path, store: StoreConfig = STORE
) -> AsyncGenerator[LogWriter, None]:
    broker = await BrokerService.open(folder, store)
    try:
        yield LogWriter(broker)
    finally:
        await broker.close()


async def write_everything(folder: Path, times: int = 1) -> None:
    """A closed store with some segments of all kinds of records."""
    async with open_writer(folder) as writer:
        for _ in range(times):
            await writer.everything()


def now_ms() -> int:
    return time.time_ns() // 1_000_000

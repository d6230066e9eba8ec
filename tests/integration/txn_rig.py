"""A broker and a transaction service on real folders, directly or over sockets."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uuid_utils

from halfpast_core_store.broker import (
    Append,
    Broker,
    EnsureTopic,
    Follow,
    Pull,
    TopicInfo,
)
from halfpast_core_store.broker_rpc import BrokerClient, serve_broker
from halfpast_core_store.config import LogConfig, StoreConfig
from halfpast_core_store.record import (
    Family,
    Record,
    RecordFlag,
    RecordKind,
    decode_record,
    encode_record,
)
from halfpast_core_store.rpc_server import Server
from halfpast_core_store.service import BrokerService
from halfpast_txn.config import TxnConfig
from halfpast_txn.half import begin_run, message_id
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.producer_group import CheckEndpoint
from halfpast_txn.service import TransactionService
from halfpast_txn.transactions import (
    AnswerChecks,
    Check,
    CheckAnswer,
    End,
    EndResult,
    EndTransactions,
    GetTransaction,
    ListTransactions,
    PollChecks,
    Source,
    Transaction,
    Transactions,
    TransactionState,
)
from halfpast_txn.transport import Verdict
from halfpast_txn.txn_rpc import TransactionsClient, serve_transactions

MIB = 1024 * 1024
STORE = StoreConfig(
    log=LogConfig(segment_size=16 * MIB, frame_size_max=8 * MIB, reserve_size=MIB // 4),
    index_write_buffer=MIB,
    index_cache=MIB,
)
TXN = TxnConfig(index_write_buffer=MIB, index_cache=MIB, index_flush_ms=500)
GROUP = "orders"
COMMITTED = TransactionState.COMMITTED
ROLLED_BACK = TransactionState.ROLLED_BACK
PREPARED = TransactionState.PREPARED
PARKED = TransactionState.PARKED
QUEUE_COUNT = 2


class Groups:
    """Producer groups by name, and where they are called."""

    def __init__(self) -> None:
        self.endpoints: dict[str, CheckEndpoint] = {}

    def check_endpoint(self, group: str) -> CheckEndpoint | None:
        return self.endpoints.get(group)


class EndpointTransport:
    """Calls endpoints that are functions here. `held` calls wait for `release`."""

    def __init__(self) -> None:
        self.verdicts: dict[bytes, Verdict] = {}
        self.asked: list[tuple[bytes, int]] = []
        self.running = 0
        self.running_max = 0
        self.closed = False
        self.release = asyncio.Event()
        self.release.set()

    async def ask(self, endpoint: CheckEndpoint, check: Check) -> Verdict:
        self.asked.append((check.transaction_id, check.check))
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        try:
            await asyncio.sleep(0)
            await self.release.wait()
        finally:
            self.running -= 1
        default = Verdict(state=0, cause="unknown")
        return self.verdicts.get(check.transaction_id, default)

    def counters(self) -> dict[str, float]:
        return {"http_calls_total": float(len(self.asked))}

    def gauges(self) -> dict[str, float]:
        return {}

    async def close(self) -> None:
        self.closed = True


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fresh_id() -> bytes:
    return uuid_utils.uuid7().bytes[:14] + b"\0\0"


class TxnRig:
    """`transactions` and `broker` are what a test speaks to."""

    broker: Broker
    transactions: Transactions
    broker_service: BrokerService
    service: TransactionService

    def __init__(
        self, folder: Path, over_socket: bool, config: TxnConfig = TXN
    ) -> None:
        self.folder = folder
        self.over_socket = over_socket
        self.config = config
        self.store = STORE
        self.groups = Groups()
        self.transport = EndpointTransport()
        self._broker_server: Server | None = None
        self._broker_client: BrokerClient | None = None
        self._server: Server | None = None
        self._client: TransactionsClient | None = None
        self._topic_ids: dict[str, int] = {}

    # --- processes --------------------------------------------------------------

    async def open_broker(self) -> None:
        self.broker_service = await BrokerService.open(self.folder / "data", self.store)
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

    async def open_service(self, broker: Broker | None = None) -> None:
        self.transport = EndpointTransport()
        self.service = await TransactionService.open(
            self.folder / "data",
            broker or self.broker,
            self.config,
            self.groups,
            self.transport,
        )
        if not self.over_socket:
            self.transactions = self.service
            return
        address = f"unix:{self.folder}/txn.sock"
        self._server = await serve_transactions(self.service, address)
        self.transactions = self._client = TransactionsClient(address)

    async def close_service(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._server is not None:
            await self._server.stop()
        await self.service.close()

    async def close(self) -> None:
        await self.close_service()
        if self._broker_client is not None:
            await self._broker_client.close()
        await self.close_broker()

    # --- use --------------------------------------------------------------------

    async def topic(self, name: str = "orders") -> TopicInfo:
        return await self.broker.ensure_topic(EnsureTopic(name, QUEUE_COUNT))

    async def halves(
        self, identity: bytes, count: int, first: int = 0, **fields: Any
    ) -> list[bytes]:
        topic = fields.pop("topic", "orders")
        if topic not in self._topic_ids:
            self._topic_ids[topic] = (await self.topic(topic)).id
        fields.setdefault("body", b"x" * 300)
        return [
            encode_record(
                RecordKind.HALF,
                topic_id=self._topic_ids[topic],
                queue_id=index % QUEUE_COUNT,
                event_id=message_id(identity, index),
                born_ms=now_ms(),
                **fields,
            )
            for index in range(first, first + count)
        ]

    async def begin(
        self,
        count: int = 1,
        policy: CheckPolicy | None = None,
        group: str = GROUP,
        delay_ms: int = 0,
        **fields: Any,
    ) -> bytes:
        """A transaction with so many messages; gives its id."""
        (identity,) = await self.begin_many(1, count, policy, group, delay_ms, **fields)
        return identity

    async def begin_many(
        self,
        transaction_count: int,
        count: int = 1,
        policy: CheckPolicy | None = None,
        group: str = GROUP,
        delay_ms: int = 0,
        **fields: Any,
    ) -> list[bytes]:
        """Several in one append."""
        if delay_ms:
            fields |= {"due_ms": delay_ms, "flags": RecordFlag.AFTER_COMMIT}
        identities = [fresh_id() for _ in range(transaction_count)]
        runs = [
            begin_run(
                identity,
                group,
                policy or CheckPolicy(),
                now_ms(),
                await self.halves(identity, count, **fields),
            )
            for identity in identities
        ]
        await self.broker.append(Append(runs))
        return identities

    async def end(
        self, identity: bytes, state: int = COMMITTED, **fields: Any
    ) -> EndResult:
        ends = [End(identity, state, **fields)]
        (result,) = (await self.transactions.end(EndTransactions(ends))).results
        return result

    async def force(self, identity: bytes, state: int = COMMITTED) -> EndResult:
        return await self.end(identity, state, source=Source.OPERATOR, reason="test")

    async def get(self, identity: bytes) -> Transaction:
        found = (await self.transactions.get(GetTransaction(identity))).transaction
        assert found is not None
        return found

    async def until(
        self, identity: bytes, condition: Callable[[Transaction], bool]
    ) -> Transaction:
        """Wait until this is true of a transaction."""
        async with asyncio.timeout(20):
            while not condition(found := await self.get(identity)):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return found

    async def listed(self, state: int, group: str = "") -> list[bytes]:
        found: list[bytes] = []
        request = ListTransactions(state, group, 37)
        while True:
            page = await self.transactions.list(request)
            found += [one.transaction_id for one in page.transactions]
            if not page.next_token:
                return found
            request.after = page.next_token

    async def poll(self, wait_ms: int = 10_000, group: str = GROUP) -> list[Check]:
        polled = await self.transactions.poll_checks(PollChecks(group, 1_000, wait_ms))
        return polled.checks

    async def answer(
        self, identity: bytes, state: int, check: int = 0, group: str = GROUP
    ) -> EndResult:
        answers = [CheckAnswer(identity, state, check)]
        ended = await self.transactions.answer_checks(AnswerChecks(group, answers))
        (result,) = ended.results
        return result

    async def arrivals(self, topic: str = "orders") -> list[Record]:
        """Every message in the topic's queues."""
        await self.topic(topic)
        found: list[Record] = []
        for queue in range(QUEUE_COUNT):
            offset = 0
            while True:
                pulled = await self.broker.pull(Pull(topic, queue, offset, 1_000))
                if not pulled.messages:
                    break
                offset = pulled.next_offset
                found += [decode_record(one.record) for one in pulled.messages]
        assert all(record.kind == RecordKind.NORMAL for record in found)
        return found

    async def records(self, families: int = Family.TRANSACTIONS) -> list[Record]:
        """Everything in the log that concerns transactions (or others)."""
        found: list[Record] = []
        position = 0
        while True:
            followed = await self.broker.follow(Follow(position, families))
            for frame in followed.frames:
                found += map(decode_record, frame.records)
            position = followed.next_position
            if position >= followed.log_end:
                return found

    async def outcomes(self, identity: bytes) -> list[Record]:
        """The OP records of a transaction: one, or none."""
        return [
            record
            for record in await self.records()
            if record.kind == RecordKind.OP and record.event_id == identity
        ]


def messages_of(identities: Sequence[bytes], count: int = 1) -> list[bytes]:
    return sorted(message_id(one, n) for one in identities for n in range(count))


def check_arrivals(found: Sequence[Record], wanted: Sequence[bytes]) -> None:
    """Each once, and none that is not wanted."""
    assert sorted(record.event_id for record in found) == sorted(wanted)


@asynccontextmanager
async def open_rig(
    folder: Path, over_socket: bool, **config: Any
) -> AsyncGenerator[TxnRig, None]:
    rig = TxnRig(folder, over_socket, replace(TXN, **config))
    await rig.open_broker()
    await rig.open_service()
    try:
        yield rig
    finally:
        await asyncio.wait_for(rig.close(), 30)

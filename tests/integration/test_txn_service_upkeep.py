"""What a transaction service keeps, forgets, holds and says: beside the promises."""

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from tests.integration.txn_rig import (
    COMMITTED,
    MIB,
    PREPARED,
    ROLLED_BACK,
    TxnRig,
    check_arrivals,
    fresh_id,
    messages_of,
    now_ms,
    open_rig,
)

from halfpast_core_store.broker import Acquire, Append, Empty, Hold, Run
from halfpast_core_store.config import LogConfig
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_txn.half import begin_run
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.transactions import (
    AnswerChecks,
    CheckAnswer,
    End,
    EndTransactions,
    GetTransaction,
)

NEVER = CheckPolicy(check_after_ms=200_000)
SMALL_LOG = LogConfig(
    segment_size=MIB,
    frame_size=MIB // 8,
    frame_size_max=MIB // 2,
    reserve_size=MIB // 16,
    retention_size=1,
)


@asynccontextmanager
async def small_log(folder: Path) -> AsyncGenerator[TxnRig, None]:
    """A log that would keep its last segment alone, and no Delay Server to hold it.

    The transaction service is not running yet.
    """
    rig = TxnRig(folder, over_socket=False)
    rig.store = replace(rig.store, log=SMALL_LOG, index_flush_ms=100)
    await rig.open_broker()
    await nobody_schedules(rig)
    yield rig
    await rig.close_broker()


async def nobody_schedules(rig: TxnRig) -> None:
    """As the Delay Server would do that has nothing to do."""
    acquired = await rig.broker.acquire(Acquire("chronos"))
    await rig.broker.hold(Hold("chronos", acquired.token, 2**60))


async def fill(rig: TxnRig, size: int = 6 * MIB) -> None:
    """Messages that have nothing to do with transactions."""
    topic = await rig.topic("filling")
    record = encode_record(RecordKind.NORMAL, topic_id=topic.id, body=bytes(10_000))
    for _ in range(size // 100_000):
        await rig.broker.append(Append([Run(topic.id, 0, [record] * 10)]))


async def log_start(rig: TxnRig) -> float:
    return (await rig.broker.status(Empty())).gauges["log_start_position"]


def cut(rig: TxnRig) -> None:
    """Delete now whatever of the log may be deleted."""
    store = rig.broker_service._store  # pyright: ignore[reportPrivateUsage]
    store.flush(store.log.durable_end)
    store.housekeep()


async def until_cut(rig: TxnRig, position: float) -> None:
    """Until the log begins behind this position."""
    async with asyncio.timeout(20):
        while await log_start(rig) <= position:
            await asyncio.sleep(0.05)
            cut(rig)


# --- retention ------------------------------------------------------------------


@pytest.mark.asyncio
async def test_the_log_is_kept_for_a_service_that_has_never_run(tmp_path: Path) -> None:
    async with small_log(tmp_path) as rig:
        await fill(rig)
        await until_cut(rig, 0)  # nothing for transactions: nothing is kept
        await fill(rig, MIB)
        begun_at = (await rig.broker.status(Empty())).gauges["log_durable_position"]
        identity = await rig.begin(2)
        await fill(rig)
        cut(rig)
        assert 0 < await log_start(rig) <= begun_at
        await rig.open_service()
        assert (await rig.end(identity)).code == ""
        check_arrivals(await rig.arrivals(), messages_of([identity], 2))
        await rig.close_service()


@pytest.mark.asyncio
async def test_open_transactions_outlive_the_log_that_brought_them(
    tmp_path: Path,
) -> None:
    async with small_log(tmp_path) as rig:
        await rig.open_service()
        identities = await rig.begin_many(3, 4, policy=NEVER, delay_ms=0)
        (asked,) = await rig.begin_many(1, policy=CheckPolicy(0, 200_000, 3))
        await rig.until(asked, lambda one: one.checks == 1)
        begun_before = (await rig.broker.status(Empty())).gauges["log_durable_position"]
        await fill(rig)
        await until_cut(rig, begun_before)
        assert (await rig.end(identities[0])).code == ""
        await rig.close_service()
        await rig.close_broker()
        await rig.open_broker()
        await nobody_schedules(rig)
        await rig.open_service()
        found = await rig.get(identities[1])
        assert (found.state, len(found.messages)) == (PREPARED, 4)
        assert (await rig.get(asked)).checks == 1
        assert (await rig.end(identities[1])).code == ""
        assert (await rig.end(identities[2], ROLLED_BACK)).code == ""
        assert (await rig.end(asked)).checks == 1
        arrived = messages_of(identities[:2], 4) + messages_of([asked])
        found_ids = {record.event_id for record in await rig.arrivals()}
        assert found_ids == set(arrived)
        await rig.close_service()


@pytest.mark.asyncio
async def test_a_gap_in_the_log_is_told(tmp_path: Path) -> None:
    async with small_log(tmp_path) as rig:
        await rig.open_service()
        lost = await rig.begin(1, policy=NEVER)
        await rig.get(lost)
        await fill(rig)
        await until_cut(rig, 0)
        await rig.close_service()
        shutil.rmtree(tmp_path / "data" / "txn")
        with structlog.testing.capture_logs() as lines:
            await rig.open_service()
        (line,) = lines
        assert line["log_level"] == "warning"
        assert "transactions begun before this are unknown" in str(line["event"])
        assert line["log_start"] > 0
        assert (await rig.end(lost)).code == "unknown_transaction"
        identity = await rig.begin(1)
        assert (await rig.end(identity)).code == ""
        await rig.close_service()
        with structlog.testing.capture_logs() as lines:
            await rig.open_service()
        assert lines == []
        assert (await rig.get(identity)).state == COMMITTED
        await rig.close_service()


@pytest.mark.asyncio
async def test_history_is_forgotten_by_and_by(tmp_path: Path) -> None:
    async with open_rig(tmp_path, over_socket=False, history_ms=1) as rig:
        ended = await rig.begin_many(120)
        opened = await rig.begin(1)
        ends = [
            End(one, (COMMITTED, ROLLED_BACK)[n % 2]) for n, one in enumerate(ended)
        ]
        await rig.transactions.end(EndTransactions(ends))
        async with asyncio.timeout(20):
            while any([await is_known(rig, one) for one in ended]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert (await rig.end(ended[0])).code == "unknown_transaction"
        assert await rig.listed(COMMITTED) == []
        assert (await rig.get(opened)).state == PREPARED
        check_arrivals(await rig.arrivals(), messages_of(ended[::2]))


async def is_known(rig: TxnRig, identity: bytes) -> bool:
    got = await rig.transactions.get(GetTransaction(identity))
    return got.transaction is not None


# --- bounds ---------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_hundred_thousand_open_ones_take_no_more_memory(tmp_path: Path) -> None:
    config = {"near_count_max": 2_000, "young_size_max": MIB}
    async with open_rig(tmp_path, over_socket=False, **config) as rig:
        some: list[bytes] = []
        for _ in range(100):
            some += (await begin_quickly(rig, 1_000))[::500]
        await rig.get(some[-1])
        core = rig.service._core  # pyright: ignore[reportPrivateUsage]
        assert core.open_count == 100_000
        assert core.young.size <= MIB
        assert len(core.young) <= MIB // 1_000
        # Drawn back when there are twice as many as may be, and then dropped.
        assert len(core.horizon) <= 2 * 2_000 + 1_000
        assert not core.claims
        assert not core.decided
        assert not core.asking
        assert len(await rig.listed(PREPARED)) == 100_000
        for identity in some:
            assert (await rig.end(identity)).code == ""
        check_arrivals(await rig.arrivals(), messages_of(some))
        await rig.close_service()
        started_at = asyncio.get_running_loop().time()
        await rig.open_service()
        assert asyncio.get_running_loop().time() - started_at < 20
        gauges = (await rig.transactions.status(Empty())).gauges
        assert gauges["transactions_open"] == 100_000 - len(some)


async def begin_quickly(
    rig: TxnRig, count: int, check_after_ms: int = 0
) -> list[bytes]:
    """As `begin_many`, for many more."""
    policy = CheckPolicy(check_after_ms or 200_000, 200_000, 9)
    identities = [fresh_id() for _ in range(count)]
    (half,) = await rig.halves(identities[0], 1)
    runs = [
        begin_run(
            one, "orders", policy, now_ms(), [half[:16] + one[:-1] + b"\1" + half[32:]]
        )
        for one in identities
    ]
    await rig.broker.append(Append(runs))
    return identities


@pytest.mark.asyncio
async def test_check_backs_that_nobody_takes_take_no_more_memory(
    tmp_path: Path,
) -> None:
    async with open_rig(
        tmp_path, over_socket=False, waiting_checks_max=100, near_count_max=200
    ) as rig:
        for _ in range(5):
            await begin_quickly(rig, 1_000, check_after_ms=1)
        async with asyncio.timeout(60):
            while await checks_sent(rig) < 5_000:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        status = await rig.transactions.status(Empty())
        assert status.gauges["checks_waiting"] == 100
        assert status.counters["checks_dropped_total"] == 4_900
        core = rig.service._core  # pyright: ignore[reportPrivateUsage]
        assert not core.asking
        assert not core.answers
        assert len(await rig.poll(0)) == 100


async def checks_sent(rig: TxnRig) -> float:
    counters = (await rig.transactions.status(Empty())).counters
    return counters['checks_total{transport="nobody"}']


# --- logging --------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("over_socket", [False, True])
async def test_ten_thousand_transactions_write_no_line_to_the_log(
    tmp_path: Path,
    over_socket: bool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with open_rig(tmp_path, over_socket) as rig:
        await rig.topic()
        with (
            caplog.at_level(logging.NOTSET),
            structlog.testing.capture_logs() as lines,
        ):
            capfd.readouterr()
            await ten_thousand(rig)
            found = [record for record in caplog.records if "halfpast" in record.name]
            printed = capfd.readouterr()
            assert (lines, found) == ([], [])
            assert (printed.out, printed.err) == ("", "")
            structlog.get_logger("halfpast.txn").warning("this one would be seen")
            logging.getLogger("halfpast.txn").warning("and this one")
            assert len(lines) == 1
            assert "and this one" in caplog.text
        counters = (await rig.transactions.status(Empty())).counters
        assert counters["transactions_begun_total"] == 10_000


async def ten_thousand(rig: TxnRig) -> None:
    """Begun, looked at, asked about, ended in every way, and contradicted."""
    for turn in range(9):
        identities = await begin_quickly(rig, 1_000)
        ends = [
            End(one, (COMMITTED, ROLLED_BACK)[(n + turn) % 2])
            for n, one in enumerate(identities)
        ]
        await rig.transactions.end(EndTransactions(ends))
        await rig.end(identities[0], COMMITTED)
        await rig.end(identities[0], ROLLED_BACK)
        await rig.get(identities[1])
    await rig.end(fresh_id())
    identities = await begin_quickly(rig, 1_000, check_after_ms=1)
    asked: set[bytes] = set()
    async with asyncio.timeout(60):
        while len(asked) < 1_000:
            checks = await rig.poll(1_000)
            asked |= {check.transaction_id for check in checks}
            answers = [
                CheckAnswer(one.transaction_id, (0, COMMITTED, ROLLED_BACK)[n % 3], 1)
                for n, one in enumerate(checks)
            ]
            await rig.transactions.answer_checks(AnswerChecks("orders", answers))
    assert asked == set(identities)

"""The transaction service beside a broker, directly and over sockets: the same
promises."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.txn_rig import (
    COMMITTED,
    GROUP,
    PARKED,
    PREPARED,
    ROLLED_BACK,
    TXN,
    TxnRig,
    check_arrivals,
    fresh_id,
    messages_of,
    now_ms,
    open_rig,
)

from halfpast_core_store.broker import Empty
from halfpast_core_store.errors import CoreError, FenceLost, FolderInUse
from halfpast_core_store.record import Family, RecordFlag, RecordKind
from halfpast_txn.errors import (
    MessagesOutOfOrder,
    TransactionConflict,
    TransactionParked,
    UnknownTransaction,
)
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.service import TransactionService
from halfpast_txn.transactions import (
    AddMessages,
    End,
    EndResult,
    EndTransactions,
    GetTransaction,
    Happening,
    ListTransactions,
    Resume,
    Source,
    TransactionState,
)

NEVER = CheckPolicy(check_after_ms=3_600_000)


@pytest_asyncio.fixture(params=["direct", "socket"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TxnRig]:
    async with open_rig(tmp_path, request.param == "socket") as rig:
        yield rig


# --- outcomes -------------------------------------------------------------------


@pytest.mark.asyncio
async def test_nobody_sees_a_message_before_the_commit(rig: TxnRig) -> None:
    identity = await rig.begin(3)
    assert await rig.arrivals() == []
    result = await rig.end(identity)
    assert (result.code, result.state, result.checks) == ("", COMMITTED, 0)
    assert abs(result.decided_ms - now_ms()) < 20_000
    check_arrivals(await rig.arrivals(), messages_of([identity], 3))
    (op,) = await rig.outcomes(identity)
    assert (op.version, op.flags, op.attempt) == (1, 0, 0)


@pytest.mark.asyncio
async def test_nobody_ever_sees_a_message_of_a_rollback(rig: TxnRig) -> None:
    identity = await rig.begin(3)
    assert (await rig.end(identity, ROLLED_BACK)).state == ROLLED_BACK
    assert await rig.arrivals() == []
    assert [op.version for op in await rig.outcomes(identity)] == [2]


@pytest.mark.asyncio
async def test_delayed_messages_are_scheduled_by_the_commit(rig: TxnRig) -> None:
    identity = await rig.begin(2, delay_ms=60_000)
    assert await rig.records(Family.TIMERS) == []
    result = await rig.end(identity)
    scheduled = await rig.records(Family.TIMERS)
    assert [record.kind for record in scheduled] == [RecordKind.SCHEDULE] * 2
    assert {record.due_ms for record in scheduled} == {result.decided_ms + 60_000}
    assert {record.flags for record in scheduled} == {0}
    assert await rig.arrivals() == []


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK])
async def test_an_outcome_is_repeated_and_never_changed(
    rig: TxnRig, state: TransactionState
) -> None:
    identity = await rig.begin(1)
    first = await rig.end(identity, state)
    other = ROLLED_BACK if state == COMMITTED else COMMITTED
    for _ in range(3):
        assert await rig.end(identity, state) == first
        told = await rig.end(identity, other)
        assert (told.code, told.state) == ("transaction_conflict", state)
        await rig.get(identity)  # by then it has come back from the log
    assert len(await rig.outcomes(identity)) == 1
    assert len(await rig.arrivals()) == (state == COMMITTED)


@pytest.mark.asyncio
async def test_an_id_that_nobody_knows(rig: TxnRig) -> None:
    identity = fresh_id()
    assert (await rig.end(identity)).code == "unknown_transaction"
    found = await rig.transactions.get(GetTransaction(identity))
    assert found.transaction is None
    halves = await rig.halves(identity, 1)
    with pytest.raises(UnknownTransaction):
        await rig.transactions.add(AddMessages(identity, 0, halves))
    with pytest.raises(UnknownTransaction):
        await rig.transactions.resume(Resume(identity))


@pytest.mark.asyncio
async def test_two_contradicting_calls_at_once_one_wins_and_both_learn_it(
    rig: TxnRig,
) -> None:
    identities = await rig.begin_many(60)
    states = [COMMITTED, ROLLED_BACK]
    calls = [
        rig.end(identity, states[(number + turn) % 2])
        for number, identity in enumerate(identities)
        for turn in range(2)
    ]
    results = await asyncio.gather(*calls)
    committed: list[bytes] = []
    for number, identity in enumerate(identities):
        pair = results[2 * number : 2 * number + 2]
        assert sorted(result.code for result in pair) == ["", "transaction_conflict"]
        assert pair[0].state == pair[1].state
        assert pair[0].decided_ms == pair[1].decided_ms
        assert len(await rig.outcomes(identity)) == 1
        if pair[0].state == COMMITTED:
            committed.append(identity)
    check_arrivals(await rig.arrivals(), messages_of(committed))


@pytest.mark.asyncio
async def test_a_crowd_of_repetitions_makes_one_outcome(rig: TxnRig) -> None:
    identity = await rig.begin(5)
    results = await asyncio.gather(*[rig.end(identity) for _ in range(100)])
    assert all(result == results[0] for result in results)
    check_arrivals(await rig.arrivals(), messages_of([identity], 5))


@pytest.mark.asyncio
async def test_many_ends_in_one_call_each_by_itself(rig: TxnRig) -> None:
    identities = await rig.begin_many(1_000)
    ends = [
        End(one, (COMMITTED, ROLLED_BACK)[n % 2]) for n, one in enumerate(identities)
    ]
    ends[500] = End(fresh_id(), COMMITTED)
    results = (await rig.transactions.end(EndTransactions(ends))).results
    assert results[500].code == "unknown_transaction"
    assert [n for n, result in enumerate(results) if result.code] == [500]
    wanted = [one for n, one in enumerate(identities) if n % 2 == 0 and n != 500]
    check_arrivals(await rig.arrivals(), messages_of(wanted))
    assert await rig.listed(PREPARED) == [identities[500]]


@pytest.mark.asyncio
async def test_what_began_a_moment_ago_is_known(rig: TxnRig) -> None:
    # The service follows the log; who asks need not wait for that.
    for _ in range(20):
        identity = await rig.begin(1)
        assert (await rig.end(identity)).code == ""
        identity = await rig.begin(1)
        assert (await rig.get(identity)).state == PREPARED
        assert (await rig.answer(identity, 0)).state == PREPARED
        await rig.end(identity, ROLLED_BACK)


@pytest.mark.asyncio
async def test_a_large_transaction_is_whole_whenever_it_is_ended(rig: TxnRig) -> None:
    # It is applied in slices: an end between two would have missed some messages.
    identities = [await rig.begin(900) for _ in range(4)]
    results = await asyncio.gather(*[rig.end(one) for one in identities])
    assert [result.code for result in results] == [""] * 4
    check_arrivals(await rig.arrivals(), messages_of(identities, 900))


@pytest.mark.asyncio
async def test_the_wrong_group_ends_nothing(rig: TxnRig) -> None:
    identity = await rig.begin(1)
    assert (await rig.end(identity, group="others")).code == "wrong_producer_group"
    assert (await rig.answer(identity, 2, group="x")).code == "wrong_producer_group"
    assert (await rig.get(identity)).state == PREPARED


# --- adding -----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_messages_are_added_once(rig: TxnRig) -> None:
    identity = await rig.begin(1, policy=NEVER)
    more = await rig.halves(identity, 300, 1)
    for _ in range(3):
        added = await rig.transactions.add(AddMessages(identity, 1, more))
        assert added.message_count == 301
    with pytest.raises(MessagesOutOfOrder):
        await rig.transactions.add(AddMessages(identity, 400, more))
    found = await rig.get(identity)
    assert found.message_count == len(found.messages) == 301
    assert [what for _, what in found.timeline] == [Happening.BEGUN, Happening.ADDED]
    assert (await rig.end(identity)).code == ""
    check_arrivals(await rig.arrivals(), messages_of([identity], 301))
    with pytest.raises(TransactionConflict):
        await rig.transactions.add(AddMessages(identity, 301, more))


@pytest.mark.asyncio
async def test_additions_and_an_end_at_once_make_one_sequence(rig: TxnRig) -> None:
    identity = await rig.begin(1)

    async def add(first: int) -> int:
        halves = await rig.halves(identity, 1, first)
        try:
            added = await rig.transactions.add(AddMessages(identity, first, halves))
        except (MessagesOutOfOrder, TransactionConflict):
            return 0
        return added.message_count

    results = await asyncio.gather(*[add(n) for n in (1, 2, 1, 3)], rig.end(identity))
    count = max(1, *[one for one in results if isinstance(one, int)])
    check_arrivals(await rig.arrivals(), messages_of([identity], count))


# --- looking -----------------------------------------------------------------------


@pytest.mark.asyncio
async def test_all_about_a_transaction(rig: TxnRig) -> None:
    identity = await rig.begin(
        2, policy=NEVER, delay_ms=5_000, key=b"k", tag=b"t", body=b"12345"
    )
    found = await rig.get(identity)
    assert (found.state, found.group, found.message_count) == (PREPARED, GROUP, 2)
    assert (found.checks, found.check_max, found.check_interval_ms) == (0, 15, 30_000)
    assert found.next_ms == found.begun_ms + 3_600_000
    assert found.decided_ms == found.source == 0
    head = found.messages[1]
    assert (head.event_id, head.key, head.tag) == (identity[:-1] + b"\2", b"k", b"t")
    assert (head.size, head.delay_ms, head.due_ms) == (5, 5_000, 0)
    await rig.end(identity)
    found = await rig.get(identity)
    assert (found.state, found.next_ms, found.messages) == (COMMITTED, 0, [])
    assert (found.source, found.check) == (Source.PRODUCER, 0)
    assert [what for _, what in found.timeline] == [
        Happening.BEGUN,
        Happening.COMMITTED,
    ]


@pytest.mark.asyncio
async def test_whoever_was_answered_sees_it_everywhere(rig: TxnRig) -> None:
    # A durable outcome that has not come back from the log yet is no open one.
    for number in range(30):
        identity = await rig.begin(1)
        state = (COMMITTED, ROLLED_BACK)[number % 2]
        await rig.end(identity, state)
        if number % 3:
            assert (await rig.get(identity)).state == state
        else:
            assert identity in await rig.listed(state)
            assert await rig.listed(PREPARED) == []


@pytest.mark.asyncio
async def test_lists_by_state_and_group(rig: TxnRig) -> None:
    mine = await rig.begin_many(100, policy=NEVER)
    others = await rig.begin_many(5, policy=NEVER, group="others")
    await rig.end(mine[3])
    await rig.end(mine[7], ROLLED_BACK)
    opened = [one for one in mine if one not in (mine[3], mine[7])]
    assert await rig.listed(PREPARED) == sorted(opened + others)
    assert await rig.listed(PREPARED, GROUP) == sorted(opened)
    assert await rig.listed(PREPARED, "others") == sorted(others)
    assert await rig.listed(COMMITTED) == [mine[3]]
    assert await rig.listed(ROLLED_BACK, "others") == []
    assert await rig.listed(PARKED) == []
    page = await rig.transactions.list(ListTransactions(limit=2))
    assert [len(one.messages) for one in page.transactions] == [0, 0]


@pytest.mark.asyncio
async def test_the_status_counts(rig: TxnRig) -> None:
    first, second, _ = await rig.begin_many(3)
    await rig.end(first)
    await rig.force(second, ROLLED_BACK)
    await rig.get(second)
    status = await rig.transactions.status(Empty())
    counters = status.counters
    assert counters["transactions_begun_total"] == 3
    ended = "transactions_ended_total"
    assert counters[f'{ended}{{outcome="committed",source="producer"}}'] == 1
    assert counters[f'{ended}{{outcome="rolled_back",source="operator"}}'] == 1
    assert status.gauges["transactions_open"] == 1
    assert status.gauges["transactions_claimed"] == 0
    assert status.gauges["txn_service_ready"] == 1


# --- parked --------------------------------------------------------------------------


async def parked(rig: TxnRig, count: int = 1) -> bytes:
    identity = await rig.begin(count, policy=CheckPolicy(0, 100, 1))
    await rig.until(identity, lambda one: one.state == PARKED)
    return identity


@pytest.mark.asyncio
async def test_a_parked_one_waits_for_an_operator(rig: TxnRig) -> None:
    identity = await parked(rig)
    for state in COMMITTED, ROLLED_BACK:
        told = await rig.end(identity, state)
        assert (told.code, told.state) == ("transaction_parked", PARKED)
        assert (await rig.answer(identity, state)).code == "transaction_parked"
    assert (await rig.answer(identity, 0)).state == PARKED
    halves = await rig.halves(identity, 1, 1)
    with pytest.raises(TransactionParked):
        await rig.transactions.add(AddMessages(identity, 1, halves))
    assert await rig.listed(PARKED) == [identity]
    assert await rig.arrivals() == []
    status = await rig.transactions.status(Empty())
    assert status.counters["transactions_parked_total"] == 1
    assert status.gauges["transactions_parked"] == 1
    result = await rig.force(identity)
    assert (result.code, result.source) == ("", Source.OPERATOR)
    check_arrivals(await rig.arrivals(), messages_of([identity]))
    (op,) = await rig.outcomes(identity)
    assert op.flags == RecordFlag.FORCED
    assert (await rig.get(identity)).reason == "test"


@pytest.mark.asyncio
async def test_a_resumed_one_is_asked_about_again(rig: TxnRig) -> None:
    identity = await parked(rig)
    assert await rig.poll(0) == []  # nobody may answer, so nobody is asked
    view = await rig.transactions.resume(Resume(identity, "fixed", "me"))
    assert (view.state, view.reason, view.by) == (PREPARED, "fixed", "me")
    (check,) = await rig.poll()
    assert (check.transaction_id, check.check) == (identity, 2)
    assert (await rig.answer(identity, COMMITTED, 2)).code == ""
    check_arrivals(await rig.arrivals(), messages_of([identity]))
    with pytest.raises(TransactionConflict):
        await rig.transactions.resume(Resume(identity))


# --- restarts ------------------------------------------------------------------------


async def in_every_state(rig: TxnRig) -> dict[str, bytes]:
    """One transaction in each state that is worth keeping."""
    found = {
        "parked": await parked(rig, 2),
        "committed": await rig.begin(1),
        "rolled back": await rig.begin(1),
        "prepared": await rig.begin(3, policy=NEVER),
        "checked": await rig.begin(1, policy=CheckPolicy(0, 3_600_000, 9)),
        "by a check-back": await rig.begin(1, policy=CheckPolicy(0, 3_600_000, 9)),
        "added to": await rig.begin(1, policy=NEVER),
    }
    await rig.end(found["committed"])
    await rig.end(found["rolled back"], ROLLED_BACK)
    halves = await rig.halves(found["added to"], 2, 1)
    await rig.transactions.add(AddMessages(found["added to"], 1, halves))
    for name in ("checked", "by a check-back"):
        await rig.until(found[name], lambda one: one.checks == 1)
    await rig.answer(found["by a check-back"], COMMITTED, 1)
    return found


@pytest.mark.asyncio
@pytest.mark.parametrize("rebuilt", [False, True])
async def test_a_restart_keeps_every_state_and_every_count(
    rig: TxnRig, rebuilt: bool
) -> None:
    identities = await in_every_state(rig)
    before = {name: await rig.get(one) for name, one in identities.items()}
    lists = [await rig.listed(state) for state in TransactionState]
    arrived = len(await rig.arrivals())
    await rig.close_service()
    if rebuilt:
        shutil.rmtree(rig.folder / "data" / "txn")
    await rig.open_service()
    for name, identity in identities.items():
        assert await rig.get(identity) == before[name], name
    assert [await rig.listed(state) for state in TransactionState] == lists
    gauges = (await rig.transactions.status(Empty())).gauges
    assert (gauges["transactions_open"], gauges["transactions_parked"]) == (4, 1)
    for name in ("prepared", "checked", "added to"):
        assert (await rig.end(identities[name])).code == ""
    assert (await rig.force(identities["parked"])).code == ""
    assert (await rig.end(identities["committed"])).code == ""
    assert (await rig.end(identities["rolled back"])).code == "transaction_conflict"
    assert len(await rig.arrivals()) == arrived + 3 + 1 + 3 + 2


@pytest.mark.asyncio
async def test_a_restart_goes_on_counting_check_backs(rig: TxnRig) -> None:
    identity = await rig.begin(1, policy=CheckPolicy(0, 200, 4))
    (first,) = await rig.poll()
    await rig.close_service()
    await rig.open_service()
    (second,) = await rig.poll()
    assert (first.check, second.check) == (1, 2)
    assert second.transaction_id == identity
    assert (await rig.answer(identity, COMMITTED, 2)).code == ""
    (op,) = await rig.outcomes(identity)
    assert (op.flags, op.attempt) == (RecordFlag.FROM_CHECK, 2)


@pytest.mark.asyncio
async def test_what_happens_while_the_service_is_away_is_made_up_for(
    rig: TxnRig,
) -> None:
    identities = await rig.begin_many(5)
    await rig.close_service()
    identities += await rig.begin_many(5)
    (asked,) = await rig.begin_many(1, policy=CheckPolicy(0, 60_000, 3))
    await rig.open_service()
    assert [check.transaction_id for check in await rig.poll()] == [asked]
    for identity in identities:
        assert (await rig.end(identity)).code == ""
    check_arrivals(await rig.arrivals(), messages_of(identities))


@pytest.mark.asyncio
async def test_the_folder_is_for_one_at_a_time(rig: TxnRig) -> None:
    with pytest.raises(FolderInUse):
        await TransactionService.open(
            rig.folder / "data", rig.broker, TXN, rig.groups, rig.transport
        )
    identity = await rig.begin(1)
    assert (await rig.end(identity)).code == ""  # the first one was not disturbed


@pytest.mark.asyncio
@pytest.mark.parametrize("by", ["end", "add", "check-back", "flush"])
async def test_who_loses_the_role_fails(rig: TxnRig, by: str) -> None:
    identity = await rig.begin(1, policy=NEVER)
    await rig.get(identity)
    other = await TransactionService.open(
        rig.folder / "other", rig.broker, TXN, rig.groups, rig.transport
    )
    if by == "end":
        assert (await rig.end(identity)).code == "fence_lost"
    elif by == "add":
        halves = await rig.halves(identity, 1, 1)
        with pytest.raises(FenceLost):
            await rig.transactions.add(AddMessages(identity, 1, halves))
    elif by == "check-back":
        await rig.begin(1, policy=CheckPolicy(0, 60_000, 3))
    else:
        await rig.begin(1, policy=NEVER)
    failed = asyncio.shield(rig.service.failed)
    with pytest.raises(FenceLost):
        await asyncio.wait_for(failed, 20)
    with pytest.raises(CoreError):
        await rig.end(identity)
    assert (await rig.transactions.status(Empty())).gauges["txn_service_ready"] == 0
    ended = await other.end(EndTransactions([End(identity, ROLLED_BACK)]))
    assert ended.results[0].state == ROLLED_BACK
    assert await rig.arrivals() == []
    await other.close()


@pytest.mark.asyncio
async def test_a_restarted_broker_is_found_again(tmp_path: Path) -> None:
    async with open_rig(tmp_path, over_socket=True) as rig:
        wanted: list[bytes] = []
        for grace_s in (0.0, 0.0, 1.0):
            identities = await rig.begin_many(300)
            calls = [asyncio.create_task(rig.end(one)) for one in identities]
            await asyncio.sleep(0.01)  # amid the commits
            await rig.close_broker(grace_s)
            await rig.open_broker()
            async with asyncio.timeout(20):
                await asyncio.gather(*calls, return_exceptions=True)
            for identity in identities:
                result = await settled(rig, identity)
                assert (result.code, result.state) == ("", COMMITTED)
            wanted += identities
            check_arrivals(await rig.arrivals(), messages_of(wanted))
            assert not rig.service.failed.done()
        gauges = (await rig.transactions.status(Empty())).gauges
        assert gauges["txn_service_ready"] == 1
        assert gauges["transactions_claimed"] == gauges["transactions_open"] == 0


async def settled(rig: TxnRig, identity: bytes) -> EndResult:
    """Commit, as often as it takes."""
    async with asyncio.timeout(30):
        while True:
            try:
                result = await rig.end(identity)
            except CoreError:
                await asyncio.sleep(0.02)
                continue
            if result.code in ("", "transaction_conflict", "unknown_transaction"):
                return result
            await asyncio.sleep(0.02)

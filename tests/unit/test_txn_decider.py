"""From a caller's wish to a durable record and back."""

import asyncio

import pytest
from tests.unit.txn_deciding import Deciding, soon, turns
from tests.unit.txn_line import (
    COMMITTED,
    ROLLED_BACK,
    Line,
    begin_records,
    half_record,
    transaction_id,
)

from halfpast_core_store.errors import CoreError, Overloaded
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable
from halfpast_txn import decider as decider_module
from halfpast_txn.decisions import Command, decide_add
from halfpast_txn.errors import UnknownTransaction
from halfpast_txn.transactions import Added, AddMessages, End, EndResult


def rig(count: int, **config: int) -> Deciding:
    line = Line(**config)
    for number in range(count):
        line.begin(number)
    return Deciding(line)


def commit(number: int) -> End:
    return End(transaction_id(number), COMMITTED)


def roll_back(number: int) -> End:
    return End(transaction_id(number), ROLLED_BACK)


def codes(results: list[EndResult]) -> list[str]:
    return [result.code for result in results]


@pytest.mark.asyncio
async def test_each_is_answered_in_its_place() -> None:
    deciding = rig(3)
    ends = [commit(0), roll_back(9), roll_back(1), commit(2)]
    results = await deciding.decider.end(ends)
    assert codes(results) == ["", "unknown_transaction", "", ""]
    assert [result.state for result in results] == [COMMITTED, 0, ROLLED_BACK, 2]
    assert len(deciding.appended) == 1
    assert await deciding.decider.end([]) == []


@pytest.mark.asyncio
async def test_contradictions_in_one_request_and_between_two() -> None:
    deciding = rig(2)
    one, two = await asyncio.gather(
        deciding.decider.end([commit(0), roll_back(0), commit(0)]),
        deciding.decider.end([roll_back(0), roll_back(1)]),
    )
    assert codes(one) == ["", "transaction_conflict", ""]
    assert codes(two) == ["transaction_conflict", ""]
    assert one[0] == one[2]
    assert {result.state for result in (*one, two[0])} == {COMMITTED}
    deciding.follow()
    assert len(deciding.line.sent) == 1


@pytest.mark.asyncio
async def test_what_is_known_needs_no_look_at_the_log_what_is_not_needs_one() -> None:
    deciding = rig(1)
    await deciding.decider.end([commit(0)])
    assert deciding.catch_ups == 0
    deciding.line.append_records(
        begin_records(1, [half_record(1)], deciding.line.now_ms)
    )
    results = await deciding.decider.end([commit(1), commit(7), commit(8)])
    assert codes(results) == ["", "unknown_transaction", "unknown_transaction"]
    assert deciding.catch_ups == 1


@pytest.mark.asyncio
async def test_after_a_refusal_the_next_caller_decides() -> None:
    deciding = rig(1)
    deciding.held = True
    first = asyncio.create_task(deciding.decider.end([commit(0)]))
    await turns(lambda: deciding.gates)
    second = asyncio.create_task(deciding.decider.end([roll_back(0)]))
    await turns(lambda: deciding.waiters._waiters)  # pyright: ignore[reportPrivateUsage]
    deciding.gates[0].refuse(Overloaded("end-transaction"))
    assert codes(await first) == ["overloaded"]
    await turns(lambda: len(deciding.gates) == 2)
    deciding.gates[1].open()
    assert [(r.code, r.state) for r in await second] == [("", ROLLED_BACK)]


@pytest.mark.asyncio
async def test_a_caller_that_goes_leaves_its_outcome_on_its_way() -> None:
    deciding = rig(1)
    deciding.held = True
    call = asyncio.create_task(deciding.decider.end([commit(0)]))
    await turns(lambda: deciding.gates)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    other = asyncio.create_task(deciding.decider.end([roll_back(0)]))
    await turns(lambda: deciding.waiters._waiters)  # pyright: ignore[reportPrivateUsage]
    deciding.gates[0].open()
    (told,) = await other
    assert (told.code, told.state) == ("transaction_conflict", COMMITTED)


@pytest.mark.asyncio
async def test_while_nothing_is_decided_everybody_is_told_so() -> None:
    deciding = rig(1)
    deciding.claims.live = False
    with pytest.raises(Unavailable):
        await deciding.decider.end([commit(0), commit(9)])
    assert not deciding.line.core.claims


@pytest.mark.asyncio
@pytest.mark.parametrize("late", ["busy", "unknown"])
async def test_what_was_stored_is_told_though_the_rest_was_not(late: str) -> None:
    # All of it would have been "unavailable", which says that nothing was begun.
    deciding = rig(2)
    deciding.held = True
    rest = commit(1) if late == "busy" else commit(9)
    if late == "busy":
        deciding.line.core.claims.add(transaction_id(1))
    else:
        deciding.catch_up_error = ConnectionLost("broker", "test")
    call = asyncio.create_task(deciding.decider.end([rest, commit(0)]))
    await turns(lambda: deciding.gates)
    deciding.gates[0].open()
    if late == "busy":
        await turns(lambda: deciding.line.core.decided)
        deciding.claims.lose()
        deciding.waiters.wake(transaction_id(1))
    results = await soon(call)
    code = "unavailable" if late == "busy" else "connection_lost"
    assert codes(results) == [code, ""]


@pytest.mark.asyncio
async def test_nobody_waits_for_a_claim_of_a_service_that_has_failed() -> None:
    # It wakes those who wait, once; who begins to wait after that waits for ever.
    deciding = rig(2)
    deciding.held = True
    deciding.line.core.claims.add(transaction_id(1))
    call = asyncio.create_task(deciding.decider.end([commit(0), commit(1)]))
    await turns(lambda: deciding.gates)
    deciding.fail(OSError("broken"))
    deciding.gates[0].open()
    results = await soon(call)
    assert codes(results) == ["", "unavailable"]


@pytest.mark.asyncio
async def test_a_crowd_of_ends_lets_others_have_their_turn() -> None:
    deciding = rig(1_000)
    turn_count = 0

    async def others() -> None:
        nonlocal turn_count
        while True:
            turn_count += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    ends = [commit(number) for number in range(1_000)]
    results = await deciding.decider.end(ends)
    task.cancel()
    assert set(codes(results)) == {""}
    assert turn_count >= 1_000 * 1_024 // decider_module.SLICE_SIZE
    assert len(deciding.appended) <= 30


@pytest.mark.asyncio
async def test_when_the_role_is_lost_amid_a_crowd_the_rest_is_told() -> None:
    deciding = rig(300)
    deciding.held = True
    ends = [commit(number) for number in range(300)]
    call = asyncio.create_task(deciding.decider.end(ends))
    await asyncio.sleep(0)
    deciding.claims.lose()
    await turns(lambda: deciding.gates)
    for gate in deciding.gates:
        gate.open()
    results = await soon(call)
    found = codes(results)
    stored = found.count("")
    assert 0 < stored < 300
    assert found == [""] * stored + ["unavailable"] * (300 - stored)
    assert not deciding.line.core.claims


# --- commands -----------------------------------------------------------------------


def add(deciding: Deciding, number: int, first: int = 1) -> asyncio.Task[object]:
    request = AddMessages(transaction_id(number), first, [half_record(number, first)])

    async def run() -> Added | Command:
        return await deciding.decider.decide(
            lambda: decide_add(deciding.line.core, request)
        )

    return asyncio.create_task(run())


@pytest.mark.asyncio
async def test_a_command_is_answered_when_it_has_been_applied() -> None:
    deciding = rig(1)
    task = add(deciding, 0)
    await turns(lambda: deciding.appended)
    assert not task.done()
    deciding.follow()
    assert isinstance(await soon(task), Command)
    assert deciding.line.status(0).message_count == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [Overloaded("send"), ConnectionLost("a", "b")])
async def test_a_command_that_fails_raises(error: CoreError) -> None:
    deciding = rig(1)
    deciding.held = True
    task = add(deciding, 0)
    await turns(lambda: deciding.gates)
    deciding.gates[0].refuse(error)
    with pytest.raises(type(error)):
        await soon(task)
    assert bool(deciding.line.core.claims) == isinstance(error, ConnectionLost)
    deciding.take_role()
    assert not deciding.line.core.claims


@pytest.mark.asyncio
async def test_a_command_counts_under_the_role_it_was_decided_in() -> None:
    deciding = rig(1)
    task = add(deciding, 0)
    await turns(lambda: deciding.line.core.claims)
    deciding.take_role()  # before the command's task has begun
    with pytest.raises(CoreError):
        await soon(task)
    deciding.follow()
    assert deciding.line.status(0).message_count == 1
    assert deciding.failures == []


@pytest.mark.asyncio
async def test_a_command_of_a_caller_that_goes_is_carried_out() -> None:
    deciding = rig(1)
    deciding.held = True
    task = add(deciding, 0)
    await turns(lambda: deciding.gates)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    deciding.gates[0].open()
    await turns(lambda: deciding.appended)
    deciding.follow()
    assert not deciding.line.core.claims
    await soon(deciding.decider.close())


@pytest.mark.asyncio
async def test_a_command_of_a_service_that_fails_is_unsure() -> None:
    deciding = rig(1)
    task = add(deciding, 0)
    await turns(lambda: deciding.appended)
    deciding.fail(OSError("broken"))
    with pytest.raises(ConnectionLost):
        await soon(task)


@pytest.mark.asyncio
async def test_refusals_come_from_the_latest_state() -> None:
    deciding = rig(1)
    with pytest.raises(UnknownTransaction):
        await soon(add(deciding, 9))
    assert deciding.catch_ups == 1


@pytest.mark.asyncio
async def test_close_sends_commands_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider_module, "CLOSE_S", 0.01)
    deciding = rig(1)
    deciding.held = True
    task = add(deciding, 0)
    await turns(lambda: deciding.gates)
    await soon(deciding.decider.close())
    with pytest.raises(ConnectionLost):
        await soon(task)

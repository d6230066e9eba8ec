"""Outcomes on their way to the log."""

import asyncio

import pytest
from tests.unit.txn_deciding import Deciding, soon, turns
from tests.unit.txn_line import (
    COMMITTED,
    ROLLED_BACK,
    Line,
    begin_records,
    ending_of,
    half_record,
    transaction_id,
)

from halfpast_core_store.errors import FenceLost, Overloaded
from halfpast_core_store.rpc_errors import ConnectionLost
from halfpast_txn import ender as ender_module
from halfpast_txn.claims import ROLE
from halfpast_txn.core import Ending
from halfpast_txn.ender import IN_FLIGHT_MAX, Departure, Ender, result_of
from halfpast_txn.transactions import End


def rig(count: int, size: int = 300, **config: int) -> tuple[Deciding, Ender]:
    """Transactions 0 to `count`, each with one message of so many bytes."""
    line = Line(**config)
    for number in range(count):
        half = half_record(number, 0, body=bytes(size))
        line.append_records(begin_records(number, [half], line.now_ms))
    line.follow()
    deciding = Deciding(line)
    ender = Ender(line.core, deciding.claims, deciding.append, deciding.loop)
    return deciding, ender


def put(deciding: Deciding, ender: Ender, number: int) -> tuple[Ending, Departure]:
    end = End(transaction_id(number), COMMITTED)
    ending = ending_of(deciding.line.core.decide(end))
    return ending, ender.put(ending)


@pytest.mark.asyncio
async def test_what_is_decided_in_one_turn_travels_together() -> None:
    deciding, ender = rig(50)
    put_all = [put(deciding, ender, number) for number in range(50)]
    assert len({departure for _, departure in put_all}) == 1
    assert await soon(put_all[0][1].done) is None
    assert len(deciding.appended) == 1
    assert not deciding.line.core.claims
    assert len(deciding.line.core.decided) == 50
    assert not ender.is_full
    deciding.follow()
    assert deciding.line.core.decided == {}


@pytest.mark.asyncio
async def test_large_ones_travel_alone_and_few_at_a_time() -> None:
    deciding, ender = rig(10, size=600, end_size=1_000)
    deciding.held = True
    put_all = [put(deciding, ender, number) for number in range(10)]
    assert len({departure for _, departure in put_all}) == 10
    await turns(lambda: len(deciding.gates) == IN_FLIGHT_MAX)
    for opened in range(10):
        assert len(deciding.gates) == min(10, opened + IN_FLIGHT_MAX)
        deciding.gates[opened].open()
        await soon(put_all[opened][1].done)
        await turns(lambda o=opened: len(deciding.gates) >= min(10, o + 5))  # type: ignore[misc]
    assert len(deciding.line.core.decided) == 10


@pytest.mark.asyncio
async def test_what_comes_while_all_are_under_way_gathers() -> None:
    deciding, ender = rig(50, size=600, end_size=1_000)
    deciding.held = True
    for number in range(4):
        put(deciding, ender, number)
    await turns(lambda: len(deciding.gates) == 4)
    _, first = put(deciding, ender, 4)
    _, second = put(deciding, ender, 5)
    assert first is not second
    assert len(deciding.gates) == 4
    for gate in deciding.gates:
        gate.open()
    await turns(lambda: len(deciding.gates) == 6)
    for gate in deciding.gates[4:]:
        gate.open()
    assert await soon(second.done) is None


@pytest.mark.asyncio
async def test_a_refused_departure_gives_all_its_claims_back() -> None:
    deciding, ender = rig(3)
    deciding.held = True
    endings = [put(deciding, ender, number) for number in range(3)]
    waiters = [deciding.waiters.next_release(transaction_id(n)) for n in range(3)]
    await turns(lambda: deciding.gates)
    deciding.gates[0].refuse(Overloaded("end-transaction"))
    error = await soon(endings[0][1].done)
    assert isinstance(error, Overloaded)
    assert result_of(endings[0][0], error).code == "overloaded"
    assert not deciding.line.core.claims
    assert not deciding.line.core.decided
    assert all(waiter.done() for waiter in waiters)


@pytest.mark.asyncio
async def test_what_waited_while_the_role_was_taken_anew_does_not_leave() -> None:
    # Taking it gave up its claim, so somebody else may have decided otherwise: the
    # messages would have been sent, and both have been told that they had won.
    deciding, ender = rig(6, size=600, end_size=1_000)
    deciding.held = True
    for number in range(4):
        put(deciding, ender, number)
    _, waiting = put(deciding, ender, 4)
    await turns(lambda: len(deciding.gates) == 4)
    deciding.claims.lose()
    deciding.take_role()
    other = ending_of(deciding.line.core.decide(End(transaction_id(4), ROLLED_BACK)))
    _, behind = put(deciding, ender, 5)
    assert behind is not waiting
    other_departure = ender.put(other)
    for gate in deciding.gates:
        gate.refuse(ConnectionLost("broker", "test"))
    error = await soon(waiting.done)
    assert getattr(error, "code", "") == "unavailable"
    assert transaction_id(4) in deciding.line.core.claims
    await turns(lambda: len(deciding.gates) == 5)  # these two travel together
    deciding.gates[4].open()
    assert await soon(other_departure.done) is None
    assert await soon(behind.done) is None
    deciding.follow()
    assert deciding.line.status(4).state == ROLLED_BACK
    assert [sent.event_id[:14] for sent in deciding.line.sent] == [
        transaction_id(5)[:14]
    ]


@pytest.mark.asyncio
async def test_a_late_success_of_a_former_role_is_no_new_outcome() -> None:
    # It was durable before the role was taken, so the log has told it.
    deciding, ender = rig(1)
    deciding.held = True
    _, departure = put(deciding, ender, 0)
    await turns(lambda: deciding.gates)
    deciding.line.append(deciding.gates[0].request)
    deciding.take_role()
    assert deciding.line.status(0).state == COMMITTED
    assert not deciding.line.core.claims
    deciding.gates[0].refuse(FenceLost(ROLE, True))
    assert isinstance(await soon(departure.done), FenceLost)
    assert deciding.failures == []
    assert deciding.line.core.decided == {}


@pytest.mark.asyncio
async def test_an_unexpected_error_ends_the_service() -> None:
    deciding, ender = rig(1)
    deciding.held = True
    _, departure = put(deciding, ender, 0)
    await turns(lambda: deciding.gates)
    deciding.gates[0].refuse(OSError("broken"))
    error = await soon(departure.done)
    assert isinstance(error, ConnectionLost)  # it may have been stored
    await turns(lambda: deciding.failures)


@pytest.mark.asyncio
async def test_there_is_room_for_so_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ender_module, "SIZE_MAX", 2_000)
    deciding, ender = rig(6, size=600, end_size=1_000)
    deciding.held = True
    await soon(ender.room())
    for number in range(3):
        put(deciding, ender, number)
    assert ender.is_full
    room = asyncio.create_task(ender.room())
    await turns(lambda: len(deciding.gates) == 3)
    assert not room.done()
    deciding.gates[0].open()
    await soon(room)
    assert not ender.is_full


@pytest.mark.asyncio
async def test_close_lets_what_is_under_way_arrive_and_nothing_else() -> None:
    deciding, ender = rig(6, size=600, end_size=1_000)
    deciding.held = True
    put_all = [put(deciding, ender, number) for number in range(6)]
    await turns(lambda: len(deciding.gates) == 4)
    closing = asyncio.create_task(ender.close())
    await turns(lambda: put_all[5][1].done.done())
    for gate in deciding.gates:
        gate.open()
    await soon(closing)
    errors = [departure.done.result() for _, departure in put_all]
    assert errors[:4] == [None] * 4
    assert [getattr(error, "code", "") for error in errors[4:]] == ["unavailable"] * 2
    assert not deciding.line.core.claims


@pytest.mark.asyncio
async def test_close_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ender_module, "CLOSE_S", 0.01)
    deciding, ender = rig(1)
    deciding.held = True
    _, departure = put(deciding, ender, 0)
    await turns(lambda: deciding.gates)
    await soon(ender.close())
    assert isinstance(departure.done.result(), ConnectionLost)

"""What becomes of claims when an append fails."""

import pytest
from tests.unit.txn_deciding import Deciding
from tests.unit.txn_line import COMMITTED, Line, ending_of, transaction_id

from halfpast_core_store.broker import Append
from halfpast_core_store.errors import (
    CoreError,
    FenceLost,
    Overloaded,
    StoreFailed,
    StoreFull,
)
from halfpast_core_store.rpc_errors import ConnectionLost, RemoteFailure, Unavailable
from halfpast_txn.claims import ROLE
from halfpast_txn.transactions import End

ID = transaction_id(1)


def claimed() -> tuple[Deciding, Append]:
    """Transaction 1 is being committed by this request."""
    line = Line()
    line.begin(1)
    deciding = Deciding(line)
    ending = ending_of(line.core.decide(End(ID, COMMITTED)))
    request = line.core.end_request([ending])
    deciding.claims.stamp(request)
    return deciding, request


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [Overloaded("x"), StoreFull(1), CoreError()])
async def test_certainly_refused_claims_are_given_up(error: CoreError) -> None:
    deciding, request = claimed()
    waiter = deciding.waiters.next_release(ID)
    deciding.claims.refused([ID], request, error)
    assert not deciding.line.core.claims
    assert waiter.done()
    assert deciding.claims.live


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("a", "b"),
        Unavailable("a", "b"),
        RemoteFailure("a", "b"),
        StoreFailed("a"),
    ],
)
async def test_of_unknown_outcome_they_live_until_the_log_tells(
    error: CoreError,
) -> None:
    deciding, request = claimed()
    waiter = deciding.waiters.next_release(ID)
    deciding.claims.refused([ID], request, error)
    assert deciding.line.core.claims == {ID}
    assert not waiter.done()
    assert (deciding.claims.live, deciding.claims.lost) == (False, True)
    deciding.take_role()
    assert not deciding.line.core.claims
    assert waiter.done()


@pytest.mark.asyncio
async def test_another_instance_ends_the_service() -> None:
    deciding, request = claimed()
    error = FenceLost(ROLE, True)
    deciding.claims.refused([ID], request, error)
    assert deciding.failures == [error]
    assert not deciding.claims.live
    assert not deciding.line.core.claims


@pytest.mark.asyncio
async def test_a_restarted_broker_only_makes_it_take_the_role_anew() -> None:
    deciding, request = claimed()
    deciding.claims.refused([ID], request, FenceLost(ROLE, False))
    assert deciding.failures == []
    assert deciding.claims.lost
    assert not deciding.line.core.claims


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error", [Overloaded("x"), FenceLost(ROLE, True), ConnectionLost("a", "b")]
)
async def test_a_late_refusal_of_a_former_role_changes_nothing(
    error: CoreError,
) -> None:
    deciding, request = claimed()
    deciding.take_role()
    deciding.line.core.decide(End(ID, COMMITTED))  # somebody else's claim
    deciding.claims.refused([ID], request, error)
    assert deciding.line.core.claims == {ID}
    assert deciding.failures == []
    assert deciding.claims.live
    assert not deciding.claims.lost

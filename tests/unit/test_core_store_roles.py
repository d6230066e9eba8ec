"""Who may write for a projection, and what of the log is kept for it."""

import pytest
from tests.unit.core_store_world import FakeRng

from halfpast_core_store.errors import FenceLost
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import Family
from halfpast_core_store.roles import Roles

FAR = 2**60


def roles_of(index: MemoryIndex) -> Roles:
    return Roles(index, FakeRng())


def apply(roles: Roles, index: MemoryIndex, families: int, position: int) -> None:
    batch = index.batch()
    roles.apply(batch, families, position)
    index.write(batch)


def scheduling(index: MemoryIndex) -> Roles:
    """The Delay Server is there, and needs nothing."""
    roles = roles_of(index)
    roles.hold("chronos", roles.acquire("chronos"), FAR)
    return roles


def test_everything_is_kept_for_a_delay_server_that_was_never_there() -> None:
    assert roles_of(MemoryIndex()).keep_from() == 0


def test_nothing_is_kept_for_transactions_as_long_as_there_are_none() -> None:
    index = MemoryIndex()
    roles = scheduling(index)
    apply(roles, index, Family.MESSAGES | Family.TIMERS, 100)
    assert roles.keep_from() == FAR
    assert not roles.holds("txn")


def test_the_log_is_kept_from_the_first_transaction_on() -> None:
    index = MemoryIndex()
    roles = scheduling(index)
    apply(roles, index, Family.MESSAGES | Family.TRANSACTIONS, 100)
    apply(roles, index, Family.TRANSACTIONS, 200)
    assert roles.keep_from() == 100
    assert roles_of(index).keep_from() == 100  # it stays


def test_whoever_holds_the_role_moves_its_hold() -> None:
    index = MemoryIndex()
    roles = scheduling(index)
    apply(roles, index, Family.TRANSACTIONS, 100)
    token = roles.acquire("txn")
    roles.hold("txn", token, 5_000)
    assert roles.keep_from() == 5_000
    apply(roles, index, Family.TRANSACTIONS, 6_000)
    assert roles_of(index).keep_from() == 5_000
    newer = roles.acquire("txn")
    with pytest.raises(FenceLost) as caught:
        roles.hold("txn", token, 9_000)
    assert caught.value.held
    assert roles.keep_from() == 5_000
    roles.hold("txn", newer, 9_000)
    assert roles.keep_from() == 9_000


def test_a_hold_that_a_crash_has_lost_keeps_more_and_not_less() -> None:
    index = MemoryIndex()
    roles = scheduling(index)
    apply(roles, index, Family.TRANSACTIONS, 100)
    index.flush()
    roles.hold("txn", roles.acquire("txn"), 5_000)
    assert roles_of(index.crash(0)).keep_from() == 100


def test_a_fence_does_not_outlive_the_process() -> None:
    index = MemoryIndex()
    token = roles_of(index).acquire("txn")
    with pytest.raises(FenceLost) as caught:
        roles_of(index).check("txn", token)
    assert not caught.value.held

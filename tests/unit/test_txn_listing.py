"""Lists of transactions, page by page."""

import pytest
from tests.unit.txn_line import (
    COMMITTED,
    ROLLED_BACK,
    Line,
    number_of,
    transaction_id,
)

from halfpast_txn import listing as listing_module
from halfpast_txn.listing import Listing
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.transactions import ListTransactions, TransactionState

PREPARED, PARKED = TransactionState.PREPARED, TransactionState.PARKED


def full_line() -> Line:
    """40 transactions of two groups, ten in each state, ended in reverse order."""
    line = Line()
    for number in range(40):
        group = "even" if number % 2 == 0 else "odd"
        parks = number % 4 == 1
        policy = CheckPolicy(0, 100, 1) if parks else CheckPolicy()
        line.begin(number, policy=policy, group=group)
    line.check_all()
    line.clock.advance(100)
    line.check_all()
    for number in reversed(range(40)):
        if number % 4 >= 2:
            line.end(number, COMMITTED if number % 4 == 2 else ROLLED_BACK)
            line.clock.advance(5)
    return line


def pages(line: Line, request: ListTransactions) -> list[list[int]]:
    found: list[list[int]] = []
    while True:
        listing = Listing(line.index, request)
        while listing.step():
            pass
        page = listing.page()
        found.append([number_of(one.transaction_id) for one in page.transactions])
        assert len(found[-1]) <= request.limit
        if not page.next_token:
            return found
        request.after = page.next_token


def listed(line: Line, request: ListTransactions) -> list[int]:
    return [number for page in pages(line, request) for number in page]


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
def test_each_state_has_its_list(limit: int) -> None:
    line = full_line()
    opened = [*range(0, 40, 4)]
    assert listed(line, ListTransactions(PREPARED, limit=limit)) == opened
    parked = [*range(1, 40, 4)]
    assert listed(line, ListTransactions(PARKED, limit=limit)) == parked
    # Those that have ended come in the order of their outcomes.
    committed = [*range(38, 0, -4)]
    assert listed(line, ListTransactions(COMMITTED, limit=limit)) == committed
    rolled_back = [*range(39, 0, -4)]
    assert listed(line, ListTransactions(ROLLED_BACK, limit=limit)) == rolled_back


def test_pages_are_full_as_long_as_there_is_enough() -> None:
    found = pages(full_line(), ListTransactions(PREPARED, limit=4))
    assert [len(page) for page in found] == [4, 4, 2]


@pytest.mark.parametrize(
    ("state", "group", "count"),
    [
        (PREPARED, "even", 10),
        (PREPARED, "odd", 0),
        (PARKED, "odd", 10),
        (COMMITTED, "odd", 0),
        (ROLLED_BACK, "odd", 10),
        (PREPARED, "nobody", 0),
    ],
)
def test_a_group_has_its_own(state: int, group: str, count: int) -> None:
    request = ListTransactions(state, group, 3)
    assert len(listed(full_line(), request)) == count


def test_a_page_may_be_short_and_not_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing_module, "SLICE_COUNT", 3)
    monkeypatch.setattr(listing_module, "SLICES_MAX", 2)
    found = pages(full_line(), ListTransactions(PREPARED, limit=100))
    assert [number for page in found for number in page] == [*range(0, 40, 4)]
    assert len(found) > 3
    assert all(len(page) <= 6 for page in found)


def test_what_changes_between_two_pages_is_neither_missed_nor_doubled() -> None:
    line = full_line()
    listing = Listing(line.index, ListTransactions(PREPARED, limit=5))
    while listing.step():
        pass
    page = listing.page()
    first = [number_of(one.transaction_id) for one in page.transactions]
    assert first == [0, 4, 8, 12, 16]
    line.end(16)
    line.end(20)
    line.begin(90)
    rest = ListTransactions(PREPARED, limit=5, after=page.next_token)
    assert listed(line, rest) == [24, 28, 32, 36, 90]


def test_a_token_of_another_list_begins_anew() -> None:
    line = full_line()
    listing = Listing(line.index, ListTransactions(PARKED, limit=2))
    while listing.step():
        pass
    token = listing.page().next_token
    assert token
    request = ListTransactions(PREPARED, limit=100, after=token)
    assert listed(line, request) == [*range(0, 40, 4)]


def test_what_a_list_tells_is_the_view() -> None:
    line = full_line()
    listing = Listing(line.index, ListTransactions(PARKED, limit=1))
    while listing.step():
        pass
    (found,) = listing.page().transactions
    assert found == line.status(1).public(transaction_id(1))
    assert found.messages == []


def test_what_is_forgotten_is_left_out() -> None:
    line = full_line()
    batch = line.index.batch()
    batch.delete(b"O" + transaction_id(38))
    line.index.write(batch)
    assert 38 not in listed(line, ListTransactions(COMMITTED))

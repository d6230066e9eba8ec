"""The youngest transactions: in memory, within a bound."""

from tests.unit.txn_line import Line, half_record, transaction_id

from halfpast_txn.status import Status
from halfpast_txn.young import OVERHEAD_SIZE, Young


def status(number: int = 0) -> Status:
    return Status(1, "orders", "", number, 1, 0, 1, 1, 1, 1)


def test_what_was_added_is_there_until_it_is_dropped() -> None:
    young = Young(10_000)
    young.add(b"a", status(), [b"one"])
    young.add_messages(b"a", [b"two", b"three"])
    found = young.get(b"a")
    assert found is not None
    assert found.records == [b"one", b"two", b"three"]
    assert young.size == OVERHEAD_SIZE + 11
    assert young.drop(b"a") is found
    assert young.drop(b"a") is None
    assert (young.size, len(young)) == (0, 0)


def test_the_oldest_give_way() -> None:
    young = Young(3 * OVERHEAD_SIZE)
    for number in range(5):
        young.add(b"%d" % number, status(number), [])
    assert [young.get(b"%d" % number) is None for number in range(5)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert young.size == 3 * OVERHEAD_SIZE


def test_one_that_is_too_large_finds_no_room() -> None:
    young = Young(2 * OVERHEAD_SIZE)
    young.add(b"small", status(), [])
    young.add(b"large", status(), [bytes(2 * OVERHEAD_SIZE)])
    assert (young.size, len(young)) == (0, 0)
    young.add(b"grows", status(), [])
    young.add_messages(b"grows", [bytes(OVERHEAD_SIZE + 1)])
    assert (young.size, len(young)) == (0, 0)
    young.add_messages(b"grows", [b"more"])
    assert (young.size, len(young)) == (0, 0)


def test_beginning_again_replaces() -> None:
    young = Young(10_000)
    young.add(b"a", status(), [b"one"])
    young.add(b"a", status(), [b"two"])
    found = young.get(b"a")
    assert found is not None
    assert found.records == [b"two"]
    assert young.size == OVERHEAD_SIZE + 3


def test_what_was_thrown_out_is_committed_all_the_same() -> None:
    line = Line(young_size_max=0)
    line.begin(1, [half_record(1, 0), half_record(1, 1)])
    assert len(line.core.young) == 0
    assert line.end(1).code == ""
    assert [sent.event_id for sent in line.sent] == [
        transaction_id(1)[:-1] + b"\1",
        transaction_id(1)[:-1] + b"\2",
    ]


def test_outcomes_leave_room() -> None:
    line = Line()
    for number in range(50):
        line.begin(number)
        line.end(number, 2 + number % 2)
    assert (line.core.young.size, len(line.core.young)) == (0, 0)

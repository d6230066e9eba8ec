"""The books are forged in each way that matters, and each has to be found."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from halfpast_loadtest.message import Message
from halfpast_loadtest.transaction_check import (
    LocalMessage,
    LocalTransaction,
    Outcome,
    check_transactions,
)

PLACED_MS = 1_000
DECIDED_MS = 1_005
DELAY_MS = 500
DUE_MS = DECIDED_MS + DELAY_MS


def local(number: int) -> LocalTransaction:
    """An order with a message at once and a delayed one."""
    return LocalTransaction(
        number=number,
        transaction_id=f"tx-{number}",
        placed_ms=PLACED_MS,
        messages=(
            LocalMessage(
                serial=f"o-{number}-0",
                event_id=f"tx-{number}-1",
                topic="created",
                data=f'{{"serial":"o-{number}-0"}}',
            ),
            LocalMessage(
                serial=f"o-{number}-1",
                event_id=f"tx-{number}-2",
                topic="timeout",
                data=f'{{"serial":"o-{number}-1"}}',
                delay_ms=DELAY_MS,
            ),
        ),
    )


def delivered(
    number: int, index: int, *, offset: int = 0, due_ms: int = DUE_MS, late_ms: int = 1
) -> Message:
    delayed = index == 1
    return Message(
        id=f"tx-{number}-{index + 1}",
        topic="timeout" if delayed else "created",
        queue=0,
        offset=offset,
        key=None,
        stored_ms=(due_ms if delayed else DECIDED_MS) + late_ms,
        due_ms=due_ms if delayed else None,
        attempt=1,
        data=f'{{"serial":"o-{number}-{index}"}}'.encode(),
        receipt="",
    )


@dataclass
class Books:
    """Two orders that were placed and delivered, and one that was rolled back."""

    placed: list[LocalTransaction] = field(default_factory=lambda: [local(1), local(2)])
    messages: list[Message] = field(
        default_factory=lambda: [
            delivered(1, 0),
            delivered(1, 1),
            delivered(2, 0, offset=1),
            delivered(2, 1, offset=1),
        ]
    )
    outcomes: dict[str, Outcome] = field(
        default_factory=lambda: {
            "tx-1": Outcome("committed", DECIDED_MS),
            "tx-2": Outcome("committed", DECIDED_MS),
            "tx-3": Outcome("rolled_back", DECIDED_MS),
        }
    )

    def kinds(self) -> list[str]:
        problems = check_transactions(self.placed, self.messages, self.outcomes)
        return [problem.kind for problem in problems]


def kinds_of(messages: Sequence[Message]) -> list[str]:
    return Books(messages=[*messages]).kinds()


def test_balanced_books_have_no_problem() -> None:
    assert Books().kinds() == []


def test_a_message_of_what_was_rolled_back_is_found() -> None:
    books = Books()
    books.messages.append(delivered(3, 0, offset=2))
    assert books.kinds() == ["not_committed"]


def test_a_committed_order_without_its_message_is_found() -> None:
    assert kinds_of(Books().messages[1:]) == ["lost"]


def test_a_message_twice_is_found() -> None:
    messages = [*Books().messages, delivered(2, 0, offset=2)]
    assert kinds_of(messages) == ["duplicate"]


def test_an_early_message_is_found() -> None:
    messages = [*Books().messages[:3], delivered(2, 1, offset=1, late_ms=-1)]
    assert kinds_of(messages) == ["early"]


def test_a_delay_that_began_before_the_commit_is_found() -> None:
    began_with_half = delivered(2, 1, offset=1, due_ms=DUE_MS - 3)
    assert kinds_of([*Books().messages[:3], began_with_half]) == ["wrong_due_time"]


def test_a_delay_that_was_forgotten_is_found() -> None:
    at_once = delivered(2, 1, offset=1)._replace(due_ms=None)
    assert kinds_of([*Books().messages[:3], at_once]) == ["wrong_due_time"]


def test_changed_bytes_and_another_id_are_found() -> None:
    changed = delivered(1, 0)._replace(data=b'{"serial": "o-1-0"}', id="tx-9-1")
    found = kinds_of([changed, *Books().messages[1:]])
    assert sorted(found) == ["wrong_id", "wrong_payload"]


def test_an_outcome_that_contradicts_the_database_is_found() -> None:
    books = Books()
    books.outcomes["tx-1"] = Outcome("rolled_back", DECIDED_MS)
    books.outcomes["tx-3"] = Outcome("committed", DECIDED_MS)
    assert books.kinds() == ["wrong_outcome", "wrong_outcome"]


def test_what_is_still_in_doubt_is_found() -> None:
    books = Books()
    books.outcomes["tx-3"] = Outcome("parked", None)
    assert books.kinds() == ["wrong_outcome"]


def test_a_transaction_that_the_server_does_not_know_is_found() -> None:
    books = Books()
    del books.outcomes["tx-1"]
    assert books.kinds() == ["wrong_outcome"]


def test_outcomes_that_were_not_asked_for_are_not_missed() -> None:
    books = Books()
    assert check_transactions(books.placed, books.messages) == []

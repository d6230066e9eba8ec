"""The producers' own databases against what was delivered: each difference a Problem.

A message must be in the log once if its local transaction committed, and never else.
Pure functions, so that tests can feed them forged histories.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from halfpast_loadtest.delivery_check import (
    Expectation,
    Fate,
    Problem,
    check_log,
    serial_of,
)
from halfpast_loadtest.message import Message

COMMITTED = "committed"
ROLLED_BACK = "rolled_back"


class LocalMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as its producer's database has it. `event_id` as `send` gave it."""

    serial: str
    event_id: str
    topic: str
    data: str
    delay_ms: int = 0


class LocalTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that was committed locally. `placed_ms`: when that was about to
    happen, so no delay of its messages can have begun before."""

    number: int
    transaction_id: str
    placed_ms: int
    messages: tuple[LocalMessage, ...]


class Outcome(NamedTuple):
    """What the server says of a transaction. `decided_ms` is None for an open one.
    `source`: who decided, `producer`, `check` or `operator`."""

    state: str
    decided_ms: int | None
    source: str = ""


def expectations_of(placed: Iterable[LocalTransaction]) -> list[Expectation]:
    """What must be in the log, once everything has come due."""
    return [
        Expectation(
            serial=message.serial,
            topic=message.topic,
            fate=Fate.ONCE,
            data=message.data.encode(),
            event_id=message.event_id,
            due_floor_ms=one.placed_ms + message.delay_ms if message.delay_ms else 0,
        )
        for one in placed
        for message in one.messages
    ]


def check_transactions(
    placed: Iterable[LocalTransaction],
    messages: Iterable[Message],
    outcomes: Mapping[str, Outcome] | None = None,
) -> list[Problem]:
    """Everything that is not as the local databases say.

    `messages`: all that the topics hold, read from their starts after the last due
    time. `outcomes` by transaction id, all that the server knows of the producers'
    groups; left out, only the messages are compared.
    """
    transactions = [*placed]
    held = [*messages]
    problems = [
        _named_for_transactions(problem)
        for problem in check_log(expectations_of(transactions), held)
    ]
    problems += _check_delays(transactions, held, outcomes or {})
    if outcomes is not None:
        problems += _check_outcomes(transactions, outcomes)
    return problems


def _named_for_transactions(problem: Problem) -> Problem:
    """What nobody sent, as far as the databases know, was rolled back locally."""
    if problem.kind != "unknown_message":
        return problem
    detail = f"delivered, but not committed locally ({problem.detail})"
    return Problem("not_committed", problem.subject, detail)


def _check_delays(
    transactions: Iterable[LocalTransaction],
    messages: Iterable[Message],
    outcomes: Mapping[str, Outcome],
) -> list[Problem]:
    """A delay begins with the commit, to the millisecond; none means with it."""
    held = {serial_of(message.data): message for message in messages}
    problems: list[Problem] = []
    for one in transactions:
        outcome = outcomes.get(one.transaction_id)
        for sent in one.messages:
            message = held.get(sent.serial)
            if message is None:
                continue  # it is lost, as has been said
            if (message.due_ms is None) != (sent.delay_ms == 0):
                detail = f"due {message.due_ms} for a delay of {sent.delay_ms} ms"
                problems.append(Problem("wrong_due_time", sent.serial, detail))
            elif outcome is not None and outcome.decided_ms is not None:
                problems += _check_due(sent, message, outcome.decided_ms)
    return problems


def _check_due(
    sent: LocalMessage, message: Message, decided_ms: int
) -> Iterable[Problem]:
    wanted_ms = decided_ms + sent.delay_ms
    if message.due_ms is not None and message.due_ms != wanted_ms:
        detail = f"due {message.due_ms}, committed {decided_ms} + {sent.delay_ms} ms"
        yield Problem("wrong_due_time", sent.serial, detail)


def _check_outcomes(
    transactions: Iterable[LocalTransaction], outcomes: Mapping[str, Outcome]
) -> list[Problem]:
    """Committed here as there, and nowhere else; nothing is in doubt."""
    placed = {one.transaction_id: one for one in transactions}
    problems: list[Problem] = []

    def report(subject: str, detail: str) -> None:
        problems.append(Problem("wrong_outcome", subject, detail))

    for transaction_id, one in placed.items():
        said = outcomes.get(transaction_id)
        if said is None or said.state != COMMITTED:
            word = "nothing" if said is None else said.state
            detail = f"order {one.number} was committed locally, the server says {word}"
            report(transaction_id, detail)
    for transaction_id, said in outcomes.items():
        if transaction_id not in placed and said.state != ROLLED_BACK:
            detail = f"not committed locally, the server says {said.state}"
            report(transaction_id, detail)
    return problems

"""The producers' databases, the log and what the server says: all must agree.

`halfpast_loadtest.transaction_check` compares message by message. Here are the sums
besides, and what GET tells of single transactions and events.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from halfpast_loadtest.delivery_check import Problem, check_queues
from halfpast_loadtest.event_request import state_or_code
from halfpast_loadtest.message import Message
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.queue_reader import read_topics
from halfpast_loadtest.transaction_check import (
    COMMITTED,
    LocalTransaction,
    Outcome,
    check_transactions,
)
from halfpast_loadtest.transaction_outcomes import outcomes_of_group
from halfpast_loadtest.transaction_plan import TOPICS

SAMPLE_COUNT = 60
FOUND = frozenset({200, 404})


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Everything at one moment at which nothing happens any more."""

    placed: list[LocalTransaction]
    refused_count: int
    outcomes: dict[str, Outcome]
    messages: list[Message]
    metrics: dict[str, float]

    @classmethod
    async def read(
        cls,
        client: PatientClient,
        groups: Iterable[str],
        placed: list[LocalTransaction],
        refused_count: int,
    ) -> "Books":
        """`placed` and `refused_count` from the producers' databases."""
        outcomes: dict[str, Outcome] = {}
        for group in groups:
            outcomes |= await outcomes_of_group(client, group)
        return cls(
            placed=placed,
            refused_count=refused_count,
            outcomes=outcomes,
            messages=await read_topics(client, TOPICS),
            metrics=await transaction_metrics(client),
        )

    @property
    def settled_count(self) -> int:
        """How many orders need no further attempt, as the databases say."""
        return len(self.placed) + self.refused_count

    @property
    def endings(self) -> Counter[str]:
        """How many ended how, and by whom."""
        return Counter(f"{one.state} by {one.source}" for one in self.outcomes.values())

    def __str__(self) -> str:
        return (
            f"{len(self.placed)} orders placed, {self.refused_count} refused, "
            f"{len(self.messages)} messages; {dict(self.endings)}"
        )


async def transaction_metrics(client: PatientClient) -> dict[str, float]:
    """The samples about transactions, by name and labels."""
    answer = await client.request("GET", "/metrics")
    found: dict[str, float] = {}
    for line in answer.body.decode().splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith("halfpast_transactions_"):
            found[name.removeprefix("halfpast_transactions_")] = float(value)
    return found


async def check_books(client: PatientClient, books: Books) -> list[Problem]:
    """Every difference, down to single messages."""
    return [
        *check_transactions(books.placed, books.messages, books.outcomes),
        *check_queues(books.messages),
        *check_ids(books.messages),
        *check_sums(books),
        *await _check_sample(client, books),
    ]


def check_ids(messages: Iterable[Message]) -> list[Problem]:
    """No id is twice in the log, whatever its message says."""
    return [
        Problem("duplicate", event_id, f"{count} times in the log")
        for event_id, count in Counter(one.id for one in messages).items()
        if count > 1
    ]


def check_sums(books: Books) -> list[Problem]:
    """Nothing is open, and what is committed is what the databases hold."""
    committed = sum(one.state == COMMITTED for one in books.outcomes.values())
    sums = {
        "open transactions": (books.metrics["open"], 0),
        "parked transactions": (books.metrics["parked"], 0),
        "claimed transactions": (books.metrics["claimed"], 0),
        "committed transactions": (committed, len(books.placed)),
        "messages": (
            len(books.messages),
            sum(len(one.messages) for one in books.placed),
        ),
    }
    return [
        Problem("unbalanced", name, f"{said:g}, and should be {wanted}")
        for name, (said, wanted) in sums.items()
        if said != wanted
    ]


async def _check_sample(client: PatientClient, books: Books) -> list[Problem]:
    """GET of some transactions and of their messages."""
    placed = {one.transaction_id: one for one in books.placed}
    sample = sorted(books.outcomes)
    sample = sample[:: len(sample) // SAMPLE_COUNT + 1]
    problems: list[Problem] = []
    for transaction_id in sample:
        answer = await client.request("GET", f"/v1/transactions/{transaction_id}")
        said = books.outcomes[transaction_id]
        view = msgspec.json.decode(answer.body, type=_View)
        if (view.state, view.source) != (said.state, said.source):
            detail = f"{view.state} by {view.source}, listed as {said}"
            problems.append(Problem("wrong_view", transaction_id, detail))
        if transaction_id in placed:
            problems += await _check_events(client, placed[transaction_id])
        else:
            problems += await _check_first_event(client, transaction_id)
    return problems


async def _check_events(
    client: PatientClient, placed: LocalTransaction
) -> list[Problem]:
    problems: list[Problem] = []
    for sent in placed.messages:
        state = await _event_state(client, sent.event_id)
        if state != ("delivered" if sent.delay_ms else "stored"):
            problems.append(Problem("wrong_state", sent.serial, f"GET says {state}"))
    return problems


async def _check_first_event(
    client: PatientClient, transaction_id: str
) -> list[Problem]:
    """Its id counts on from the transaction's, which ends in 0000."""
    event_id = f"{transaction_id[:-4]}0001"
    state = await _event_state(client, event_id)
    if state == "rolled_back":
        return []
    return [Problem("wrong_state", event_id, f"rolled back, and GET says {state}")]


async def _event_state(client: PatientClient, event_id: str) -> str:
    answer = await client.request("GET", f"/v1/events/{event_id}", want=FOUND)
    return state_or_code(answer.body)


class _View(msgspec.Struct):
    state: str
    source: str = ""

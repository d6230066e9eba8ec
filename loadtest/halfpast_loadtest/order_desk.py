"""The transactional part of the demo: a service with a database is killed, and killed.

200 orders go into a real SQLite database, each with the messages that tell of it.
Some fail locally. Several times the service is killed right between its local commit
and the second phase, so that only check-backs can find out what became of those
orders. In the end the books must balance, order by order.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from halfpast_loadtest.delivery_check import Problem, check_queues
from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.message import Message
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.producer_process import ProducerConfig
from halfpast_loadtest.queue_reader import read_topics
from halfpast_loadtest.transaction_check import (
    LocalTransaction,
    Outcome,
    check_transactions,
)
from halfpast_loadtest.transaction_load import LoadConfig, TransactionLoad
from halfpast_loadtest.transaction_outcomes import outcomes_of_group
from halfpast_loadtest.transaction_plan import CREATED, TOPICS, Course, planned_order

GROUP = "demo-orders"
NAME = "p0"
TIMEOUT_S = 40.0
EXIT_OK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """What the service's database says, what the server says, and what came."""

    placed: list[LocalTransaction] = field(default_factory=list[LocalTransaction])
    refused_count: int = 0
    kill_count: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    messages: list[Message] = field(default_factory=list[Message])
    problems: list[Problem] = field(default_factory=list[Problem])

    @property
    def delivered_count(self) -> int:
        """Orders whose message came: by their ids, each counts once."""
        return len({one.id for one in self.messages if one.topic == CREATED})

    @property
    def settled_by_check(self) -> Counter[str]:
        """How many outcomes came by a check-back, by state."""
        return Counter(
            one.state for one in self.outcomes.values() if one.source == "check"
        )


class OrderDesk:
    """Runs the service beside the rest of the demo. `say` tells people about it."""

    def __init__(
        self,
        folder: Path,
        address: str,
        *,
        seed: int,
        order_count: int,
        kill_count: int,
        say: Callable[[str], None],
    ) -> None:
        config = ProducerConfig(seed=seed, check_after_ms=1000, check_interval_ms=300)
        self._load = TransactionLoad(
            folder,
            address,
            LoadConfig(
                transaction_count=order_count,
                producer_count=1,
                group=GROUP,
                producer=config,
                stop_at=kill_points(config, order_count, kill_count),
            ),
        )
        self._kill_count = kill_count
        self._say = say

    async def run(self, client: PatientClient) -> None:
        """Place all orders, with the kills, and wait until nothing is in doubt."""
        [producer] = self._load.producers
        await self._load.start()
        self._say(f"{producer.count} orders go into SQLite, with transactions")
        try:
            for number in range(self._kill_count):
                await producer.wait_stopped(TIMEOUT_S)
                await producer.kill()
                await producer.start()
                if number == 0:
                    self._say(
                        "[bold]kill -9[/] of the orders' service between its COMMIT "
                        "and the second phase"
                    )
            await self._load.wait_done(TIMEOUT_S)
            await self._load.wait_settled(client, TIMEOUT_S)
        finally:
            if not self._load.is_done:
                await self._load.kill()
        status = await producer.stop()
        if status != EXIT_OK:
            error = LoadtestError(f"the orders' service ended with status {status}")
            error.add_note(producer.log_tail())
            raise error
        self._say(
            f"killed it {producer.kill_count} times; check-backs have settled the rest"
        )

    async def report(self, client: PatientClient) -> OrderReport:
        """Read all there is and compare it, order by order."""
        messages = await read_topics(client, TOPICS)
        outcomes = await outcomes_of_group(client, self._load.producers[0].group)
        placed = self._load.placed()
        problems = check_transactions(placed, messages, outcomes)
        problems += check_queues(messages)
        return OrderReport(
            placed=placed,
            refused_count=self._load.refused_count(),
            kill_count=self._load.kill_count,
            outcomes=outcomes,
            messages=messages,
            problems=problems,
        )


def kill_points(
    config: ProducerConfig, order_count: int, kill_count: int
) -> tuple[int, ...]:
    """Numbers of orders that commit, spread evenly: the service is killed there."""
    committing = [
        number
        for number in range(order_count)
        if planned_order(config.seed, NAME, number, config.delay_ms_max).course
        is Course.COMMITTED
    ]
    step = len(committing) / (kill_count + 1)
    return tuple(committing[int(step * (at + 1))] for at in range(kill_count))

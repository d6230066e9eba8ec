"""Producers of transactions with databases of their own, for tests that kill things.

    load = TransactionLoad(folder, server.address, LoadConfig(transaction_count=5000))
    await load.start()
    ... kill and restart servers; await load.kill_one(chance) ...
    await load.wait_done(300)
    await load.wait_settled(client)
    problems = await load.check(client)
    await load.stop()

What is done follows the seed; when the kills come does not. The databases tell what
must have been delivered, and `check` compares: see `transaction_check.py`.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from halfpast_loadtest.delivery_check import Problem, check_queues
from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.message import Message
from halfpast_loadtest.order_book import placed_transactions, refused_count
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.producer_process import ProducerConfig, ProducerProcess
from halfpast_loadtest.queue_reader import count_messages, read_topics
from halfpast_loadtest.transaction_check import (
    LocalTransaction,
    Outcome,
    check_transactions,
)
from halfpast_loadtest.transaction_outcomes import open_count, outcomes_of_group
from halfpast_loadtest.transaction_plan import TOPICS

ASK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadConfig:
    """`transaction_count` orders, shared out over the producers. Some need several
    transactions: their producer was killed, or a check-back came first. At the
    numbers of `stop_at` the first producer stands still between the local commit and
    the second phase, until it is killed."""

    transaction_count: int = 5000
    producer_count: int = 4
    group: str = "load"
    stop_at: tuple[int, ...] = ()
    producer: ProducerConfig = field(default_factory=ProducerConfig)


class TransactionLoad:
    """All producers of one load. Their files lie in `folder`, which must exist."""

    def __init__(self, folder: Path, address: str, config: LoadConfig) -> None:
        share, rest = divmod(config.transaction_count, config.producer_count)
        self.producers = [
            ProducerProcess(
                folder,
                address,
                config.producer,
                name=f"p{at}",
                group=f"{config.group}-p{at}",
                count=share + (at < rest),
                stop_at=() if at else config.stop_at,
            )
            for at in range(config.producer_count)
        ]

    @property
    def kill_count(self) -> int:
        return sum(one.kill_count for one in self.producers)

    @property
    def is_done(self) -> bool:
        """Whether every order is settled in its producer's database."""
        return all(one.is_done.is_set() for one in self.producers)

    async def start(self) -> None:
        """Start every producer that does not run."""
        for one in self.producers:
            if not one.is_running:
                await one.start()

    async def kill_one(self, chance: random.Random) -> str:
        """SIGKILL a producer and start it again; its name. One that has work left, if
        any has."""
        busy = [one for one in self.producers if not one.is_done.is_set()]
        victim = chance.choice(busy or self.producers)
        await victim.kill()
        await victim.start()
        return victim.name

    async def wait_done(self, timeout_s: float) -> None:
        """Return when all orders are settled in the databases."""
        deadline = time.monotonic() + timeout_s
        for one in self.producers:
            await one.wait_done(deadline - time.monotonic())

    async def wait_settled(
        self, client: PatientClient, timeout_s: float = 60.0
    ) -> None:
        """Return when no transaction is in doubt and all messages have come.

        The producers must run, to answer check-backs. What does not come in time is
        for `check` to find.
        """
        deadline = time.monotonic() + timeout_s
        for one in self.producers:
            while await open_count(client, one.group):
                if time.monotonic() > deadline:
                    raise LoadtestError(f"group {one.group} is still in doubt")
                await asyncio.sleep(ASK_EVERY_S)
        wanted = sum(len(one.messages) for one in self.placed())
        while await count_messages(client, TOPICS) < wanted:
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(ASK_EVERY_S)

    def placed(self) -> list[LocalTransaction]:
        """What the databases hold: each of these must have been delivered."""
        return [
            transaction
            for one in self.producers
            for transaction in placed_transactions(one.book)
        ]

    def refused_count(self) -> int:
        """How many orders failed for good; nothing of theirs may be delivered."""
        return sum(refused_count(one.book) for one in self.producers)

    async def check(
        self, client: PatientClient, messages: list[Message] | None = None
    ) -> list[Problem]:
        """Read every queue, ask for every outcome, and compare with the databases."""
        placed = self.placed()
        if messages is None:
            messages = await read_topics(client, TOPICS)
        outcomes: dict[str, Outcome] = {}
        for one in self.producers:
            outcomes |= await outcomes_of_group(client, one.group)
        problems = check_transactions(placed, messages, outcomes)
        problems += check_queues(messages)
        done = len(placed) + self.refused_count()
        wanted = sum(one.count for one in self.producers)
        if done != wanted:
            detail = f"{done} of {wanted} orders are settled in the databases"
            problems.append(Problem("unfinished", "orders", detail))
        return problems

    async def stop(self) -> None:
        """Let all producers end; those that are dead already stay so."""
        await asyncio.gather(*(one.stop() for one in self.producers))

    async def kill(self) -> None:
        """SIGKILL them all, for good."""
        await asyncio.gather(*(one.kill() for one in self.producers))

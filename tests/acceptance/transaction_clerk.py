"""One of several processes of a shop that share a PostgreSQL database and a group.

    python -m tests.acceptance.transaction_clerk --database postgresql+psycopg://...

Each takes its own numbers, and any of them answers check-backs for all: what counts
is the database. Some stay in their local transaction beyond the check-back, which
then has to wait for them. What the database refuses, or did not answer, is tried
again if it is not there in the end.
"""

import argparse
import asyncio
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

import halfpast
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.order_book import (
    ORDERS,
    REFUSED_ORDERS,
    note_refused,
    place_order,
)
from halfpast_loadtest.order_producer import DONE, OutOfStock
from halfpast_loadtest.producer_process import ProducerConfig, ProducerProcess
from halfpast_loadtest.transaction_check import LocalMessage
from halfpast_loadtest.transaction_plan import (
    Course,
    PlannedOrder,
    message_data,
    planned_order,
    serial_of_message,
)

GROUP = "shop"
AGAIN_S = 0.1
LONG_SHARE = 20  # one of so many local transactions is a long one
LOCK_WAIT = timedelta(milliseconds=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClerkArguments:
    """Numbers from `first`, in steps of `step`, below `count`. Times in ms."""

    address: str
    database: str
    seed: int
    first: int
    step: int
    count: int
    check_after_ms: int
    check_interval_ms: int
    delay_ms_max: int


class ClerkProcess(ProducerProcess):
    """A clerk, to be killed and started again."""

    def __init__(
        self,
        folder: Path,
        address: str,
        config: ProducerConfig,
        database: str,
        *,
        first: int,
        step: int,
        count: int,
    ) -> None:
        name = f"clerk{first}"
        super().__init__(folder, address, config, name=name, group=GROUP, count=count)
        self._program = (
            *(sys.executable, "-m", "tests.acceptance.transaction_clerk"),
            *("--address", address, "--database", database),
            *("--seed", str(config.seed), "--first", str(first)),
            *("--step", str(step), "--count", str(count)),
            *("--check-after-ms", str(config.check_after_ms)),
            *("--check-interval-ms", str(config.check_interval_ms)),
            *("--delay-ms-max", str(config.delay_ms_max)),
        )


class Clerk:
    """Places the orders of its numbers that the database does not have yet."""

    def __init__(
        self,
        given: ClerkArguments,
        engine: AsyncEngine,
        producer: halfpast.TransactionalProducer,
    ) -> None:
        self._given = given
        self._engine = engine
        self._producer = producer

    async def run(self, worker_count: int = 6) -> None:
        """Return when every order is settled."""
        given = self._given
        numbers = iter(range(given.first, given.count, given.step))

        async def work() -> None:
            for number in numbers:
                order = planned_order(given.seed, GROUP, number, given.delay_ms_max)
                is_late = order.course is Course.LATE  # for once
                while not await self._is_settled(number):
                    await self._attempt(order, is_late)
                    is_late = False

        await asyncio.gather(*(work() for _ in range(worker_count)))

    async def _attempt(self, order: PlannedOrder, is_late: bool) -> None:
        """One attempt; the database tells what became of it."""
        transaction = self._producer.transaction(reference=f"order {order.number}")
        is_told = order.course not in (Course.FORGOTTEN, Course.VANISHED)
        try:
            if is_told:
                async with transaction:
                    await self._place(order, transaction, is_late)
            else:
                await self._place(order, transaction, is_late)
        except OutOfStock:
            with suppress(DBAPIError):
                async with AsyncSession(self._engine) as session, session.begin():
                    await session.run_sync(note_refused, order.number)
        except (halfpast.HalfpastError, DBAPIError):
            await asyncio.sleep(AGAIN_S)

    async def _place(
        self, order: PlannedOrder, transaction: halfpast.Transaction, is_late: bool
    ) -> None:
        sent = await self._send(order, transaction)
        beyond_s = self._given.check_after_ms / 1000 + 0.4
        if is_late:
            await asyncio.sleep(beyond_s)
        async with (
            AsyncSession(self._engine) as session,
            session.begin(),
            halfpast.barrier(session, transaction),
        ):
            await session.run_sync(
                place_order, order.number, transaction.id, now_ms(), sent
            )
            if order.number % LONG_SHARE == 0:
                await asyncio.sleep(beyond_s)
            if not order.is_placed:
                raise OutOfStock

    async def _send(
        self, order: PlannedOrder, transaction: halfpast.Transaction
    ) -> list[LocalMessage]:
        """All messages with one request."""
        attempt = uuid4().hex[:8]
        events: list[halfpast.NewEvent] = []
        serials: list[str] = []
        for index, message in enumerate(order.messages):
            serials.append(serial_of_message(GROUP, order.number, attempt, index))
            data = message_data(serials[-1], order.number, message)
            delay = timedelta(milliseconds=message.delay_ms) or None
            events.append(
                halfpast.NewEvent(topic=message.topic, data=data, delay=delay)
            )
        ids = await transaction.send_all(events)
        return [
            LocalMessage(
                serial=serial,
                event_id=event_id,
                topic=message.topic,
                data=message_data(serial, order.number, message).decode(),
                delay_ms=message.delay_ms,
            )
            for serial, event_id, message in zip(
                serials, ids, order.messages, strict=True
            )
        ]

    async def _is_settled(self, number: int) -> bool:
        """Waits for a database that is away."""
        while True:
            try:
                async with self._engine.connect() as connection:
                    for table in (ORDERS, REFUSED_ORDERS):
                        asked = select(table.c.number).where(table.c.number == number)
                        if await connection.scalar(asked) is not None:
                            return True
                    return False
            except DBAPIError:
                await asyncio.sleep(AGAIN_S)


async def produce(given: ClerkArguments) -> None:
    """Place the orders, then answer check-backs until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    engine = create_async_engine(given.database)
    retry = halfpast.RetryPolicy(total_s=20, attempt_s=5, backoff_max_s=0.5)
    async with (
        halfpast.Client(given.address, retry=retry, gather=True) as client,
        halfpast.TransactionalProducer(
            client,
            GROUP,
            halfpast.barrier_check(engine, lock_wait=LOCK_WAIT),
            check_after=timedelta(milliseconds=given.check_after_ms),
            check_interval=timedelta(milliseconds=given.check_interval_ms),
            check_max=1000,
        ) as producer,
    ):
        await Clerk(given, engine, producer).run()
        print(DONE, flush=True)
        await stop.wait()
    await engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("address", "database"):
        parser.add_argument(f"--{name}", required=True)
    for name in (
        *("seed", "first", "step", "count"),
        *("check-after-ms", "check-interval-ms", "delay-ms-max"),
    ):
        parser.add_argument(f"--{name}", type=int, required=True)
    asyncio.run(produce(ClerkArguments(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()

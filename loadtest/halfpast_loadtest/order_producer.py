"""A service that places orders: the producer process of a transactional load.

    python -m halfpast_loadtest.order_producer --address http://... --book orders.sqlite

It uses the SDK as any service would: the half messages first, then the order in its
own database under a barrier, then the second phase; and a listener that answers
check-backs from the barrier's rows. It may be killed at any point and started again
on the same database. When every order is settled it says `done`, and goes on
answering check-backs until SIGTERM.

At the numbers of `--stop-at` it says `stopped` between the local commit and the
second phase, and waits there to be killed.
"""

import argparse
import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import uvloop
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import halfpast
from halfpast import BarrierClosed, Client, HalfpastError, RetryPolicy
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.order_book import (
    note_refused,
    open_book,
    place_order,
    settled_numbers,
)
from halfpast_loadtest.transaction_check import LocalMessage
from halfpast_loadtest.transaction_plan import (
    Course,
    PlannedOrder,
    message_data,
    planned_order,
    serial_of_message,
)

DONE = "done"
STOPPED = "stopped"
AGAIN_S = 0.05
LATE_S = 0.5  # a late order waits for so long beyond the time of its check-back


class OutOfStock(Exception):
    """The local transaction fails for a reason of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerArguments:
    """What the process is told. `name` is part of every serial; `group` is its own
    producer group, since only its own database can answer for it."""

    address: str
    book: Path
    name: str
    group: str
    seed: int
    count: int
    workers: int
    check_after_ms: int
    check_interval_ms: int
    check_max: int
    delay_ms_max: int
    stop_at: frozenset[int]


class OrderProducer:
    """Places all orders that the book does not have yet."""

    def __init__(
        self,
        arguments: ProducerArguments,
        book: Engine,
        producer: halfpast.TransactionalProducer,
    ) -> None:
        self._arguments = arguments
        self._book = book
        self._producer = producer
        self._stopping = False

    async def run(self) -> None:
        """Return when every order is settled, or after `stop`."""
        settled = settled_numbers(self._book)
        numbers = (n for n in range(self._arguments.count) if n not in settled)
        await asyncio.gather(
            *(self._work(numbers) for _ in range(self._arguments.workers))
        )

    def stop(self) -> None:
        """Finish the orders at hand, begin no other one."""
        self._stopping = True

    async def _work(self, numbers: Iterator[int]) -> None:
        given = self._arguments
        for number in numbers:
            if self._stopping:
                return
            order = planned_order(given.seed, given.name, number, given.delay_ms_max)
            is_late = order.course is Course.LATE  # for once
            while not await self._attempt(order, is_late) and not self._stopping:
                is_late = False
                await asyncio.sleep(AGAIN_S)

    async def _attempt(self, order: PlannedOrder, is_late: bool) -> bool:
        """Whether the order is settled: placed, or refused for good."""
        transaction = self._producer.transaction(reference=f"order {order.number}")
        is_told = order.course not in (Course.FORGOTTEN, Course.VANISHED)
        try:
            if is_told:
                async with transaction:
                    await self._place(order, transaction, is_late)
            else:
                await self._place(order, transaction, is_late)
        except OutOfStock:
            with Session(self._book) as session, session.begin():
                note_refused(session, order.number)
        except BarrierClosed:  # a check-back was faster: it is rolled back
            return False
        except HalfpastError:
            # Begun or not, committed or not: the check-backs will settle it. Whether
            # to try again is up to what the book says.
            return order.number in settled_numbers(self._book)
        return True

    async def _place(
        self, order: PlannedOrder, transaction: halfpast.Transaction, is_late: bool
    ) -> None:
        messages = await self._send(order, transaction)
        if is_late:
            await asyncio.sleep(self._arguments.check_after_ms / 1000 + LATE_S)
        # Nothing is awaited here: SQLite has one writer.
        book = Session(self._book)
        with book as session, halfpast.barrier(session, transaction):
            place_order(session, order.number, transaction.id, now_ms(), messages)
            if not order.is_placed:
                raise OutOfStock
        if order.number in self._arguments.stop_at:
            print(STOPPED, order.number, flush=True)
            await asyncio.Event().wait()

    async def _send(
        self, order: PlannedOrder, transaction: halfpast.Transaction
    ) -> list[LocalMessage]:
        attempt = uuid4().hex[:8]
        name = self._arguments.name
        sent: list[LocalMessage] = []
        for index, message in enumerate(order.messages):
            serial = serial_of_message(name, order.number, attempt, index)
            data = message_data(serial, order.number, message)
            delay = timedelta(milliseconds=message.delay_ms)
            event_id = await transaction.send(
                message.topic, data, key=name, delay=delay or None
            )
            sent.append(
                LocalMessage(
                    serial=serial,
                    event_id=event_id,
                    topic=message.topic,
                    data=data.decode(),
                    delay_ms=message.delay_ms,
                )
            )
        return sent


async def produce(arguments: ProducerArguments) -> None:
    """Place the orders, then answer check-backs until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    book = open_book(arguments.book)
    retry = RetryPolicy(total_s=20, attempt_s=5, backoff_max_s=0.5)
    async with (
        Client(arguments.address, retry=retry) as client,
        halfpast.TransactionalProducer(
            client,
            arguments.group,
            halfpast.barrier_check(book),
            check_after=timedelta(milliseconds=arguments.check_after_ms),
            check_interval=timedelta(milliseconds=arguments.check_interval_ms),
            check_max=arguments.check_max,
        ) as producer,
    ):
        orders = OrderProducer(arguments, book, producer)
        placing = asyncio.create_task(orders.run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((placing, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            await placing
            print(DONE, flush=True)
            await stopping
        orders.stop()
        with suppress(asyncio.CancelledError):
            await placing
    book.dispose()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--book", type=Path, required=True)
    parser.add_argument("--name", default="p0")
    parser.add_argument("--group", default="orders")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--check-after-ms", type=int, default=1000)
    parser.add_argument("--check-interval-ms", type=int, default=500)
    parser.add_argument("--check-max", type=int, default=100)
    parser.add_argument("--delay-ms-max", type=int, default=2000)
    parser.add_argument("--stop-at", type=int, nargs="*", default=[])
    given = vars(parser.parse_args())
    given["stop_at"] = frozenset(given["stop_at"])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(produce(ProducerArguments(**given)))


if __name__ == "__main__":
    main()

"""`make demo`: a shop publishes, schedules and transacts; much is killed, all counted.

Everything here is an ordinary HTTP client of a real server process on a temporary
folder. The exit status is 0 only if nothing was lost, early, doubled or changed.
"""

import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from halfpast_loadtest.delivery_check import Problem, check_log, check_queues
from halfpast_loadtest.demo_report import DemoReport, print_report
from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.group_reader import GroupReader
from halfpast_loadtest.message import Message, now_ms
from halfpast_loadtest.order_desk import OrderDesk, OrderReport
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.payloads import TOPICS, PayloadMaker
from halfpast_loadtest.queue_reader import read_topics
from halfpast_loadtest.server_process import HALFPAST, ServerProcess
from halfpast_loadtest.shop import Shop
from halfpast_loadtest.transaction_plan import TOPICS as ORDER_TOPICS

GROUP = "demo"
DELAY_MS_MAX = 5000
GRACE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """How much the demo does. The defaults take about 20 s."""

    seed: int = 2026
    published_count: int = 600
    scheduled_count: int = 360
    burst_count: int = 60  # events due in one and the same millisecond, three times
    cancelled_count: int = 40
    moved_count: int = 40
    order_count: int = 200  # transactions of a service with its own database
    order_kill_count: int = 4
    program: tuple[str, ...] = HALFPAST


def main() -> None:
    """Run the demo and exit with 0 if every promise was kept."""
    console = Console(highlight=False)
    try:
        report = asyncio.run(run_demo(DemoConfig(), console))
    except LoadtestError as error:
        console.print(f"[bold red]The demo could not run:[/] {error}", markup=True)
        sys.exit(1)
    sys.exit(0 if report.is_good else 1)


async def run_demo(config: DemoConfig, console: Console) -> DemoReport:
    """All steps on a folder of its own, which is removed if all went well."""
    with tempfile.TemporaryDirectory(prefix="halfpast-demo-") as folder:
        server = ServerProcess(Path(folder) / "data", program=config.program)
        try:
            report = await _Demo(config, console, server).run()
        finally:
            server.kill()
    print_report(report, console)
    return report


class _Demo:
    def __init__(
        self, config: DemoConfig, console: Console, server: ServerProcess
    ) -> None:
        self._config = config
        self._console = console
        self._server = server
        self._random = random.Random(config.seed)
        self._clients: list[PatientClient] = []
        self._began = time.monotonic()
        self._readers = [GroupReader(self._client(), GROUP, topic) for topic in TOPICS]
        self._order_readers = [
            GroupReader(self._client(), GROUP, topic) for topic in ORDER_TOPICS
        ]

    async def run(self) -> DemoReport:
        run = f"demo-{self._config.seed}"
        shop = Shop(self._client(), PayloadMaker(self._config.seed), run)
        desk = self._order_desk()
        await self._start()
        async with self._consuming():
            async with self._placing_orders(desk):
                await self._publish_and_schedule(shop)
                await self._cancel_and_move(shop)
                down = await self._kill_and_restart(shop)
                await self._after_the_crash(shop)
            consumed = await self._wait_for_all(shop)
            await asyncio.sleep(0.5)  # a duplicate would come now
        self._say("reading every queue from its start, to count for ourselves")
        messages = await read_topics(self._client(), TOPICS)
        orders = await desk.report(self._client())
        for client in self._clients:
            client.close()
        return self._report(shop, messages, down, consumed, orders)

    def _order_desk(self) -> OrderDesk:
        return OrderDesk(
            self._server.folder.parent,
            self._server.address,
            seed=self._config.seed,
            order_count=self._config.order_count,
            kill_count=self._config.order_kill_count,
            say=self._say,
        )

    async def _start(self) -> None:
        self._server.start()
        self._say(f"starting `halfpast dev` at {self._server.address}")
        seconds = await self._server.wait_ready()
        self._say(f"ready after {seconds:.1f} s; data in {self._server.folder}")

    async def _publish_and_schedule(self, shop: Shop) -> None:
        config = self._config
        started_ms = now_ms()
        for _ in range(config.scheduled_count // 3):
            await shop.publish(delay_ms=self._random.randint(0, DELAY_MS_MAX))
        for _ in range(6):
            spread = config.scheduled_count // 9
            await shop.publish_batch(
                [
                    now_ms() + self._random.randint(0, DELAY_MS_MAX)
                    for _ in range(spread)
                ]
            )
        for after_ms in (1500, 2800, 4200):
            await shop.publish_batch([started_ms + after_ms] * config.burst_count)
        scheduled = len(shop.scheduled)
        self._say(f"scheduled {scheduled} events, {config.burst_count} at once thrice")
        for _ in range(config.published_count // 3):
            await shop.publish()
        for _ in range(4):
            await shop.publish_batch([None] * (config.published_count // 6))
        self._say(
            f"published {config.published_count} events across {len(TOPICS)} topics"
        )

    async def _cancel_and_move(self, shop: Shop) -> None:
        config = self._config
        open_ones = shop.waiting(now_ms() + 400)
        chosen = self._random.sample(
            open_ones, min(len(open_ones), config.cancelled_count + config.moved_count)
        )
        for serial in chosen[: config.cancelled_count]:
            await shop.cancel(serial)
        for serial in chosen[config.cancelled_count :]:
            await shop.move(serial, now_ms() + self._random.randint(300, DELAY_MS_MAX))
        for number in range(10):  # the last word counts, as in a debounce
            await shop.remind(f"basket-{number}", now_ms() + 4000)
            await shop.remind(f"basket-{number}", now_ms() + 4500)
        self._say(f"cancelled {shop.cancelled_count}, rescheduled {shop.moved_count}")

    async def _kill_and_restart(self, shop: Shop) -> range:
        """Kill the server under load; when it was down, in epoch ms."""
        busy = asyncio.create_task(self._keep_publishing(shop))
        await asyncio.sleep(0.3)
        killed_ms = now_ms()
        self._server.kill()
        self._say("[bold]kill -9[/] in the middle of it, and start again")
        await asyncio.sleep(0.3)
        self._server.start()
        await self._server.wait_ready()
        ready_ms = now_ms()
        await busy
        self._say(f"ready again; it was down for {(ready_ms - killed_ms) / 1000:.1f} s")
        return range(killed_ms, ready_ms + 1)

    async def _keep_publishing(self, shop: Shop) -> None:
        for _ in range(200):
            await shop.publish()
            await asyncio.sleep(0.002)

    async def _after_the_crash(self, shop: Shop) -> None:
        for serial in shop.waiting(now_ms() + 300)[:5]:
            await shop.cancel(serial)
        for _ in range(30):
            await shop.publish(delay_ms=self._random.randint(0, 2000))
        self._say("scheduled and cancelled some more; waiting for all deliveries")

    async def _wait_for_all(self, shop: Shop) -> int:
        last_due_ms = max(max(shop.told[one].due_ms) for one in shop.scheduled)
        deadline_ms = max(now_ms(), last_due_ms) + GRACE_S * 1000
        while now_ms() < deadline_ms:
            consumed = sum(reader.seen_count for reader in self._readers)
            if consumed >= shop.expected_count and now_ms() > last_due_ms:
                break
            await asyncio.sleep(0.05)
        return sum(reader.seen_count for reader in self._readers)

    def _report(
        self,
        shop: Shop,
        messages: list[Message],
        down: range,
        consumed: int,
        orders: OrderReport,
    ) -> DemoReport:
        problems = check_log(shop.told.values(), messages) + check_queues(messages)
        problems += orders.problems
        consumed += sum(reader.seen_count for reader in self._order_readers)
        expected = shop.expected_count + len(orders.messages)
        if consumed < expected:
            detail = f"{consumed} of {expected} messages came"
            problems.append(Problem("not_consumed", GROUP, detail))
        return DemoReport(
            published_count=len(shop.told) - len(shop.scheduled) - shop.replaced_count,
            scheduled_count=len(shop.scheduled) + shop.replaced_count,
            cancelled_count=shop.cancelled_count,
            too_late_count=shop.too_late_count,
            moved_count=shop.moved_count,
            replaced_count=shop.replaced_count,
            consumed_count=consumed,
            redelivered_count=sum(one.redelivered_count for one in self._all_readers),
            unknown_count=sum(client.unknown_count for client in self._clients),
            messages=messages,
            orders=orders,
            problems=problems,
            down=down,
            seconds=time.monotonic() - self._began,
        )

    def _client(self) -> PatientClient:
        client = PatientClient(self._server.host, self._server.port)
        self._clients.append(client)
        return client

    @property
    def _all_readers(self) -> list[GroupReader]:
        return [*self._readers, *self._order_readers]

    @contextlib.asynccontextmanager
    async def _placing_orders(self, desk: OrderDesk) -> AsyncGenerator[None]:
        """The orders' service works inside the block; all is settled at its end."""
        task = asyncio.create_task(desk.run(self._client()))
        try:
            yield
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _consuming(self) -> AsyncGenerator[None]:
        tasks = [asyncio.create_task(reader.run()) for reader in self._all_readers]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, LoadtestError):
                    raise result

    def _say(self, text: str) -> None:
        seconds = time.monotonic() - self._began
        self._console.print(f"[dim]{seconds:5.1f} s[/]  {text}")


if __name__ == "__main__":
    main()

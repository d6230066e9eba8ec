"""Kills a server and its transactional producers, then lets their databases judge.

    python -m tests.acceptance.transaction_crashes up 32      by hand; --help for more

The producers place orders in SQLite, each with the messages that tell of it, in one
local transaction beside the barrier's row (see `halfpast_loadtest.transaction_load`).
The kills are spread over the work, not over the time: one comes whenever the
databases have grown by so many orders. Besides, a producer is killed at certain
orders between its local commit and the second phase. In the end all indexes are
deleted, and the same must come out of the log alone.
"""

import argparse
import asyncio
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.transaction_books import Books, check_books

from halfpast_loadtest.delivery_check import (
    Problem,
    check_consumption,
    check_same_prefix,
)
from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.group_reader import GroupReader
from halfpast_loadtest.message import Message
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.producer_process import ProducerConfig, ProducerProcess
from halfpast_loadtest.queue_reader import read_topics
from halfpast_loadtest.server_process import HALFPAST, ServerProcess
from halfpast_loadtest.transaction_load import LoadConfig, TransactionLoad
from halfpast_loadtest.transaction_plan import TOPICS, Course, planned_order

INDEXES = ("index", "chronos", "txn")
GRACE_S = 10.0
LOOK_EVERY_S = 0.03
MIB = 1024 * 1024
SETTINGS = {
    "HALFPAST_STORE_LOG_SEGMENT_SIZE": str(16 * MIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE": str(MIB),
    "HALFPAST_STORE_LOG_FRAME_SIZE_MAX": str(4 * MIB),
    "HALFPAST_TXN_INDEX_FLUSH_MS": "700",
    "HALFPAST_STORE_INDEX_FLUSH_MS": "900",
    "HALFPAST_CHRONOS_INDEX_FLUSH_MS": "800",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCrashConfig:
    """`kill_count` counts those of the server and of producers anywhere; the ones
    of the first producer between both phases come on top, at `stop_count` orders."""

    mode: str
    kill_count: int
    seed: int
    transaction_count: int = 5000
    producer_count: int = 4
    stop_count: int = 8
    check_after_ms: int = 700
    check_interval_ms: int = 250
    delay_ms_max: int = 1500
    timeout_s: float = 150.0
    settle_s: float = 60.0
    program: Sequence[str] = HALFPAST


@dataclass(slots=True, kw_only=True)
class TransactionCrashReport:
    """What one run did and what it found wrong; `folder` is kept if anything is."""

    seed: int
    folder: Path
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    kills: Counter[str] = field(default_factory=Counter[str])
    books: Books | None = None
    problems: list[Problem] = field(default_factory=list[Problem])

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}, folder {self.folder}",
            f"seconds: { {at: round(took, 1) for at, took in self.seconds.items()} }",
            f"{self.kills.total()} kills: {dict(self.kills)}",
            f"books: {self.books}",
            f"{len(self.problems)} problems",
            *map(str, self.problems[:20]),
        ]
        return "\n".join(lines)


async def run_transaction_crashes(
    config: TransactionCrashConfig,
) -> TransactionCrashReport:
    """One whole run. Its folder is left behind if anything is wrong."""
    folder = Path(tempfile.mkdtemp(prefix=f"halfpast-tx-{config.mode}-"))
    report = TransactionCrashReport(seed=config.seed, folder=folder)
    server = ServerProcess(
        folder / "data",
        mode=config.mode,
        program=config.program,
        settings=SETTINGS,
    )
    run = _Run(config, server, report)
    try:
        await run.all()
    except BaseException as error:
        error.add_note(f"{report}\n{server.log_tail()}")
        raise
    finally:
        await run.load.kill()
        server.kill()
    if not report.problems:
        shutil.rmtree(folder)
    return report


class _Run:
    def __init__(
        self,
        config: TransactionCrashConfig,
        server: ServerProcess,
        report: TransactionCrashReport,
    ) -> None:
        self._config = config
        self._server = server
        self._report = report
        self._chance = random.Random(config.seed)
        self._locks: dict[str, asyncio.Lock] = {}
        self._readers = [
            GroupReader(self._patient(), "readers", topic, invisible_ms=2000)
            for topic in TOPICS
        ]
        self.load = TransactionLoad(
            report.folder,
            server.address,
            LoadConfig(
                transaction_count=config.transaction_count,
                producer_count=config.producer_count,
                stop_at=self._stop_points(),
                producer=ProducerConfig(
                    seed=config.seed,
                    check_after_ms=config.check_after_ms,
                    check_interval_ms=config.check_interval_ms,
                    delay_ms_max=config.delay_ms_max,
                ),
            ),
        )

    async def all(self) -> None:
        client = self._patient()
        with self._timed("start"):
            self._server.start()
            await self._server.wait_ready()
            await self.load.start()
        reading = [asyncio.create_task(one.run()) for one in self._readers]
        with self._timed("kills"):
            async with self._killing_the_stopped():
                early_look = await self._kill_many(client)
                async with asyncio.timeout(self._config.timeout_s):
                    for one in self.load.producers:
                        await one.is_done.wait()  # through kills that still come
        with self._timed("settle"):
            await self.load.wait_settled(client, self._config.settle_s)
            await self._all_read()
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        with self._timed("check"):
            self._report.books = books = await self._read(client)
            self._report.problems += [
                *await check_books(client, books),
                *self._check_finished(books),
                *check_same_prefix(early_look, books.messages),
                *check_consumption(
                    books.messages,
                    [message for one in self._readers for message in one.popped],
                    [it for one in self._readers for it in one.popped_after_ack],
                ),
            ]
        await self.load.stop()
        with self._timed("rebuild"):
            await self._rebuild(client, books)
        client.close()

    async def _read(self, client: PatientClient) -> Books:
        load = self.load
        groups = [one.group for one in load.producers]
        return await Books.read(client, groups, load.placed(), load.refused_count())

    def _check_finished(self, books: Books) -> list[Problem]:
        done, wanted = books.settled_count, self._config.transaction_count
        if done == wanted:
            return []
        detail = f"{done} of {wanted} are settled in the databases"
        return [Problem("unfinished", "orders", detail)]

    async def _all_read(self) -> None:
        """What the group has not had by now is for the check to find."""
        wanted = sum(len(one.messages) for one in self.load.placed())
        deadline = time.monotonic() + GRACE_S
        while sum(one.seen_count for one in self._readers) < wanted:
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _rebuild(self, client: PatientClient, before: Books) -> None:
        """Stop as an operator does, and let the next start have the log alone."""
        self._stop_server()
        for name in INDEXES:
            shutil.rmtree(self._server.folder / name)
        self._server.start()
        await self._server.wait_ready()
        after = await self._read(client)
        self._report.problems += [
            *await check_books(client, after),
            *check_same_prefix(before.messages, after.messages),
        ]
        if after.outcomes != before.outcomes:
            detail = "other outcomes after the indexes were deleted"
            self._report.problems.append(Problem("rewritten", "outcomes", detail))
        self._stop_server()

    def _stop_server(self) -> None:
        if (status := self._server.stop()) != 0:
            raise LoadtestError(f"the server ended with status {status}")

    async def _kill_many(self, client: PatientClient) -> list[Message]:
        """Kill one after the other; gives what lay in the log half-way."""
        config = self._config
        plan = self._kill_plan()
        early_look: list[Message] = []
        step = config.transaction_count / (len(plan) + 1)
        for number, victim in enumerate(plan):
            await self._grown_to(int(step * (number + 1)))
            await asyncio.sleep(self._chance.uniform(0, LOOK_EVERY_S))
            await self._kill(victim)
            if number == len(plan) // 2:
                early_look = await read_topics(client, TOPICS)
        return early_look

    def _kill_plan(self) -> list[str]:
        """Who is killed, in a random order; each kind has its turns."""
        kinds = ["txn", "broker", "producer", "txn", "chronos", "producer", "api"]
        if self._config.mode == "dev":
            kinds = ["all", "producer", "all"]
        count = self._config.kill_count
        plan = (kinds * count)[:count]
        if self._config.mode == "up":
            plan[-3:] = ["all"] * len(plan[-3:])
        self._chance.shuffle(plan)
        return plan

    async def _kill(self, victim: str) -> None:
        self._report.kills[victim] += 1
        if victim == "producer":
            busy = [one for one in self.load.producers if not one.is_done.is_set()]
            one = self._chance.choice(busy or self.load.producers)
            async with self._lock(one):
                await one.kill()
                await one.start()
        elif victim == "all":
            self._server.kill()
            self._server.start()
            await self._server.wait_ready()
        else:  # `up` starts it again by itself
            assert self._server.kill_service(victim), victim
            await self._server.wait_ready()

    @asynccontextmanager
    async def _killing_the_stopped(self) -> AsyncGenerator[None]:
        """Who stands between the local commit and the second phase is killed."""

        async def watch(one: ProducerProcess) -> None:
            while True:
                await one.is_stopped.wait()
                async with self._lock(one):
                    if one.is_stopped.is_set():
                        self._report.kills["between both phases"] += 1
                        await one.kill()
                        await one.start()

        watching = [asyncio.create_task(watch(one)) for one in self.load.producers]
        try:
            yield
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    def _stop_points(self) -> tuple[int, ...]:
        """Orders of the first producer that commit, if nothing else happens."""
        config = self._config
        share = config.transaction_count // config.producer_count
        committing = [
            number
            for number in range(share)
            if planned_order(config.seed, "p0", number, config.delay_ms_max).course
            is Course.COMMITTED
        ]
        return tuple(sorted(self._chance.sample(committing, config.stop_count)))

    async def _grown_to(self, count: int) -> None:
        deadline = time.monotonic() + self._config.timeout_s
        while sum(settled_count(one.book) for one in self.load.producers) < count:
            assert time.monotonic() < deadline, "the producers do not get on"
            await asyncio.sleep(LOOK_EVERY_S)

    def _lock(self, one: ProducerProcess) -> asyncio.Lock:
        return self._locks.setdefault(one.name, asyncio.Lock())

    def _patient(self) -> PatientClient:
        return PatientClient(self._server.host, self._server.port, patience_s=40)

    def _timed(self, what: str) -> "_Stopwatch":
        return _Stopwatch(self._report.seconds, what)


class _Stopwatch:
    def __init__(self, seconds: dict[str, float], what: str) -> None:
        self._seconds = seconds
        self._what = what

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._what] = time.monotonic() - self._began


def settled_count(book: Path) -> int:
    """How many orders need no further attempt, without disturbing their producer."""
    counts = "(SELECT count(*) FROM orders) + (SELECT count(*) FROM refused_orders)"
    try:
        with closing(sqlite3.connect(f"file:{book}?mode=ro", uri=True)) as database:
            [count] = database.execute(f"SELECT {counts}").fetchone()
            return int(count)
    except sqlite3.OperationalError:  # its producer has not made it yet
        return 0


def main() -> None:
    """One run by hand; exit status 0 if nothing is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("dev", "up"))
    parser.add_argument("kills", type=int)
    parser.add_argument("--transactions", type=int, default=5000)
    drawn = random.SystemRandom().getrandbits(32)
    parser.add_argument("--seed", type=int, default=drawn)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    report = asyncio.run(
        run_transaction_crashes(
            TransactionCrashConfig(
                mode=given.mode,
                kill_count=given.kills,
                seed=given.seed,
                transaction_count=given.transactions,
            )
        )
    )
    print(report)
    sys.exit(1 if report.problems else 0)


if __name__ == "__main__":
    main()

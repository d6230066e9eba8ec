"""Kills a server again and again under load, then proves that it kept its word.

    python -m tests.acceptance.crash_driver dev 12      by hand; --help for more

Nothing here knows the product from inside: processes, HTTP and the driver's own
journal. The seed decides what is sent and when the kills come; the operating
system decides the rest, so a seed narrows a failure down but does not replay it.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.crash_journal import Journal, Told, fold, read_journal
from tests.acceptance.crash_producer import (
    TOPICS,
    CrashProducer,
    Tally,
)

from halfpast_loadtest.delivery_check import (
    Fate,
    Problem,
    check_consumption,
    check_log,
    check_queues,
    check_same_prefix,
    check_states,
)
from halfpast_loadtest.errors import LoadtestError
from halfpast_loadtest.event_request import state_or_code
from halfpast_loadtest.group_reader import GroupReader
from halfpast_loadtest.http_wire import WireClient
from halfpast_loadtest.message import Message, now_ms
from halfpast_loadtest.patient_client import PatientClient
from halfpast_loadtest.queue_reader import read_topics
from halfpast_loadtest.server_process import HALFPAST, ServerProcess

SERVICES = ("broker", "chronos", "txn", "api")
GRACE_S = 15.0
FOUND = frozenset({200, 404})


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashConfig:
    """How often to kill what. Times in seconds."""

    mode: str
    kill_count: int
    seed: int
    producer_count: int = 6
    alive_s: tuple[float, float] = (0.2, 1.2)
    delay_ms_max: int = 3000
    quiet_s: float = 1.0  # without a new message for so long, all have come
    recovering_share: float = 0.2  # kills that hit a server which is still starting
    program: Sequence[str] = HALFPAST


@dataclass(slots=True, kw_only=True)
class CrashReport:
    """What one run did and what it found wrong; `folder` is kept if anything is."""

    seed: int
    folder: Path
    seconds: float = 0.0
    kills: Tally = field(default_factory=Tally)
    tally: Tally = field(default_factory=Tally)
    fates: dict[Fate, int] = field(default_factory=dict[Fate, int])
    problems: list[Problem] = field(default_factory=list[Problem])

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}, {self.seconds:.0f} s, folder {self.folder}",
            f"kills: {self.kills.counts}",
            f"done: {self.tally.counts}",
            f"fates: { {fate.value: count for fate, count in self.fates.items()} }",
            f"{len(self.problems)} problems",
            *map(str, self.problems[:20]),
        ]
        return "\n".join(lines)


async def run_crashes(config: CrashConfig) -> CrashReport:
    """One whole run. Its folder is left behind if anything is wrong."""
    folder = Path(tempfile.mkdtemp(prefix=f"halfpast-crash-{config.mode}-"))
    report = CrashReport(seed=config.seed, folder=folder)
    server = ServerProcess(folder / "data", mode=config.mode, program=config.program)
    began = time.monotonic()
    try:
        await _Crashes(config, server, report).run()
    except BaseException as error:
        report.seconds = time.monotonic() - began
        error.add_note(f"{report}\n{server.log_tail()}")
        raise
    finally:
        server.kill()
    report.seconds = time.monotonic() - began
    if not report.problems:
        shutil.rmtree(folder)
    return report


class _Crashes:
    def __init__(
        self, config: CrashConfig, server: ServerProcess, report: CrashReport
    ) -> None:
        self._config = config
        self._server = server
        self._report = report
        self._chance = random.Random(config.seed)
        self._journal_path = report.folder / "journal.jsonl"
        self._readers: list[GroupReader] = []
        self._early_look: list[Message] = []

    async def run(self) -> None:
        journal = Journal(self._journal_path)
        stop = asyncio.Event()
        clients: list[WireClient] = []
        self._server.start()
        await self._server.wait_ready()
        async with journal.syncing(), asyncio.TaskGroup() as tasks:
            for number in range(self._config.producer_count):
                client = WireClient(self._server.host, self._server.port, timeout_s=10)
                clients.append(client)
                producer = CrashProducer(
                    f"p{number}",
                    client,
                    journal,
                    self._report.tally,
                    seed=self._config.seed,
                    delay_ms_max=self._config.delay_ms_max,
                )
                tasks.create_task(producer.run(stop))
            consumers = [tasks.create_task(one.run()) for one in self._consume()]
            await self._kill_many()
            stop.set()
            await asyncio.sleep(self._config.delay_ms_max / 1000)
            await self._settle()
            for consumer in consumers:
                consumer.cancel()
        for client in clients:
            client.close()
        await self._check()

    async def _kill_many(self) -> None:
        for number in range(self._config.kill_count):
            await asyncio.sleep(self._chance.uniform(*self._config.alive_s))
            service = self._chance.choice(("all", "all", *SERVICES))
            if self._config.mode != "up" or not await self._kill_one(service):
                await self._kill_all()
            if number == self._config.kill_count // 2:
                client = self._patient()
                self._early_look = await read_topics(client, TOPICS)
                client.close()

    async def _kill_one(self, service: str) -> bool:
        """Kill one service below `up`, which has to start it again by itself."""
        if service == "all" or not self._server.kill_service(service):
            return False
        self._report.kills.add(service)
        await asyncio.sleep(0.05)
        await self._server.wait_ready()
        return True

    async def _kill_all(self) -> None:
        self._server.kill()
        self._report.kills.add("all")
        while self._chance.random() < self._config.recovering_share:
            self._server.start()
            await asyncio.sleep(self._chance.uniform(0, 1.0))
            self._server.kill()
            self._report.kills.add("while starting")
        self._server.start()
        await self._server.wait_ready()

    async def _settle(self) -> None:
        """Wait until nothing more comes, at most for the time of grace."""
        deadline = time.monotonic() + GRACE_S
        count = -1
        while count != (count := sum(one.seen_count for one in self._readers)):
            await asyncio.sleep(self._config.quiet_s)
            if time.monotonic() > deadline:
                return

    async def _check(self) -> None:
        client = self._patient()
        checked_ms = now_ms()
        messages = await read_topics(client, TOPICS)
        told = fold(read_journal(self._journal_path), checked_ms)
        expectations = [*told.expectations.values()]
        for one in expectations:
            fates = self._report.fates
            fates[one.fate] = fates.get(one.fate, 0) + 1
        self._report.problems += [
            *told.problems,
            *check_log(expectations, messages),
            *check_queues(messages),
            *check_same_prefix(self._early_look, messages),
            *check_states(
                expectations, await self._states(client, told), messages, checked_ms
            ),
            *check_consumption(
                messages,
                [message for one in self._readers for message in one.popped],
                [message for one in self._readers for message in one.popped_after_ack],
            ),
        ]
        client.close()

    async def _states(self, client: PatientClient, told: Told) -> dict[str, str]:
        states: dict[str, str] = {}
        for one in told.expectations.values():
            if one.event_id:
                path = f"/v1/events/{one.event_id}"
                answer = await client.request("GET", path, want=FOUND)
                states[one.event_id] = state_or_code(answer.body)
        return states

    def _consume(self) -> list[GroupReader]:
        self._readers = [
            GroupReader(self._patient(), "crash-group", topic, invisible_ms=2000)
            for topic in TOPICS
        ]
        return self._readers

    def _patient(self) -> PatientClient:
        return PatientClient(self._server.host, self._server.port, patience_s=40)


def main() -> None:
    """One run by hand; exit status 0 if nothing is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("dev", "up"))
    parser.add_argument("kills", type=int)
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32)
    )
    arguments = parser.parse_args()
    config = CrashConfig(
        mode=arguments.mode, kill_count=arguments.kills, seed=arguments.seed
    )
    print(f"seed {config.seed}", flush=True)
    try:
        report = asyncio.run(run_crashes(config))
    except* LoadtestError as errors:
        traceback.print_exception(errors)
        sys.exit(2)
    print(report)
    sys.exit(1 if report.problems else 0)


if __name__ == "__main__":
    main()

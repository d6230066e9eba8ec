"""Fills a broker's send lane to its bound and keeps it full, until SIGTERM.

    python -m halfpast_loadtest.send_flood --broker unix:/data/run/broker.sock

HTTP costs more than the broker does, so on a small machine no number of HTTP clients
can fill the lane. This process speaks to the broker as an API process would, with
requests that were encoded once, so that it is the broker which is at its limit. Far
more appends are outstanding than the lane takes; one that is refused comes again
after a while. It prints a line when the lane is full, and its report, as JSON, at
the end.

The same few requests are sent over and over, with the same ids: nobody reads them.
"""

import argparse
import asyncio
import os
import random
import signal
import time

import msgspec
import uvloop

from halfpast_core_store.broker import Append, EnsureTopic, Run
from halfpast_core_store.broker_rpc import BrokerClient
from halfpast_core_store.errors import Overloaded
from halfpast_core_store.record import RecordKind, encode_record
from halfpast_core_store.rpc_errors import Unavailable
from halfpast_loadtest.lane_watch import LaneUse, LaneWatch
from halfpast_loadtest.message import now_ms
from halfpast_loadtest.request_set import bodies

TOPIC = "bench-flood"
QUEUE_COUNT = 4
CONNECTIONS = 2
FULL = "the lane is full"


class FloodReport(msgspec.Struct, kw_only=True):
    """What was offered and what was taken, in appends, and how full the lane was."""

    seconds: float
    accepted: int
    refused: int
    records_per_append: int
    lane: LaneUse

    @property
    def offered_of_accepted(self) -> float:
        """How many times the lane's capacity was offered."""
        return (self.accepted + self.refused) / max(self.accepted, 1)


class _Flood:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._pause_s: float = arguments.pause_s
        self._outstanding: int = arguments.outstanding
        self._clients = [BrokerClient(arguments.broker) for _ in range(CONNECTIONS)]
        self._accepted = 0
        self._refused = 0
        self._full = asyncio.Event()
        self._address: str = arguments.broker
        self._record_count: int = arguments.records
        self._body_bytes: int = arguments.body_bytes

    async def run(self, stop: asyncio.Event) -> FloodReport:
        """Flood until `stop` is set."""
        requests = await self._requests()
        began = time.perf_counter()
        tasks = [
            asyncio.create_task(self._send_for_ever(at, requests[at % len(requests)]))
            for at in range(self._outstanding)
        ]
        await self._full.wait()
        print(FULL, flush=True)
        async with LaneWatch(self._address) as watch:
            accepted, refused = self._accepted, self._refused
            began = time.perf_counter()
            await stop.wait()
            report = FloodReport(
                seconds=time.perf_counter() - began,
                accepted=self._accepted - accepted,
                refused=self._refused - refused,
                records_per_append=self._record_count,
                lane=watch.use(),
            )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()
        return report

    async def _requests(self) -> list[Append]:
        topic = await self._clients[0].ensure_topic(EnsureTopic(TOPIC, QUEUE_COUNT))
        datas = bodies(self._body_bytes, self._record_count)
        born_ms = now_ms()
        return [
            Append(
                [
                    Run(
                        topic.id,
                        queue,
                        [
                            encode_record(
                                RecordKind.NORMAL,
                                topic_id=topic.id,
                                queue_id=queue,
                                event_id=os.urandom(16),
                                born_ms=born_ms,
                                body=data,
                            )
                            for data in datas
                        ],
                    )
                ]
            )
            for queue in range(QUEUE_COUNT)
        ]

    async def _send_for_ever(self, at: int, request: Append) -> None:
        client = self._clients[at % CONNECTIONS]
        chance = random.Random(at)
        while True:
            try:
                await client.append(request)
                self._accepted += 1
            except Overloaded:
                self._refused += 1
                self._full.set()
                await asyncio.sleep(self._pause_s * chance.uniform(0.5, 1.5))
            except Unavailable:  # the broker does not read as fast as this writes
                continue


async def flood(arguments: argparse.Namespace) -> None:
    """Flood until SIGTERM, then print the report."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    report = await _Flood(arguments).run(stop)
    print(msgspec.json.encode(report).decode(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", required=True)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--body-bytes", type=int, default=300)
    parser.add_argument("--outstanding", type=int, default=6000)
    parser.add_argument("--pause-s", type=float, default=1.0)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(flood(parser.parse_args()))


if __name__ == "__main__":
    main()

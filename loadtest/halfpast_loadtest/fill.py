"""Many delayed events, scheduled in batches as fast as they are taken."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, cycle, islice
from typing import Any

import msgspec

from halfpast_loadtest.errors import RequestFailed
from halfpast_loadtest.http_wire import Response
from halfpast_loadtest.one_pass import run_once
from halfpast_loadtest.progress import Progress
from halfpast_loadtest.request_set import Dues, batch_requests, bodies
from halfpast_loadtest.server_process import ServerProcess

BATCHES_MADE = 100  # different ones, sent in turn
SLICE_COUNT = 10

TakeIds = Callable[[list[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FillConfig:
    """How many events, and in what form they come. Due times repeat themselves after
    `batches_made` batches."""

    topic: str
    count: int
    dues: Dues
    body_bytes: int = 300
    events_per_request: int = 500
    callers: int = 4
    batches_made: int = BATCHES_MADE
    what: str = "scheduling"


@dataclass(slots=True)
class Filled:
    """`slice_rates`: events per second, a tenth of them after the other."""

    count: int = 0
    seconds: float = 0.0
    refused_requests: int = 0
    slice_rates: list[float] = field(default_factory=list[float])
    request_ms: list[float] = field(default_factory=list[float])

    @property
    def rate_per_s(self) -> float:
        return self.count / self.seconds if self.seconds else 0.0


async def fill(server: ServerProcess, config: FillConfig, on_ids: TakeIds) -> Filled:
    """Schedule them all; `on_ids` gets the ids of each batch when it is durable.

    Raises RequestFailed if the server takes one in a batch and not the others.
    """
    filled = Filled()
    requests = _requests(config)
    pace = _Pace(config.count)
    progress = Progress(config.what, config.count)

    def answered(response: Response) -> None:
        ids = created_ids(response)
        filled.count += len(ids)
        pace.at(filled.count)
        progress.at(filled.count)
        on_ids(ids)

    seen = await run_once(
        server.host,
        server.port,
        requests,
        callers=config.callers,
        on_answer=answered,
    )
    progress.end()
    filled.seconds = seen.seconds
    filled.refused_requests = seen.refused
    filled.slice_rates = pace.rates
    filled.request_ms = list(seen.latencies_ms)
    return filled


def created_ids(response: Response) -> list[str]:
    """The ids of a batch of which everything was taken. Raises RequestFailed."""
    if response.status != 200:
        raise RequestFailed("scheduling", response.status, response.body)
    items = _RESULTS.decode(response.body).results
    for item in items:
        if item.status != 201:
            problem = msgspec.json.encode(item.problem)
            raise RequestFailed("scheduling one in a batch", item.status, problem)
    return [item.id for item in items]


def _requests(config: FillConfig) -> Iterator[bytes]:
    """Whole batches, made beforehand, and one for what is left over."""
    size = config.events_per_request
    whole, rest = divmod(config.count, size)
    made = min(whole, config.batches_made)
    datas = bodies(config.body_bytes, max(made, 1) * size)
    batches = batch_requests(config.topic, datas, size, config.dues, packed=True)
    last: list[bytes] = []
    if rest:
        last = batch_requests(
            config.topic, datas[:rest], rest, config.dues, packed=True
        )
    return chain(islice(cycle(batches), whole), last)


class _Pace:
    """The rate of each tenth of the way."""

    def __init__(self, count: int) -> None:
        self.rates: list[float] = []
        self._size = max(count // SLICE_COUNT, 1)
        self._next = self._size
        self._began = time.perf_counter()
        self._began_count = 0

    def at(self, count: int) -> None:
        if count < self._next:
            return
        self._next = (count // self._size + 1) * self._size
        now = time.perf_counter()
        self.rates.append((count - self._began_count) / (now - self._began))
        self._began, self._began_count = now, count


class _Item(msgspec.Struct):
    status: int
    id: str = ""
    problem: dict[str, Any] | None = None


class _Results(msgspec.Struct):
    results: list[_Item]


_RESULTS = msgspec.msgpack.Decoder(_Results)

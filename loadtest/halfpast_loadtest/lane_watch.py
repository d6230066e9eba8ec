"""How full a broker's lanes are, looked at often, through its own status call."""

import asyncio
from typing import Self

import msgspec

from halfpast_core_store.broker import BrokerStatus, Empty
from halfpast_core_store.broker_rpc import BrokerClient
from halfpast_core_store.config import LanesConfig
from halfpast_loadtest.latency import summarise

EVERY_S = 0.05
FULL_SHARE = 0.9  # of the bound: one large request more may not fit


class LaneUse(msgspec.Struct, kw_only=True):
    """What was seen of the send lane, and of the one of second phases.

    `full_share`: in which share of the looks the send lane was full. `refused`: how
    many requests it turned away meanwhile.
    """

    looks: int = 0
    full_share: float = 0.0
    refused: int = 0
    waiting_requests_p50: float = 0.0
    waiting_mb_p50: float = 0.0
    end_waiting_requests_max: float = 0.0
    end_refused: int = 0


class LaneWatch:
    """Looks every 50 ms inside its block."""

    def __init__(self, address: str) -> None:
        self._client = BrokerClient(address)
        self._seen: list[BrokerStatus] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look_for_ever())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    def use(self) -> LaneUse:
        """What was seen so far."""
        return lane_use(self._seen, LanesConfig())

    async def _look_for_ever(self) -> None:
        while True:
            self._seen.append(await self._client.status(Empty()))
            await asyncio.sleep(EVERY_S)


def lane_use(seen: list[BrokerStatus], bounds: LanesConfig) -> LaneUse:
    """Sum up statuses, in the order they came."""
    if not seen:
        return LaneUse()
    requests = [one.gauges[_named("waiting_requests", "send")] for one in seen]
    sizes = [one.gauges[_named("waiting_bytes", "send")] for one in seen]
    full = [
        count >= FULL_SHARE * bounds.request_count_max
        or size >= FULL_SHARE * bounds.size_max
        for count, size in zip(requests, sizes, strict=True)
    ]
    ends = [one.gauges[_named("waiting_requests", "end-transaction")] for one in seen]
    first, last = seen[0].counters, seen[-1].counters

    def refused(lane: str) -> int:
        name = _named("refused_total", lane)
        return round(last[name] - first[name])

    return LaneUse(
        looks=len(seen),
        full_share=round(sum(full) / len(seen), 3),
        refused=refused("send"),
        waiting_requests_p50=summarise(requests).p50_ms,
        waiting_mb_p50=round(summarise(sizes).p50_ms / 1e6, 1),
        end_waiting_requests_max=max(ends),
        end_refused=refused("end-transaction"),
    )


def _named(what: str, lane: str) -> str:
    return f'lane_{what}{{lane="{lane}"}}'

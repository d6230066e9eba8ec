"""Messages of push consumers stay hidden while their client lives.

A push consumer receives without saying for how long; the server is to keep what it got
hidden until it answers. So each such message is hidden anew when two thirds of its time
are over, as long as its client calls now and then (they beat every ten seconds). Hiding
anew gives a new receipt, and the client keeps the first one: what that one stands for
now is known here. If this process dies, the last time runs out, and the message is
offered again.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import structlog

from halfpast_api.message_view import parse_receipt
from halfpast_api.problems import as_refusal
from halfpast_api.rocketmq.caller import ClientKey
from halfpast_api.rocketmq.clients import Clients
from halfpast_api.rocketmq.config import GrpcConfig
from halfpast_api.rocketmq.rooms import Rooms
from halfpast_core_store.broker import Settle, SettleAction

_LOOK_S: Final = 0.25
_BATCH_MAX: Final = 500
_SPARE: Final = 1_000
_GONE: Final = frozenset({"receipt_expired", "malformed_receipt"})

Handle = tuple[str, str]
"""A namespace, and what the client holds."""


@dataclass(slots=True)
class Held:
    """One message that is kept hidden. `is_busy`: it is just being settled."""

    handle: Handle
    client: ClientKey
    group: str
    receipt: bytes
    invisible_ms: int
    since_s: float
    is_busy: bool = False
    renewing: "asyncio.Future[None] | None" = None


@dataclass(order=True, slots=True)
class _Alarm:
    at_s: float
    number: int
    held: Held = field(compare=False)


class Renewals:
    """All of one process."""

    def __init__(
        self,
        clients: Clients,
        rooms: Rooms,
        config: GrpcConfig,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._rooms = rooms
        self._config = config
        self._monotonic_s = monotonic_s
        self._held: dict[Handle, Held] = {}
        self._of_client: dict[ClientKey, set[Handle]] = {}
        self._alarms: list[_Alarm] = []
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None
        self._log = structlog.get_logger("halfpast.grpc")
        self.renewed_count = 0

    def __len__(self) -> int:
        return len(self._held)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Hide nothing any more; what is hidden comes back when its time is over."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def keep(
        self,
        client: ClientKey,
        namespace: str,
        group: str,
        handles: Sequence[tuple[str, bytes]],
        invisible_ms: int,
    ) -> None:
        """Keep these hidden: what the client holds of each, and its receipt. What is
        too much is not kept, and offered again when its time is over."""
        now_s = self._monotonic_s()
        for text, receipt in handles:
            if len(self._held) >= self._config.renewals_max:
                return
            handle = (namespace, text)
            held = Held(handle, client, group, receipt, invisible_ms, now_s)
            self._held[handle] = held
            self._of_client.setdefault(client, set()).add(handle)
            self._alarm(held, now_s)

    def is_kept(self, namespace: str, text: str) -> bool:
        """Whether a push consumer has this handle, and has not settled it."""
        return (namespace, text) in self._held

    async def receipt_of(self, namespace: str, text: str) -> bytes | None:
        """The receipt for which a handle stands now; None for what is no handle. Until
        `settled` or `unsettled` it stays as it is."""
        held = self._held.get((namespace, text))
        if held is None:
            return parse_receipt(text)
        held.is_busy = True
        if held.renewing is not None:
            await asyncio.wait([held.renewing])
        return held.receipt

    def settled(self, namespace: str, text: str) -> None:
        """The message is done, or hidden otherwise."""
        self._drop((namespace, text))

    def unsettled(self, namespace: str, text: str) -> None:
        """It could not be settled: keep it."""
        held = self._held.get((namespace, text))
        if held is not None:
            held.is_busy = False

    async def leave(self, client: ClientKey) -> None:
        """The client ends: what it holds is offered to others at once. Raises what the
        broker raises."""
        held = [self._held[it] for it in self._of_client.get(client, ())]
        for one in held:
            self._drop(one.handle)
        for namespace, group, some in _by_group(held):
            await self._rooms.of(namespace).space.broker.settle(
                Settle(
                    group=group,
                    action=SettleAction.RELEASE,
                    receipts=[one.receipt for one in some],
                )
            )

    def _drop(self, handle: Handle) -> None:
        held = self._held.pop(handle, None)
        if held is None:
            return
        handles = self._of_client.get(held.client)
        if handles is not None:
            handles.discard(handle)
            if not handles:
                del self._of_client[held.client]

    def _alarm(self, held: Held, now_s: float) -> None:
        at_s = now_s + held.invisible_ms / 1000 * 2 / 3
        alarms = self._alarms
        heapq.heappush(alarms, _Alarm(at_s, next(self._numbers), held))
        if len(alarms) > 2 * len(self._held) + _SPARE:  # most are for what is settled
            alarms[:] = [
                it for it in alarms if self._held.get(it.held.handle) is it.held
            ]
            heapq.heapify(alarms)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                while due := self._due():
                    await self._renew(due)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._log.error("renewals_failed", exc_info=error)

    def _due(self) -> list[Held]:
        """What is to be hidden anew now; what is not any more is forgotten."""
        now_s = self._monotonic_s()
        due: list[Held] = []
        while self._alarms and self._alarms[0].at_s <= now_s and len(due) < _BATCH_MAX:
            held = heapq.heappop(self._alarms).held
            if self._held.get(held.handle) is not held:
                continue
            is_over = now_s - held.since_s > self._config.renew_max_ms / 1000
            if is_over or not self._clients.lives(held.client):
                self._drop(held.handle)
            elif held.is_busy:
                self._alarm(held, now_s)
            else:
                due.append(held)
        return due

    async def _renew(self, due: Sequence[Held]) -> None:
        done = asyncio.get_running_loop().create_future()
        for held in due:
            held.renewing = done
        try:
            for namespace, group, some in _by_group(due):
                await self._renew_group(namespace, group, some)
        finally:
            for held in due:
                held.renewing = None
            done.set_result(None)

    async def _renew_group(
        self, namespace: str, group: str, some: Sequence[Held]
    ) -> None:
        by_time: dict[int, list[Held]] = {}
        for held in some:
            by_time.setdefault(held.invisible_ms, []).append(held)
        broker = self._rooms.of(namespace).space.broker
        for invisible_ms, helds in by_time.items():
            request = Settle(
                group=group,
                action=SettleAction.EXTEND,
                receipts=[held.receipt for held in helds],
                delay_ms=invisible_ms,
            )
            try:
                results = (await broker.settle(request)).results
            except Exception as error:  # the broker is away: soon again
                if as_refusal(error) is None:
                    raise
                for held in helds:
                    self._alarm(held, self._monotonic_s() - invisible_ms / 1000 / 2)
                continue
            for held, result in zip(helds, results, strict=True):
                if result.code in _GONE:
                    self._drop(held.handle)
                elif not result.code:
                    held.receipt = result.receipt
                    self.renewed_count += 1
                    self._alarm(held, self._monotonic_s())


def _by_group(held: Sequence[Held]) -> list[tuple[str, str, list[Held]]]:
    groups: dict[tuple[str, str], list[Held]] = {}
    for one in held:
        groups.setdefault((one.handle[0], one.group), []).append(one)
    return [(namespace, group, some) for (namespace, group), some in groups.items()]

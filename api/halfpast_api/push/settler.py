"""Tells the broker what became of messages: acknowledgements together, the rest alone.

While the broker is away it is told again and again, until the message's time is up;
then the message comes again, to whoever pops it.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from halfpast_api.push.held import Held
from halfpast_core_store.broker import (
    Broker,
    GroupPolicy,
    Settle,
    SettleAction,
    SettleResult,
)
from halfpast_core_store.errors import CoreError

RETRY_S = 0.2
BATCH_MAX = 500


class Settler:
    """For one consumer group, in one event loop."""

    def __init__(self, broker: Broker, group: str, now_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._group = group
        self._now_ms = now_ms
        self._acks: list[tuple[Held, asyncio.Future[bool]]] = []
        self._acking: asyncio.Task[None] | None = None
        self._closed = False

    async def ack(self, held: Held) -> bool:
        """The message is done. False if the broker has offered it again meanwhile."""
        await _take(held)
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._acks.append((held, told))
        if self._acking is None or self._acking.done():
            self._acking = asyncio.create_task(self._ack_all())
        return await told

    async def nack(self, held: Held, delay_ms: int) -> bool:
        """The message failed, and is offered again after `delay_ms`."""
        await _take(held)
        policy = GroupPolicy(attempts_max=held.attempt + 1)
        action = SettleAction.NACK
        return (await self._settle(action, [held], delay_ms, policy))[0]

    async def bury(self, held: Held, reason: str) -> bool:
        """The message becomes a dead letter."""
        await _take(held)
        policy = GroupPolicy(attempts_max=held.attempt)
        action = SettleAction.NACK
        return (await self._settle(action, [held], 0, policy, reason))[0]

    async def release(self, some: Sequence[Held], delay_ms: int) -> None:
        """The messages were not tried, and are offered again after `delay_ms`."""
        for held in some:
            await _take(held)
        for first in range(0, len(some), BATCH_MAX):
            batch = some[first : first + BATCH_MAX]
            await self._settle(SettleAction.RELEASE, batch, delay_ms)

    async def extend(self, some: Sequence[Held], invisible_ms: int) -> None:
        """Keep these messages for longer. What is being settled is left alone."""
        batch = [it for it in some if not it.settling and it.extending is None]
        if not batch:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for held in batch:
            held.extending = done
        receipts = [held.receipt for held in batch]
        request = Settle(self._group, SettleAction.EXTEND, receipts, invisible_ms)
        try:
            hidden_until_ms = self._now_ms() + invisible_ms
            results = (await self._broker.settle(request)).results
            for held, result in zip(batch, results, strict=True):
                if not result.code:
                    held.receipt = result.receipt
                    held.hidden_until_ms = hidden_until_ms
        except (CoreError, OSError):
            pass  # it is tried again
        finally:
            for held in batch:
                held.extending = None
            done.set_result(None)

    def close(self) -> None:
        """Give up what the broker cannot be told."""
        self._closed = True
        if self._acking is not None:
            self._acking.cancel()

    async def _ack_all(self) -> None:
        while self._acks:
            batch, self._acks = self._acks[:BATCH_MAX], self._acks[BATCH_MAX:]
            results = await self._settle(SettleAction.ACK, [held for held, _ in batch])
            for (_, told), is_settled in zip(batch, results, strict=True):
                if not told.done():
                    told.set_result(is_settled)

    async def _settle(
        self,
        action: SettleAction,
        some: Sequence[Held],
        delay_ms: int | None = None,
        policy: GroupPolicy | None = None,
        reason: str = "",
    ) -> list[bool]:
        request = Settle(
            self._group,
            action,
            [held.receipt for held in some],
            delay_ms,
            policy or GroupPolicy(),
            reason,
        )
        last_ms = max(held.hidden_until_ms for held in some)
        while True:
            with suppress(CoreError, OSError):
                results = (await self._broker.settle(request)).results
                return [_is_settled(result) for result in results]
            if self._closed or self._now_ms() >= last_ms:
                return [False] * len(some)
            await asyncio.sleep(RETRY_S)


async def _take(held: Held) -> None:
    """From here on nobody else changes its receipt."""
    held.settling = True
    while held.extending is not None:
        await asyncio.shield(held.extending)


def _is_settled(result: SettleResult) -> bool:
    return not result.code

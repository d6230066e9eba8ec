"""Forwarding messages to one URL, signed as an endpoint's would be.

Each is tried until it is taken, or has failed too often. One at a time is under way, so
that what is shown is easy to follow; one that waits for another try holds nobody up.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from halfpast_api.push.call_result import CallResult
from halfpast_api.push.caller import Caller
from halfpast_api.push.deliverer import ATTEMPT_HEADER
from halfpast_api.push.envelope import Message, render, signed, webhook_id
from halfpast_api.push.retry_schedule import back_off_ms

NAME: Final = "listen"
"""What stands for the endpoint in the ids of deliveries."""
RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to, and how."""

    url: str
    secret: str
    mode: str
    timeout_ms: int
    attempts_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt. `again_ms`: when the next one comes; None if this was the last."""

    message: Message
    number: int
    found: CallResult
    again_ms: int | None

    @property
    def state(self) -> str:
        if self.found.is_delivered:
            return "delivered"
        return "retrying" if self.again_ms is not None else "given_up"


class Forwarder:
    """Used from one event loop. `show` is told of each attempt."""

    def __init__(
        self, caller: Caller, target: Target, show: Callable[[Try], None]
    ) -> None:
        self._caller = caller
        self._target = target
        self._show = show
        self._turn = asyncio.Lock()
        self._later: set[asyncio.Task[None]] = set()
        self.delivered = 0
        self.given_up = 0

    @property
    def waiting(self) -> int:
        """How many wait for another try."""
        return len(self._later)

    async def take(self, message: Message) -> None:
        """Forward a message: returns when it has been tried once."""
        again_ms = await self._try(message, 1)
        if again_ms is not None:
            task = asyncio.create_task(self._retry(message, again_ms))
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    async def stop(self) -> None:
        """Try nothing more; a call that is under way ends first."""
        async with self._turn:
            later = [*self._later]
            for task in later:
                task.cancel()
        await asyncio.gather(*later, return_exceptions=True)

    async def _retry(self, message: Message, again_ms: int) -> None:
        number, wait_ms = 1, int(again_ms)
        while True:
            await asyncio.sleep(wait_ms / 1000)
            number += 1
            again = await self._try(message, number)
            if again is None:
                return
            wait_ms = again

    async def _try(self, message: Message, number: int) -> int | None:
        async with self._turn:
            found = await self._call(message, number)
        again_ms: int | None = None
        if found.is_delivered:
            self.delivered += 1
        elif number >= self._target.attempts_max or found.is_gone:
            self.given_up += 1
        else:
            chance = random.random()  # nosec B311 # jitter, no secret
            wait_ms = back_off_ms(RETRY_MS, RETRY_MS_MAX, number, chance)
            again_ms = max(wait_ms, found.retry_after_ms)
        self._show(Try(message=message, number=number, found=found, again_ms=again_ms))
        return again_ms

    async def _call(self, message: Message, number: int) -> CallResult:
        target = self._target
        body, headers = render(message, target.mode)
        headers = signed(
            (target.secret,),
            webhook_id(message, NAME),
            time.time_ns() // 1_000_000,
            body,
            {**headers, ATTEMPT_HEADER: str(number)},
        )
        return await self._caller.call(
            "POST", target.url, body, headers, target.timeout_ms
        )

"""A message in a handler's hands, and what keeps it there.

A popped message is hidden from its group for a time only, so that it comes again
if its consumer dies. While a handler works longer than that, the keeper extends
the time. Each extension replaces the receipt; the old one is worthless.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol

from halfpast.errors import HalfpastError
from halfpast.model import Message, Settled

log = logging.getLogger("halfpast")


class Extending(Protocol):
    """The call that a Keeper makes; `Client` has it."""

    async def extend(
        self, group: str, receipts: Iterable[str], /, invisible: timedelta
    ) -> list[Settled]: ...


class Delivery:
    """One message that is being handled."""

    def __init__(self, message: Message, hidden_until_s: float) -> None:
        self.message = message
        self.hidden_until_s = hidden_until_s  # in the loop's time
        self._receipt = message.receipt
        self._settled = asyncio.Event()  # no extension is under way
        self._settled.set()

    async def final_receipt(self) -> str:
        """The receipt to settle with, once no extension can replace it."""
        await self._settled.wait()
        return self._receipt

    def extension_begins(self) -> str:
        self._settled.clear()
        return self._receipt

    def extension_ends(self, result: Settled | None, hidden_until_s: float) -> None:
        """None: the server did not answer. The old receipt may still be good."""
        if result is not None:
            self.hidden_until_s = hidden_until_s
            self._receipt = result.receipt or self._receipt
        self._settled.set()


class Keeper:
    """Extends what is handled for long. `run` it beside the consumer."""

    def __init__(
        self,
        client: Extending,
        group: str,
        invisible: timedelta,
        running: Iterable[Delivery],
    ) -> None:
        self._client = client
        self._group = group
        self._invisible = invisible
        self._running = running  # a live view: it changes under us

    async def run(self) -> None:
        """Look four times per invisible time, extend in its second half.

        So there are always two tries before a message is offered to others.
        """
        invisible_s = self._invisible.total_seconds()
        while True:
            await asyncio.sleep(invisible_s / 4)
            threshold_s = self._now_s() + invisible_s / 2
            due = [d for d in self._running if d.hidden_until_s < threshold_s]
            if due:
                await self._extend(due)

    async def _extend(self, due: Sequence[Delivery]) -> None:
        receipts = [delivery.extension_begins() for delivery in due]
        hidden_until_s = self._now_s() + self._invisible.total_seconds()
        results: Sequence[Settled | None] = [None] * len(due)
        try:
            results = await self._client.extend(
                self._group, receipts, invisible=self._invisible
            )
        except HalfpastError as error:
            log.warning("could not extend %d messages: %s", len(due), error)
        finally:
            for delivery, result in zip(due, results, strict=True):
                delivery.extension_ends(result, hidden_until_s)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

"""What a consumer says of its messages, sent together.

While one round of requests is under way the next one gathers, so a busy consumer
needs few requests and an idle one does not wait.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol

from halfpast.errors import HalfpastError
from halfpast.model import Settled

log = logging.getLogger("halfpast")


class Settling(Protocol):
    """The calls that a Settler makes; `Client` has them."""

    async def ack(self, group: str, receipts: Iterable[str], /) -> list[Settled]: ...

    async def nack(
        self, group: str, receipts: Iterable[str], /, *, delay: timedelta | None
    ) -> list[Settled]: ...


class Settler:
    """Acks and nacks for one group. Belongs to one event loop.

    `lost` counts the messages whose receipt had expired, or of which the server
    could not be told: the group gets them again.
    """

    def __init__(self, client: Settling, group: str) -> None:
        self._client = client
        self._group = group
        self._acks: list[str] = []
        self._nacks: defaultdict[timedelta | None, list[str]] = defaultdict(list)
        self._round: asyncio.Task[None] | None = None
        self.lost = 0

    def ack(self, receipt: str) -> None:
        self._acks.append(receipt)
        self._begin()

    def nack(self, receipt: str, delay: timedelta | None) -> None:
        self._nacks[delay].append(receipt)
        self._begin()

    async def flush(self) -> None:
        """Returns when the server has been told everything said so far."""
        while self._round is not None:
            await asyncio.wait([self._round])

    def _begin(self) -> None:
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._acks or self._nacks:
                acks, self._acks = self._acks, []
                nacks, self._nacks = self._nacks, defaultdict(list)
                await asyncio.gather(
                    self._send_acks(acks),
                    *(self._send_nacks(r, delay) for delay, r in nacks.items()),
                )
        finally:
            self._round = None

    async def _send_acks(self, receipts: Sequence[str]) -> None:
        for some in _requests(receipts):
            try:
                self._count(await self._client.ack(self._group, some))
            except HalfpastError as error:
                self._failed("ack", some, error)

    async def _send_nacks(
        self, receipts: Sequence[str], delay: timedelta | None
    ) -> None:
        for some in _requests(receipts):
            try:
                results = await self._client.nack(self._group, some, delay=delay)
            except HalfpastError as error:
                self._failed("nack", some, error)
            else:
                self._count(results)

    def _count(self, results: Sequence[Settled]) -> None:
        self.lost += sum(not result.ok for result in results)

    def _failed(self, verb: str, receipts: Sequence[str], error: Exception) -> None:
        self.lost += len(receipts)
        log.warning(
            "could not %s %d messages of group %s: %s",
            verb,
            len(receipts),
            self._group,
            error,
        )


def _requests(receipts: Sequence[str]) -> Iterable[Sequence[str]]:
    """In portions that the server takes."""
    return (receipts[i : i + 1000] for i in range(0, len(receipts), 1000))

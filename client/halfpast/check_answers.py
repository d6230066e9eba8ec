"""What a producer answers to check-backs, sent together.

While one request is under way the next answers gather, so a busy producer needs few
requests and a lone answer does not wait. An answer that cannot be told is given up:
the server asks again.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from halfpast.errors import HalfpastError
from halfpast.model import Settled
from halfpast.transaction_model import CheckAnswer, TransactionCheck

log = logging.getLogger("halfpast")
REQUEST_MAX = 1000  # answers that the server takes with one request


class Answering(Protocol):
    """The call that CheckAnswers makes; `Client` has it."""

    async def answer_checks(
        self,
        producer_group: str,
        answers: Iterable[tuple[TransactionCheck, CheckAnswer]],
        /,
    ) -> list[Settled]: ...


class CheckAnswers:
    """The answers of one producer group. Belongs to one event loop.

    `lost` counts those that the server did not take.
    """

    def __init__(self, client: Answering, group: str) -> None:
        self._client = client
        self._group = group
        self._waiting: list[tuple[TransactionCheck, CheckAnswer]] = []
        self._round: asyncio.Task[None] | None = None
        self.lost = 0

    def add(self, check: TransactionCheck, answer: CheckAnswer) -> None:
        self._waiting.append((check, answer))
        if self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._send_all())

    async def flush(self) -> None:
        """Returns when the server has been told all answers, or they are lost."""
        while self._round is not None:
            await asyncio.wait([self._round])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                some = self._waiting[:REQUEST_MAX]
                del self._waiting[:REQUEST_MAX]
                await self._send(some)
        finally:
            self._round = None

    async def _send(self, some: list[tuple[TransactionCheck, CheckAnswer]]) -> None:
        try:
            results = await self._client.answer_checks(self._group, some)
        except HalfpastError as error:
            self.lost += len(some)
            log.warning(
                "could not answer %d checks of producer group %s: %s",
                len(some),
                self._group,
                error,
            )
        else:
            self.lost += sum(not result.ok for result in results)

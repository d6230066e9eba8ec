"""A producer that can be asked: begins transactions, and answers check-backs.

    poll -> your function says committed, rolled_back or unknown -> answer
            it raises, takes too long, or says anything else     -> unknown
    stop -> running checks finish, their answers are sent

Any producer of the group that is alive may be asked, not only the one that began the
transaction; so answer from what your database says, not from memory.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self, TypedDict, Unpack

from halfpast.check_answers import Answering, CheckAnswers
from halfpast.errors import ClientClosed, HalfpastError
from halfpast.polling import backoff_s, pause, polled
from halfpast.transaction import Transaction
from halfpast.transaction_model import CheckAnswer, TransactionCheck

log = logging.getLogger("halfpast")
WARNING_INTERVAL_S = 60.0

CheckFunction = (
    Callable[[TransactionCheck], Awaitable[str]] | Callable[[TransactionCheck], str]
)


class TransactionalProducerOptions(TypedDict, total=False):
    """How a producer works; see `TransactionalProducerConfig`."""

    concurrency: int
    check_timeout: timedelta
    poll: timedelta
    check_after: timedelta | None
    check_interval: timedelta | None
    check_max: int | None
    check_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducerConfig:
    """How a producer works.

    `concurrency`: how many checks run at a time. `check_timeout`: after it a check
    counts as unknown. `poll`: how long one request waits for checks, and so how long
    `stop` takes when idle. The others are those of `Client.transaction`, for every
    transaction of this producer.
    """

    concurrency: int = 16
    check_timeout: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=2)
    check_after: timedelta | None = None
    check_interval: timedelta | None = None
    check_max: int | None = None
    check_required: bool = False


class Producing(Answering, Protocol):
    """The calls that a TransactionalProducer makes; `Client` has them."""

    async def checks(
        self, producer_group: str, /, *, max_checks: int, wait: timedelta
    ) -> list[TransactionCheck]: ...

    def transaction(
        self,
        producer_group: str,
        /,
        *,
        check_after: timedelta | None,
        check_interval: timedelta | None,
        check_max: int | None,
        reference: str | None,
        check_required: bool,
    ) -> Transaction: ...


class TransactionalProducer:
    """Transactions of one producer group, and a listener for its check-backs.

    `async with TransactionalProducer(...)` listens in the background and stops
    gracefully at the end; `run` listens in the foreground until `stop` is called. It
    belongs to one event loop. `check` says how a transaction ended, as a CheckAnswer
    or its word; one that is not a coroutine function runs in a thread.

    `answered` and `failed` count checks; a failed one was answered `unknown`.
    """

    def __init__(
        self,
        client: Producing,
        group: str,
        check: CheckFunction,
        **options: Unpack[TransactionalProducerOptions],
    ) -> None:
        self.config = TransactionalProducerConfig(**options)
        self.group = group
        self._client = client
        self._check = check
        self._stopping = asyncio.Event()
        self._slot_free = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._answers = CheckAnswers(client, group)
        self._threads = ThreadPoolExecutor(
            self.config.concurrency, thread_name_prefix=f"halfpast-{group}"
        )
        self._background: asyncio.Task[None] | None = None
        self._polling_trouble = _Trouble(f"producer group {group} cannot be asked")
        self._check_trouble = _Trouble(f"producer group {group}: check failed")
        self.answered = 0
        self.failed = 0

    @property
    def lost(self) -> int:
        """Answers that the server did not take; it asks again if need be."""
        return self._answers.lost

    def transaction(self, *, reference: str | None = None) -> Transaction:
        """As `Client.transaction`, for this producer's group and with its settings."""
        config = self.config
        return self._client.transaction(
            self.group,
            check_after=config.check_after,
            check_interval=config.check_interval,
            check_max=config.check_max,
            reference=reference,
            check_required=config.check_required,
        )

    async def run(self) -> None:
        """Answer check-backs until `stop` is called.

        Waits out a server that is away or refuses, as long as it takes; only a
        client that is closed ends it, with ClientClosed.
        """
        try:
            await self._poll_until_stopped()
        finally:
            if self._running:
                await asyncio.wait(self._running)
            await self._answers.flush()
            self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Take no more checks. `run` returns when the running ones are answered."""
        self._stopping.set()
        self._slot_free.set()

    async def wait_stopped(self) -> None:
        """After `async with` began: returns when it has stopped, raises as `run`."""
        if self._background is not None:
            await asyncio.shield(self._background)

    async def __aenter__(self) -> Self:
        self._background = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        await self.wait_stopped()

    async def _poll_until_stopped(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            free = await self._free_slots()
            if free == 0:
                return
            polling = self._client.checks(
                self.group, max_checks=free, wait=self.config.poll
            )
            try:
                checks = await polled(polling, self._stopping, self.config.poll)
            except ClientClosed:
                log.error("producer group %s stops: its client is closed", self.group)
                raise
            except Exception as error:  # whatever it is, the listener must live
                failures += 1
                known = isinstance(error, HalfpastError)
                self._polling_trouble.note(error, "", show_trace=not known)
                await pause(backoff_s(failures), self._stopping)
                continue
            failures = 0
            self._start(checks or [])

    async def _free_slots(self) -> int:
        while len(self._running) >= self.config.concurrency:
            self._slot_free.clear()
            await self._slot_free.wait()
            if self._stopping.is_set():
                return 0
        return self.config.concurrency - len(self._running)

    def _start(self, checks: Sequence[TransactionCheck]) -> None:
        for check in checks:
            task = asyncio.get_running_loop().create_task(self._answer(check))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._slot_free.set()

    async def _answer(self, check: TransactionCheck) -> None:
        answer = CheckAnswer.UNKNOWN
        try:
            async with asyncio.timeout(self.config.check_timeout.total_seconds()):
                answer = CheckAnswer(await self._ask(check))
        except Exception as error:  # what the user's function raises is no answer
            self.failed += 1
            self._check_trouble.note(error, f" for {check.id}", show_trace=True)
        else:
            self.answered += 1
        self._answers.add(check, answer)

    async def _ask(self, check: TransactionCheck) -> str:
        if inspect.iscoroutinefunction(self._check):
            result: object = await self._check(check)
        else:
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._threads, self._check, check)
            if inspect.isawaitable(result):  # a plain function with a coroutine
                result = await result
        return str(result)


class _Trouble:
    """Warns of what keeps failing: at once, then once a minute at most."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._quiet_until_s = 0.0
        self._unsaid = 0

    def note(self, error: Exception, where: str, *, show_trace: bool) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._quiet_until_s:
            self._unsaid += 1
            return
        log.warning(
            "%s%s: %s (%d more since the last warning)",
            self._what,
            where,
            str(error) or type(error).__name__,
            self._unsaid,
            exc_info=error if show_trace else None,
        )
        self._quiet_until_s = now_s + WARNING_INTERVAL_S
        self._unsaid = 0

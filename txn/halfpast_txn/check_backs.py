"""Check-backs from the desk to a producer, and its answers back.

Only an explicit outcome ends a transaction. All else is `unknown`: it is noted for
the operator, and the next check-back asks again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from halfpast_core_store.errors import CoreError

from .check_desk import CheckDesk, Question
from .core import TransactionCore, refused, wrong_group
from .errors import UnknownTransaction
from .producer_group import CheckEndpoint
from .questions import Questions
from .status import transaction_text
from .transactions import (
    AnswerChecks,
    CheckAnswer,
    End,
    Ended,
    EndResult,
    PollChecks,
    PolledChecks,
    Source,
)
from .transport import CheckTransport
from .words import ANSWER_WORDS, UNKNOWN

SLICE_COUNT = 50
SILENCE_S = 2.0
"""So long a producer may think about a question before nobody waits for it."""

EndAll = Callable[[list[End]], Awaitable[list[EndResult]]]


class CheckBacks:
    """Hands out questions and takes answers. `end` makes outcomes durable."""

    def __init__(
        self,
        core: TransactionCore,
        desk: CheckDesk,
        questions: Questions,
        transport: CheckTransport,
        end: EndAll,
        catch_up: Callable[[], Awaitable[None]],
        loop: asyncio.AbstractEventLoop,
        *,
        is_watched: bool = False,
    ) -> None:
        """`is_watched`: keep who has taken which question, for `are_awaited`."""
        self._core = core
        self._desk = desk
        self._questions = questions
        self._transport = transport
        self._end = end
        self._catch_up = catch_up
        self._loop = loop
        self._answers = dict.fromkeys(ANSWER_WORDS.values(), 0)
        self._closed = False
        self._is_watched = is_watched
        self._taken: dict[bytes, tuple[int, float]] = {}

    @property
    def are_awaited(self) -> bool:
        """Whether a producer that polls is still to take a question or to answer one,
        and has not been silent for long."""
        late = self._loop.time() - SILENCE_S
        for transaction_id, (check, taken_at) in list(self._taken.items()):
            asked = self._core.still_asked(transaction_id, check)
            if taken_at < late or asked is None:
                del self._taken[transaction_id]
        return bool(self._taken) or self._desk.has_work_for_poller

    def close(self) -> None:
        """Send those home who wait for questions."""
        self._closed = True
        self._desk.wake_all()

    async def poll(self, request: PollChecks) -> PolledChecks:
        """Questions for a producer that polls, as soon as there are some."""
        ends_at = self._loop.time() + request.wait_ms / 1000
        while True:
            self._desk.polled(request.group)
            taken = self._desk.take(request.group, request.count)
            try:
                checks = await self._questions.build(
                    taken, with_first=request.with_first
                )
            except BaseException:
                for question in taken:  # this producer will not hear of them
                    self._desk.put(request.group, *question)
                raise
            left_s = ends_at - self._loop.time()
            if checks or left_s <= 0 or self._closed:
                if self._is_watched:
                    now_s = self._loop.time()
                    self._taken |= {it: (check, now_s) for it, check in taken}
                return PolledChecks(checks)
            if not taken:
                await self._desk.arrival(request.group, left_s)

    async def answer(self, request: AnswerChecks) -> Ended:
        """What a producer says of some transactions; one result for each."""
        ends: dict[int, End] = {}
        results: dict[int, EndResult] = {}
        for at, answer in enumerate(request.answers):
            self._answers[ANSWER_WORDS[answer.state]] += 1
            self._taken.pop(answer.transaction_id, None)
            if answer.state:
                ends[at] = End(
                    answer.transaction_id,
                    answer.state,
                    request.group,
                    Source.CHECK,
                    answer.check,
                )
        ended = await self._end(list(ends.values()))
        results |= zip(ends, ended, strict=True)
        caught_up = False
        for at, answer in enumerate(request.answers):
            if at in ends:
                continue
            if at % SLICE_COUNT == SLICE_COUNT - 1:
                await asyncio.sleep(0)
            results[at] = self._not_known(request.group, answer)
            if results[at].code == UnknownTransaction.code and not caught_up:
                await self._catch_up()
                caught_up = True
                results[at] = self._not_known(request.group, answer)
        return Ended([results[at] for at in range(len(request.answers))])

    def _not_known(self, group: str, answer: CheckAnswer) -> EndResult:
        """The producer does not know either: note it, and tell how things stand."""
        transaction_id = answer.transaction_id
        status = self._core.status(transaction_id)
        if status is None:
            return refused(UnknownTransaction(transaction_text(transaction_id)))
        if status.group != group:
            return wrong_group(transaction_id, status)
        told = self._core.told(transaction_id, status)
        if told is not None:
            return told
        self._core.answered(transaction_id, UNKNOWN)
        return EndResult(state=status.state, checks=status.checks)

    async def ask(self, endpoint: CheckEndpoint, question: Question) -> None:
        """Take one question to an endpoint, and its answer where it belongs."""
        transaction_id, number = question
        try:
            checks = await self._questions.build([question])
            for check in checks:
                verdict = await self._transport.ask(endpoint, check)
                self._answers[ANSWER_WORDS[verdict.state]] += 1
                if not verdict.state:
                    self._core.answered(transaction_id, verdict.cause or UNKNOWN)
                    continue
                end = End(
                    transaction_id, verdict.state, check.group, Source.CHECK, number
                )
                (result,) = await self._end([end])
                if result.code:
                    self._core.answered(transaction_id, f"not stored: {result.code}")
        except CoreError as error:  # the next check-back asks again
            self._core.answered(transaction_id, f"not stored: {error.code}")

    def counters(self) -> dict[str, float]:
        return {
            **{
                f'check_answers_total{{state="{state}"}}': float(count)
                for state, count in self._answers.items()
            },
            "checks_dropped_total": float(self._desk.dropped_count),
            **self._transport.counters(),
        }

    def gauges(self) -> dict[str, float]:
        return {
            "checks_waiting": float(self._desk.waiting_count),
            **self._transport.gauges(),
        }

"""How many events may be scheduled to a topic, and in its whole namespace, as far as
this process knows.

The Delay Server is asked at most once a second; what this process adds meanwhile is
counted on top. So `max_pending` may be exceeded by what other processes add within
that second, and what is delivered in it makes room a little later.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from halfpast_api.encoding import REFUSED, Encoded
from halfpast_api.problems import Refusal, refusal_of
from halfpast_api.topic_directory import Topic
from halfpast_chronos.delay_server import DelayServer
from halfpast_chronos.release_calls import AskTopics
from halfpast_core_store.topics import SYS_SCHEDULE

_KNOWN_S: Final = 1.0
_SIZE_MAX: Final = 10_000


@dataclass(slots=True)
class _Known:
    """How many events are pending, by what was said at `at_s` and added since."""

    count: int
    at_s: float


class SpaceCount(Protocol):
    """How many are pending in a namespace: `limits.pending_count.PendingCount`."""

    async def room(self, max_pending: int) -> int: ...

    def add(self, count: int) -> None: ...

    def refusal(self, max_pending: int) -> Refusal: ...


class PendingQuotas:
    """The quotas of all topics that have one."""

    def __init__(
        self,
        delay: DelayServer,
        space: SpaceCount | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._delay = delay
        self._space = space
        self._monotonic_s = monotonic_s
        self._known: dict[int, _Known] = {}

    async def admit(self, topic: Topic, space_max: int = 0) -> None:
        """One event is to be scheduled; 0 is no bound. Raises Refusal."""
        await self.admit_to_space(space_max)
        if topic.max_pending:
            await self._learn([topic])
            self._take(topic)

    async def admit_to_space(self, space_max: int) -> None:
        """The same without a look at the topic."""
        if space_max and self._space is not None:
            if await self._space.room(space_max) <= 0:
                raise self._space.refusal(space_max)
            self._space.add(1)

    async def admit_all(
        self, encoded: Encoded, topics: Sequence[Topic | None], space_max: int = 0
    ) -> None:
        """Take out what is one too many for its topic or the namespace, and refuse it;
        `topics` are those of the events. Raises what the Delay Server raises."""
        limited = {it.id: it for it in topics if it is not None and it.max_pending}
        space = self._space if space_max else None
        if not limited and space is None:
            return
        await self._learn(limited.values())
        room = await space.room(space_max) if space else 0
        refused: set[int] = set()
        taken = number = 0
        for index, (due_ms, topic) in enumerate(
            zip(encoded.dues_ms, topics, strict=True)
        ):
            if due_ms <= 0:
                continue
            assert topic is not None, "it has been encoded"
            try:
                if space and taken >= room:
                    raise space.refusal(space_max)
                if topic.max_pending:
                    self._take(topic)
                taken += 1
            except Refusal as refusal:
                refused.add(number)
                encoded.refusals[index] = refusal
                encoded.dues_ms[index] = REFUSED
            number += 1
        if space:
            space.add(taken)
        _take_out(encoded, refused)

    def _take(self, topic: Topic) -> None:
        known = self._known[topic.id]
        if known.count >= topic.max_pending:
            raise refusal_of(
                "too_many_pending",
                f"the topic {topic.name!r} has {known.count} pending events, and its "
                f"max_pending is {topic.max_pending}",
            )
        known.count += 1

    async def _learn(self, topics: Iterable[Topic]) -> None:
        now_s = self._monotonic_s()
        if len(self._known) > _SIZE_MAX:
            self._known.clear()
        unknown = [
            topic.id
            for topic in topics
            if topic.id not in self._known
            or now_s - self._known[topic.id].at_s >= _KNOWN_S
        ]
        if not unknown:
            return
        answer = await self._delay.pending_counts(AskTopics(unknown))
        for topic_id, count in zip(unknown, answer.counts, strict=True):
            self._known[topic_id] = _Known(count, now_s)


def _take_out(encoded: Encoded, refused: Collection[int]) -> None:
    """Of what is scheduled, those with these numbers."""
    for run in encoded.runs:
        if run.topic_id == SYS_SCHEDULE:
            run.records = [r for n, r in enumerate(run.records) if n not in refused]
    encoded.runs = [run for run in encoded.runs if run.records]

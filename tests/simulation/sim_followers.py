"""Simulated consumers of an ordered group: of each key one at a time, in order."""

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.sim_model import demand
from tests.simulation.sim_settings import FOLLOWERS, ORDERED, TOPICS

from halfpast_core_store.broker import Delivered, Pop, Settle, SettleAction
from halfpast_core_store.errors import CoreError
from halfpast_core_store.group_plan import Plan
from halfpast_core_store.record import decode_record

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

Place = tuple[int, int, int]
"""Number of the topic, queue, offset."""
Line = tuple[int, int, bytes]
"""Number of the topic, queue, key."""


class Followers:
    """The ordered group of one world. Receipts are lost when the broker dies."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self.held: list[tuple[Place, Delivered]] = []
        self.delivered = 0
        self._done: set[Place] = set()
        """Places whose acknowledgement was answered."""
        self._maybe_done: set[Place] = set()
        """Places that were acknowledged, and nobody has answered."""

    def pop(self) -> None:
        topic = self._random.randrange(len(TOPICS))
        request = Pop(FOLLOWERS, f"topic-{topic}", 3, invisible_ms=60, policy=ORDERED)

        def done(answer: Plan | Exception) -> None:
            if isinstance(answer, Plan):
                self._got(topic, answer.delivered)

        with contextlib.suppress(CoreError):
            self._world.consumers.pop(request, self._world.now_ms, done)

    def _got(self, topic: int, messages: list[Delivered]) -> None:
        lines = self._lines()
        for message in messages:
            place = (topic, message.queue, message.offset)
            demand(place not in self._done, 6, f"{place} came again after its ack")
            self._maybe_done.discard(place)
            key = decode_record(message.record).key
            if key:
                self._check_order(place, lines[topic, message.queue, key])
            self.held.append((place, message))
            self.delivered += 1

    def _lines(self) -> dict[Line, list[Place]]:
        """What is kept of each line, as the log has it."""
        found: dict[Line, list[Place]] = defaultdict(list)
        for message in self._world.observer.messages(self._world.store.log.start):
            topic_id, queue = message.queue
            if message.key and topic_id in TOPICS:
                topic = TOPICS.index(topic_id)
                found[topic, queue, message.key].append((topic, queue, message.offset))
        return found

    def _check_order(self, place: Place, line: list[Place]) -> None:
        finished = self._done | self._maybe_done
        left = [before for before in line if before < place and before not in finished]
        demand(not left, 6, f"{place} came before {left}, of the same key")

    def settle(self) -> None:
        if not self.held:
            return
        chosen = self._random.sample(self.held, min(len(self.held), 3))
        self.held = [held for held in self.held if held not in chosen]
        action = self._random.choice((SettleAction.ACK, SettleAction.NACK))
        places = [place for place, _ in chosen]

        def done(answer: Plan | Exception) -> None:
            if isinstance(answer, Plan) and action == SettleAction.ACK:
                for place, result in zip(places, answer.results, strict=True):
                    if not result.code:
                        self._done.add(place)

        if action == SettleAction.ACK:
            self._maybe_done.update(places)
        receipts = [message.receipt for _, message in chosen]
        request = Settle(FOLLOWERS, action, receipts, 20, ORDERED)
        with contextlib.suppress(CoreError):
            self._world.consumers.settle(request, self._world.now_ms, done)

    def consume_all(self) -> None:
        """The group gets everything in the end, in order."""
        for _ in range(2000):
            self.held = []
            self._world.clock.pass_ns(70_000_000)
            for topic in range(len(TOPICS)):
                self._pop_now(topic)
            if not self.held:
                break
            receipts = [message.receipt for _, message in self.held]
            self._world.consumers.settle(
                Settle(FOLLOWERS, SettleAction.ACK, receipts),
                self._world.now_ms,
                lambda _: None,
            )
            self._world.drain_store()
            self._done.update(place for place, _ in self.held)
        kept = {place for line in self._lines().values() for place in line}
        missing = kept - self._done - self._maybe_done
        demand(not missing, 6, f"the ordered group never got {missing}")

    def _pop_now(self, topic: int) -> None:
        def done(answer: Plan | Exception) -> None:
            assert isinstance(answer, Plan)
            self._got(topic, answer.delivered)

        request = Pop(FOLLOWERS, f"topic-{topic}", 50, policy=ORDERED)
        self._world.consumers.pop(request, self._world.now_ms, done)
        self._world.drain_store()

"""Simulated consumers: one group that pops, acknowledges, refuses and forgets."""

import contextlib
from typing import TYPE_CHECKING

from tests.simulation.sim_model import Stored, demand
from tests.simulation.sim_settings import GROUP, TOPICS

from halfpast_core_store.broker import Delivered, Pop, Settle, SettleAction
from halfpast_core_store.errors import CoreError
from halfpast_core_store.group_plan import Plan

if TYPE_CHECKING:
    from tests.simulation.sim_world import World


class Readers:
    """The consumer group of one world. Receipts are lost when the broker dies."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self._model = world.model
        self.held: list[tuple[tuple[int, int, int], Delivered]] = []

    def pop(self) -> None:
        topic = self._random.randrange(len(TOPICS))
        now_ms = self._world.now_ms
        request = Pop(GROUP, f"topic-{topic}", 3, invisible_ms=60)

        def done(answer: Plan | Exception) -> None:
            if isinstance(answer, Plan):
                for message in answer.delivered:
                    place = (topic, message.queue, message.offset)
                    self._model.popped(place, now_ms, now_ms + 60)
                    self.held.append((place, message))

        with contextlib.suppress(CoreError):
            self._world.consumers.pop(request, now_ms, done)

    def settle(self) -> None:
        if not self.held:
            return
        chosen = self._random.sample(self.held, min(len(self.held), 3))
        self.held = [held for held in self.held if held not in chosen]
        action = self._random.choice((SettleAction.ACK, SettleAction.NACK))
        now_ms = self._world.now_ms

        def done(answer: Plan | Exception) -> None:
            if isinstance(answer, Exception):
                return
            for (place, _), result in zip(chosen, answer.results, strict=True):
                if not result.code and action == SettleAction.ACK:
                    self._model.settled.add(place)
                elif not result.code:
                    self._model.hidden_until[place] = now_ms + 20

        receipts = [message.receipt for _, message in chosen]
        for place, _ in chosen:  # until it is answered, either may have happened
            self._model.hidden_until[place] = 0
            if action == SettleAction.ACK:
                self._model.maybe_settled.add(place)
        with contextlib.suppress(CoreError):
            self._world.consumers.settle(
                Settle(GROUP, action, receipts, 20), now_ms, done
            )

    def consume_all(self) -> None:
        """A consumer gets everything in the end."""
        for _ in range(2000):
            self.held = []
            self._world.clock.pass_ns(70_000_000)
            for topic in range(len(TOPICS)):
                self._pop_now(f"topic-{topic}", topic)
            if not self.held:
                break
            receipts = [message.receipt for _, message in self.held]
            self._world.consumers.settle(
                Settle(GROUP, SettleAction.ACK, receipts),
                self._world.now_ms,
                lambda _: None,
            )
            self._world.drain_store()
            self._model.settled.update(place for place, _ in self.held)
        observer = self._world.observer
        messages = self._places_of(observer.messages())
        settled = self._places(self._model.settled)
        demand(messages >= settled, 6, f"from nowhere: {settled - messages}")
        kept_from = self._world.store.log.start
        kept = self._places_of(observer.messages(kept_from))
        missing = kept - settled - self._places(self._model.maybe_settled)
        demand(not missing, 6, f"never consumed: {missing}")

    @staticmethod
    def _places_of(messages: list[Stored]) -> set[tuple[tuple[int, int], int]]:
        return {(it.queue, it.offset) for it in messages if it.queue[0] in TOPICS}

    @staticmethod
    def _places(
        places: set[tuple[int, int, int]],
    ) -> set[tuple[tuple[int, int], int]]:
        return {((TOPICS[topic], queue), offset) for topic, queue, offset in places}

    def _pop_now(self, topic: str, number: int) -> None:
        def done(answer: Plan | Exception) -> None:
            assert isinstance(answer, Plan)
            for message in answer.delivered:
                place = (number, message.queue, message.offset)
                demand(
                    place not in self._model.settled,
                    6,
                    f"{place} came after its ack",
                )
                self.held.append((place, message))

        self._world.consumers.pop(Pop(GROUP, topic, 50), self._world.now_ms, done)
        self._world.drain_store()

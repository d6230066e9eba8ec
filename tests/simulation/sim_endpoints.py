"""Simulated producers that are asked how a transaction ended."""

from typing import TYPE_CHECKING

from tests.simulation.sim_producers import OUTCOMES, Character
from tests.simulation.sim_transaction_model import Told
from tests.simulation.sim_transactions import TransactionProcess

from halfpast_core_store.errors import CoreError
from halfpast_txn.transactions import CheckAnswer, End, EndResult, Source

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

UNKNOWN = 0


class Endpoints:
    """Questions that wait for an answer, some for long."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self._model = world.transaction_model
        self.waiting: list[tuple[bytes, int]] = []

    def asked(self, transaction_id: bytes, number: int) -> None:
        """A question has come."""
        self._model.asked(transaction_id, number)
        self.waiting.append((transaction_id, number))

    def answer(self) -> None:
        """Some question is answered, the latest or one of long ago."""
        if not self.waiting:
            return
        at = self._random.randrange(len(self.waiting))
        transaction_id, number = self.waiting[at]
        character = self._world.producers.character_of(transaction_id)
        if character == Character.SLOW and self._random.random() < 0.8:
            return
        del self.waiting[at]
        state = self._say(transaction_id, character)
        if state is None:
            return
        number = self._random.choice((number, number, 0))
        answer = CheckAnswer(transaction_id, state, number)
        self._world.calls.send(lambda process: self._arrive(process, answer))

    def _say(self, transaction_id: bytes, character: Character) -> int | None:
        """None: no answer at all."""
        database = self._model.database
        if character == Character.GONE:
            return None
        if character == Character.GARBLED:
            return UNKNOWN
        if character in (Character.LYING, Character.CONTRARY):
            return self._random.choice((UNKNOWN, *OUTCOMES))
        if character == Character.BARRIER:
            return database.setdefault(transaction_id, OUTCOMES[1])
        return database.get(transaction_id, UNKNOWN)

    def _arrive(self, process: TransactionProcess, answer: CheckAnswer) -> None:
        world = self._world
        transaction_id, state = answer.transaction_id, answer.state
        begun = self._model.begun[transaction_id]
        known = begun.acknowledged
        if state:
            end = End(transaction_id, state, begun.group, Source.CHECK)
            self._model.speak(end, world.now_ms, world.clock.set_back_ms)

        def reply(result: EndResult | CoreError) -> None:
            if not isinstance(result, CoreError):
                told = Told(state, result, world.clock.latest_ms, known)
                self._model.tell(transaction_id, told)

        process.answer(begun.group, answer, reply)

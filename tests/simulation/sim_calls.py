"""Calls on their way to the transaction service: late, out of order, or twice."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.sim_transactions import TransactionProcess

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

Call = Callable[[TransactionProcess], None]


class Calls:
    """A network that keeps no order. A call may wait long after its outcome."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self.waiting: list[Call] = []

    def send(self, call: Call) -> None:
        self.waiting.append(call)

    def deliver(self) -> None:
        """A call arrives, or some together."""
        for _ in range(self._random.choice((1, 1, 4))):
            self._deliver()

    def _deliver(self) -> None:
        """Any call arrives, at the process that its caller knows."""
        if not self.waiting:
            return
        call = self.waiting.pop(self._random.randrange(len(self.waiting)))
        fate = self._random.random()
        if self._world.armed and fate < 0.1:
            self.waiting.append(call)  # it comes again
        if self._world.armed and fate > 0.95:
            return  # it never comes
        call(self._world.processes.pick())

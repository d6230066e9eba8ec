"""The transaction service's process, and the one that it replaced."""

from typing import TYPE_CHECKING

from tests.simulation.sim_transactions import TransactionProcess

from halfpast_core_store.memory_index import MemoryIndex

if TYPE_CHECKING:
    from tests.simulation.sim_world import World


class Processes:
    """One process should be there at a time. But one that seemed to be dead may live
    on, and some callers know only that one."""

    def __init__(self, world: "World", make: type[TransactionProcess]) -> None:
        self._world = world
        self._random = world.random
        self._make = make
        self.current = make(world, MemoryIndex())
        self.former: TransactionProcess | None = None

    def pick(self) -> TransactionProcess:
        """Whom a caller calls."""
        if self.former is not None and self._random.random() < 0.4:
            return self.former
        return self.current

    def step(self) -> None:
        """The next move of either."""
        self.current.step()
        if self.former is not None:
            self.former.step()
            if self.former.failed:
                self.former = None
        if self.current.failed:
            self.crash()

    def cut(self) -> None:
        """Their connections break; the broker may live on."""
        self.current.connection.cut()
        if self.former is not None:
            self.former.connection.cut()

    def crash(self) -> None:
        """The service is started again; perhaps the former one only seemed dead."""
        self._world.crashes += 1
        if self._random.random() < 0.4 and not self.current.failed:
            self.former = self.current
        index = self.current.index
        kept = self._random.randint(0, index.batches_at_risk)
        self.current = self._make(self._world, index.crash(kept))

"""A connection to the simulated broker: answers come late, or never."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.errors import CoreError, Overloaded
from halfpast_core_store.rpc_errors import ConnectionLost, Unavailable

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

Done = Callable[[Appended | CoreError], None]


class Connection:
    """Requests of one process. An answer waits here until the process looks."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._flights: dict[int, Done] = {}
        self._flight_count = 0
        self._arrived: list[tuple[Done, Appended | CoreError]] = []
        self.is_up = True
        self.was_cut = False
        """Whether a call that waited for news has failed, and nobody has seen it."""

    def append(self, request: Append, done: Done) -> None:
        """Send a request; `done` is called by a later `deliver`."""
        if not self.is_up:
            self._arrived.append((done, Unavailable("broker", "no connection")))
            return
        self._flight_count += 1
        flight = self._flight_count
        self._flights[flight] = done

        def arrived(answer: Appended | Exception) -> None:
            if flight in self._flights:
                assert isinstance(answer, Appended | CoreError)
                self._arrived.append((self._flights.pop(flight), answer))

        try:
            if self._world.armed and self._world.random.random() < 0.12:
                raise Overloaded("end-transaction")
            self._world.store.submit(request, arrived)
        except CoreError as error:
            arrived(error)

    def deliver(self) -> None:
        """Hand over the answers that have come."""
        arrived, self._arrived = self._arrived, []
        for done, answer in arrived:
            done(answer)

    def cut(self) -> None:
        """What is on its way, here or there, is lost; the requests may be stored.

        Perhaps the next request finds a new connection at once.
        """
        lost = [done for done, _ in self._arrived] + [*self._flights.values()]
        self._flights.clear()
        error = ConnectionLost("broker", "cut")
        self._arrived = [(done, error) for done in lost]
        self.is_up = self._world.random.random() < 0.6
        self.was_cut = True

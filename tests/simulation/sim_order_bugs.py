"""Bugs planted in ordered groups. See `sim_bugs.py`."""

from typing import Any

from halfpast_core_store.check_point import CheckPoint
from halfpast_core_store.group_state import GroupState
from halfpast_core_store.groups import Groups
from halfpast_core_store.order_book import OrderBook
from halfpast_core_store.store import Store


class LinesOfThisStart(Groups):
    """What was in flight before the last start holds nothing back."""

    def book(self, state: GroupState) -> OrderBook | None:
        if state.book is None:
            state.book = OrderBook({})
            state.book._points = state.check_points  # pyright: ignore[reportPrivateUsage]
        return super().book(state)


class FreeRetries(OrderBook):
    """A message that waits for its retry lets later ones pass."""

    def add(self, point: CheckPoint) -> None:
        if not point.hidden or point.attempt == 0:
            super().add(point)


class RetriesPass(Groups):
    """See FreeRetries. What waits is offered after the rest."""

    def book(self, state: GroupState) -> OrderBook | None:
        if state.book is None:
            state.book = FreeRetries(state.check_points)
        return super().book(state)


def groups_of(kind: type[Groups]) -> type[Store]:
    """A store with such groups."""

    class Planted(Store):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            groups = self.groups
            self.groups = kind(
                self._index, groups.queues, self.salt, groups.dead_size_max
            )

    return Planted


ORDER_BUGS: dict[str, dict[str, Any]] = {
    "lines forgotten on restart": {"make_store": groups_of(LinesOfThisStart)},
    "a retry lets later ones pass": {"make_store": groups_of(RetriesPass)},
}

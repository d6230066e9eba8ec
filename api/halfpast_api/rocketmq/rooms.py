"""What the front works with, of one namespace."""

from dataclasses import dataclass
from typing import Final, Protocol

from halfpast_api.access.space import Space
from halfpast_api.delay.pending_quota import PendingQuotas
from halfpast_api.limits.pending_count import PendingCount
from halfpast_api.metadata.settings import GroupSettings
from halfpast_core_store.broker import GroupPolicy

_COUNT_MAX: Final = 256


class SpaceSource(Protocol):
    """What is asked of a `Spaces`."""

    def space(self, namespace: str) -> Space: ...


@dataclass(frozen=True, slots=True)
class Room:
    """The services as one namespace sees them: those that HTTP works with."""

    space: Space
    quotas: PendingQuotas

    @property
    def namespace(self) -> str:
        return self.space.namespace

    def policy(self, group: str) -> GroupPolicy:
        """How the group's failures are handled, by its settings."""
        return policy_of(self.space.settings.group_settings(group))


class Rooms:
    """Those that were used lately."""

    def __init__(self, source: SpaceSource) -> None:
        self._source = source
        self._rooms: dict[str, Room] = {}

    def of(self, namespace: str) -> Room:
        """The room of a namespace that exists."""
        room = self._rooms.pop(namespace, None)
        if room is None:
            space = self._source.space(namespace)
            pending = PendingCount(space.delay, space.owned)
            room = Room(space, PendingQuotas(space.delay, pending))
            if len(self._rooms) >= _COUNT_MAX:
                del self._rooms[next(iter(self._rooms))]
        self._rooms[namespace] = room  # the last one used is the last one to go
        return room


def policy_of(settings: GroupSettings) -> GroupPolicy:
    """The settings of a group, as the store wants them."""
    return GroupPolicy(
        attempts_max=settings.max_attempts,
        backoff_initial_ms=settings.backoff_initial_ms,
        backoff_max_ms=settings.backoff_max_ms,
        ordered=settings.ordered,
    )

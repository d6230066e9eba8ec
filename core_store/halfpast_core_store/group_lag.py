"""How far consumer groups are behind, for the metrics: bounded, however many there are.

A look takes the next thousand cursors from the index and goes on there the next time.
With up to that many every look is fresh; with more, what is told is of the last round.
Only the groups that are furthest behind are named; the sum is of all that were seen.
"""

from . import keys
from .store import Store

FIRST = b"C"
CURSORS_MAX = 1_000
SHOWN_MAX = 100
KNOWN_MAX = 10_000

Pair = tuple[int, int]


class GroupLag:
    """Of one store. A group that has never popped is not behind anything."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next = FIRST
        self._seen: dict[Pair, int] = {}
        self._known: dict[Pair, int] = {}

    def gauges(self) -> dict[str, float]:
        """Messages that a group has not taken, and those that it has in hand."""
        self._look()
        shown = sorted(self._known.items(), key=lambda it: -it[1])[:SHOWN_MAX]
        registry, groups = self._store.registry, self._store.groups
        found: dict[str, float] = {"groups_lag_messages": sum(self._known.values())}
        for (group_id, topic_id), lag in shown:
            group, topic = registry.group_name(group_id), registry.topic_by_id(topic_id)
            if group is None or topic is None:
                continue
            labels = f'{{group="{group}",topic="{topic.name}"}}'
            found[f"group_lag_messages{labels}"] = lag
            state = groups.loaded(group_id, topic_id)
            if state is not None:
                found[f"group_in_flight_messages{labels}"] = state.in_flight
        return found

    def _look(self) -> None:
        rows = self._store.groups.cursor_rows(self._next, CURSORS_MAX)
        queues, seen = self._store.queues, self._seen
        for key, value in rows:
            _, group_id, topic_id, queue_id = keys.CURSOR.unpack(key)
            offset = max(keys.read_u64(value), queues.begin(topic_id, queue_id))
            behind = max(0, queues.end(topic_id, queue_id) - offset)
            pair = group_id, topic_id
            if pair in seen or len(seen) < KNOWN_MAX:
                seen[pair] = seen.get(pair, 0) + behind
        if len(rows) == CURSORS_MAX:
            self._next = rows[-1][0] + b"\0"
        else:  # all have been seen
            self._known, self._seen, self._next = seen, {}, FIRST

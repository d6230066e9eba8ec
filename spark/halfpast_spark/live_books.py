"""What becomes of each id as its events come, and what that changes in the counts.

    events ──> rows of `live_timers.py`, `live_transactions.py`
           ──> LiveMemory: what was known, and what is known now
           ──> Changes: what that counts for now, less what it counted for before

So an id counts as it stands, in however many batches its events come. Each event
decides by its own times whether it is taken, never by what else came with it: the same
log gives the same counts, however it is cut into batches, and after any crash.
"""

from collections.abc import Iterable

import numpy as np

from . import live_timers, live_transactions
from .frame_records import Mask
from .live_deltas import Changes
from .live_events import EVENT, LiveEvents, Table, made_ms
from .live_memory import LiveMemory
from .sla import SlaRules

AHEAD_MS = 300_000
"""An id may be from a clock that is so far ahead of the store's."""


class LiveBooks:
    """One stream's, with all that it remembers."""

    def __init__(
        self, memory: LiveMemory, *, window_ms: int, memory_ms: int, rules: SlaRules
    ) -> None:
        self.memory = memory
        self._window_ms = window_ms
        self._memory_ms = memory_ms
        self._rules = rules

    def take(self, some: Iterable[LiveEvents]) -> Changes:
        """Enter what has come, in the order of the log; tells what that changes.

        Left out is what an id that is older than the memory does, and what is known.
        """
        changes = Changes(self._window_ms)
        events = self._named(some, changes)
        if not len(events):
            return changes
        changes.position = int(events["position"][-1])
        changes.horizon_ms = int(events["stored_ms"].max())
        events = events[self._is_new(events)]
        changes.events = len(events)
        self._take_timers(events[live_timers.OF_TIMERS[events["kind"]]], changes)
        self._take_transactions(events, changes)
        memory = self.memory
        memory.position = max(memory.position, changes.position)
        memory.forget(changes.horizon_ms - self._memory_ms)
        return changes

    def _named(self, some: Iterable[LiveEvents], changes: Changes) -> Table:
        """All of them, with our numbers for their names."""
        found: list[Table] = []
        for part in some:
            changes.gaps += part.gaps
            events = part.events.copy()
            events["group"] = self.memory.names.learn(part)
            found.append(events)
        changes.gaps.sort()
        events = np.concatenate(found) if found else np.empty(0, EVENT)
        positions = events["position"]
        if (positions[1:] < positions[:-1]).any():
            events = events[np.argsort(positions, kind="stable")]
        return events

    def _is_new(self, events: Table) -> Mask:
        made, stored_ms = made_ms(events["id"]), events["stored_ms"]
        age_ms = stored_ms - made
        is_remembered = (age_ms <= self._memory_ms) & (age_ms >= -AHEAD_MS)
        found: Mask = is_remembered & (events["position"] > self.memory.positions(made))
        return found

    def _take_timers(self, events: Table, changes: Changes) -> None:
        if not len(events):
            return
        rows = live_timers.summed(events)
        before, now = self.memory.take("timers", rows, live_timers.joined)
        names = self.memory.names
        for some, weight in ((before, -1), (now, 1)):
            entries = live_timers.counted(some, names, self._rules, self._memory_ms)
            changes.add(entries, weight, names)

    def _take_transactions(self, events: Table, changes: Changes) -> None:
        of_heads = live_transactions.OF_HEADS[events["kind"]]
        of_messages = live_transactions.message_mask(events)
        heads = live_transactions.heads_summed(events[of_heads])
        messages = live_transactions.messages_summed(events[of_messages])
        ids = live_transactions.ids_of(heads, messages)
        if not len(ids):
            return
        self._count_transactions(ids, -1, changes)
        memory = self.memory
        memory.take("heads", heads, live_transactions.heads_joined)
        memory.take("messages", messages, live_transactions.messages_joined)
        self._count_transactions(ids, 1, changes)

    def _count_transactions(self, ids: Table, weight: int, changes: Changes) -> None:
        heads, places = self.memory.heads(ids)
        messages, owners = self.memory.messages(ids)
        # Messages of what is not known yet wait for it.
        at = np.searchsorted(places, owners)
        is_known = at < len(places)
        is_known[is_known] = places[at[is_known]] == owners[is_known]
        entries = live_transactions.counted(heads, messages[is_known], at[is_known])
        changes.add(entries, weight, self.memory.names)

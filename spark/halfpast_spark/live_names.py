"""What the numbers in a stream's memory are called."""

from dataclasses import dataclass, field

import numpy as np

from .frame_records import Numbers
from .live_events import NONE, LiveEvents
from .result_tables import ALL_TOPICS


@dataclass(slots=True)
class LiveNames:
    """Topics by the store's own number; producer groups by when they came first. What
    was counted under a name stays so, also when nothing tells the name any more."""

    topics: dict[int, str] = field(default_factory=lambda: {})
    groups: list[str] = field(default_factory=lambda: [])
    _places: dict[str, int] = field(default_factory=lambda: {})

    def topic(self, number: int) -> str:
        """NONE stands for all topics."""
        return ALL_TOPICS if number == NONE else self.topics.get(number, "")

    def group(self, number: int) -> str:
        return "" if number == NONE else self.groups[number]

    def learn(self, some: LiveEvents) -> Numbers:
        """Enter the names that some events bring; gives their groups in our numbers."""
        self.topics = {**some.topics, **self.topics}
        if len(self._places) != len(self.groups):
            self._places = {name: place for place, name in enumerate(self.groups)}
        for name in some.groups:
            if name not in self._places:
                self._places[name] = len(self.groups)
                self.groups.append(name)
        places = [self._places[name] for name in some.groups]
        numbers: Numbers = np.array([*places, NONE], np.int64)  # [NONE] is the last
        found: Numbers = numbers[some.events["group"]]
        return found

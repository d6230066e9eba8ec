"""Order per key: which message of a key may be delivered now.

Messages of one key in one queue of one topic are a *line*. Its first message that is
neither delivered nor dead may go; all others wait. A message of a line is

    running   being delivered
    waiting   held here, behind an earlier one
    away      with the broker, hidden until some time: it failed, or was sent back

What is away is known by its place alone, also after a restart, when the broker tells
what is in flight. So memory is bounded by how much the group may have in flight.
Time comes in from outside.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

H = TypeVar("H")
LineKey = tuple[str, int, bytes]
"""Topic, queue, key."""

WAITING_MAX: Final = 128
"""Messages of one line that are held here."""
SOON_MS: Final = 1_000
"""What comes back so soon is waited for with the rest of the line held here."""
BEHIND_MS: Final = 50
"""How much later than the first one the others come back."""
PACE_MS: Final = 20
LATER_MS_MAX: Final = 60_000


@dataclass(slots=True)
class Turn(Generic[H]):
    """What changes: these may go now, and these go back to the broker for some ms."""

    go: list[H] = field(default_factory=list[H])
    later: list[tuple[H, int]] = field(default_factory=list[tuple[H, int]])


@dataclass(slots=True)
class _Line(Generic[H]):
    running: int | None = None
    waiting: dict[int, H] = field(default_factory=dict[int, H])
    away: dict[int, int] = field(default_factory=dict[int, int])
    away_heap: list[int] = field(default_factory=list[int])

    def first_away(self) -> int | None:
        heap = self.away_heap
        while heap and heap[0] not in self.away:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def send_away(self, offset: int, until_ms: int) -> None:
        if offset not in self.away:
            heapq.heappush(self.away_heap, offset)
        self.away[offset] = until_ms

    @property
    def is_empty(self) -> bool:
        return self.running is None and not self.waiting and not self.away


class Lines(Generic[H]):
    """All lines of one endpoint. `H` is what stands for a message that is held."""

    def __init__(self) -> None:
        self._lines: dict[LineKey, _Line[H]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def learn(self, key: LineKey, offset: int, until_ms: int) -> None:
        """A message is in flight, but not here."""
        line = self._lines.setdefault(key, _Line())
        if offset != line.running and offset not in line.waiting:
            line.send_away(offset, until_ms)

    def arrive(self, key: LineKey, offset: int, held: H, now_ms: int) -> Turn[H]:
        """A message has come."""
        line = self._lines.setdefault(key, _Line())
        line.away.pop(offset, None)
        later_ms = self._later_ms(line, offset, now_ms)
        turn: Turn[H] = Turn()
        if later_ms:
            line.send_away(offset, now_ms + later_ms)
            turn.later.append((held, later_ms))
            return turn
        line.waiting[offset] = held
        return self._next(key, line, now_ms, turn)

    def done(self, key: LineKey, offset: int, now_ms: int) -> Turn[H]:
        """A message that ran is delivered, or dead."""
        line = self._lines[key]
        assert line.running == offset
        line.running = None
        return self._next(key, line, now_ms, Turn())

    def send_back(
        self, key: LineKey, offset: int, until_ms: int, now_ms: int
    ) -> Turn[H]:
        """A message that ran comes again at `until_ms`; the others wait for it."""
        line = self._lines[key]
        assert line.running == offset
        line.running = None
        line.send_away(offset, until_ms)
        return self._next(key, line, now_ms, Turn())

    def give_back(self, key: LineKey, offset: int, until_ms: int) -> None:
        """A message that waits here goes back to the broker for other reasons."""
        line = self._lines[key]
        del line.waiting[offset]
        line.send_away(offset, until_ms)

    def keep_only(
        self, topic: str, places: Mapping[tuple[int, int], int], now_ms: int
    ) -> Turn[H]:
        """Of what is away, this alone is still in flight, and until when."""
        turn: Turn[H] = Turn()
        for key, line in [it for it in self._lines.items() if it[0][0] == topic]:
            for offset in list(line.away):
                until_ms = places.get((key[1], offset))
                if until_ms is None:
                    del line.away[offset]
                else:
                    line.away[offset] = until_ms
            self._next(key, line, now_ms, turn)
        return turn

    def waiting(self) -> Iterator[tuple[LineKey, int, H]]:
        """All that is held here and waits."""
        for key, line in self._lines.items():
            for offset, held in line.waiting.items():
                yield key, offset, held

    def is_away(self, key: LineKey, offset: int) -> bool:
        line = self._lines.get(key)
        return line is not None and offset in line.away

    def _later_ms(self, line: _Line[H], offset: int, now_ms: int) -> int:
        """For how long a message that has come goes back; 0 if it stays here."""
        first_away = line.first_away()
        waits_ms = 0
        if first_away is not None and first_away < offset:
            waits_ms = max(1, line.away[first_away] - now_ms)
        is_full = len(line.waiting) >= WAITING_MAX and (
            waits_ms > 0 or offset > max(line.waiting)
        )
        if waits_ms <= SOON_MS and not is_full:
            return 0
        behind = len(line.waiting) + len(line.away)
        turn_ms = min(max(behind * PACE_MS, SOON_MS), LATER_MS_MAX)
        return max(turn_ms, waits_ms + BEHIND_MS)

    def _next(
        self, key: LineKey, line: _Line[H], now_ms: int, turn: Turn[H]
    ) -> Turn[H]:
        """Let the first one go, or send back those who would wait for too long."""
        if line.running is None and line.waiting:
            first = min(line.waiting)
            first_away = line.first_away()
            if first_away is None or first < first_away:
                line.running = first
                turn.go.append(line.waiting.pop(first))
            elif (wait_ms := line.away[first_away] - now_ms) > SOON_MS:
                self._send_back_all(line, wait_ms + BEHIND_MS, now_ms, turn)
        if line.is_empty:
            del self._lines[key]
        return turn

    def _send_back_all(
        self, line: _Line[H], later_ms: int, now_ms: int, turn: Turn[H]
    ) -> None:
        for offset, held in _sorted(line.waiting.items()):
            line.send_away(offset, now_ms + later_ms)
            turn.later.append((held, later_ms))
        line.waiting.clear()


def _sorted(items: Iterable[tuple[int, H]]) -> list[tuple[int, H]]:
    return sorted(items, key=lambda item: item[0])

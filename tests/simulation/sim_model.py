"""What the clients were told, and whether the log agrees with it.

A plain model: it knows nothing of frames, wheels or indexes, only of answers. Each
check names the promise that it holds the system to; they are numbered here:

1 durable at ack · 2 never early, never lost · 3 fired once · 4 truthful cancel ·
5 one outcome of a transaction · 6 order, at least once · 7 rebuilt from the log ·
8 recurring schedules · 9 bulk operations · 10 release of topics · 11 failing deliveries

Promise 5 has a model of its own: `sim_transaction_model.py`; what the log tells of
timers is in `sim_timer_model.py`, with `sim_schedule_model.py` for promise 8 and
`sim_operation_model.py` for 9.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.sim_timer_model import Timer


class Broken(AssertionError):
    """A promise was broken."""


def demand(holds: bool, promise: int, text: str) -> None:
    if not holds:
        raise Broken(f"promise {promise}: {text}")


def is_transactional(event_id: bytes) -> bool:
    """Whether this is the id of a transaction or of a message of one."""
    return event_id[:2] == b"\1\0"


@dataclass(slots=True)
class Sent:
    """One event as its sender knows it. `due_ms` 0 means at once."""

    event_id: bytes
    due_ms: int
    sequence: int
    acknowledged: bool = False
    cancel: str = ""
    """What a cancel was answered, if one was."""
    maybe_cancelled: bool = False
    """A cancel was asked for whose answer never came."""
    asked: dict[int, int] = field(default_factory=dict[int, int])
    """Every due time that it may have, where a change's answer never came, by the
    order in which they were decided."""
    key: bytes = b""

    @property
    def dues(self) -> set[int]:
        return set(self.asked.values())


@dataclass(slots=True)
class Stored:
    """A message found in a destination queue."""

    event_id: bytes
    queue: tuple[int, int]
    offset: int
    stored_ms: int
    due_ms: int
    sequence: int
    is_of_schedule: bool = False
    key: bytes = b""


class Model:
    """All that was asked and answered."""

    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.keyed: dict[bytes, list[bytes]] = defaultdict(list)
        """Idempotency key to the ids of all tries."""
        self.answered: dict[bytes, set[bytes]] = defaultdict(set)
        """Idempotency key to the base ids that were answered."""
        self.settled: set[tuple[int, int, int]] = set()
        """Places whose acknowledgement was answered."""
        self.maybe_settled: set[tuple[int, int, int]] = set()
        """Places that were acknowledged, answered or not."""
        self.hidden_until: dict[tuple[int, int, int], int] = {}
        self.checks = 0

    def send(self, event_id: bytes, due_ms: int, sequence: int) -> Sent:
        sent = Sent(event_id, due_ms, sequence)
        sent.asked[0] = due_ms
        self.sent[event_id] = sent
        return sent

    def popped(self, place: tuple[int, int, int], now_ms: int, until_ms: int) -> None:
        """A consumer got this message."""
        demand(place not in self.settled, 6, f"{place} came again after its ack")
        hidden = self.hidden_until.get(place, 0)
        demand(hidden <= now_ms, 6, f"{place} came while hidden until {hidden}")
        self.hidden_until[place] = until_ms

    def check(
        self, stored: list[Stored], timers: "Mapping[bytes, Timer]", *, final: bool
    ) -> None:
        """Compare with everything that lies in the queues, and what became of timers
        by the log. `final`: all is due."""
        self.checks += 1
        places: dict[bytes, list[Stored]] = defaultdict(list)
        for message in stored:
            event_id = message.event_id
            if not is_transactional(event_id) and not message.is_of_schedule:
                places[message.event_id].append(message)
        for event_id, found in places.items():
            demand(event_id in self.sent, 1, f"{event_id.hex()} was never sent")
            demand(len(found) == 1, 3, f"{event_id.hex()} is there {len(found)} times")
            self._check_stored(self.sent[event_id], found[0], timers.get(event_id))
        for event_id, sent in self.sent.items():
            if event_id not in places:
                self._check_missing(sent, timers.get(event_id), final)
        self._check_order(stored)
        self._check_keys(places, final)

    def _check_stored(self, sent: Sent, found: Stored, timer: "Timer | None") -> None:
        name = sent.event_id.hex()
        demand(sent.cancel != "cancelled", 4, f"{name} was cancelled, yet delivered")
        demand(sent.cancel != "not_found", 4, f"{name} was 'not found', yet delivered")
        if sent.due_ms == 0:
            demand(found.due_ms == 0, 2, f"{name} was for now, has a due time")
            return
        moved = timer is not None and (timer.by_operation or timer.deaths > 0)
        asked = found.due_ms in sent.dues or moved
        demand(asked, 2, f"{name} has a due time nobody asked for")
        early = found.due_ms - found.stored_ms
        demand(early <= 0, 2, f"{name} was delivered {early} ms early")

    def _check_missing(self, sent: Sent, timer: "Timer | None", final: bool) -> None:
        if not sent.acknowledged:
            return
        name = sent.event_id.hex()
        if sent.due_ms == 0:
            demand(False, 1, f"{name} was acknowledged and is lost")
        demand(sent.cancel != "too_late", 4, f"{name} was 'too late', yet is not there")
        by_operation = timer is not None and timer.is_cancelled_by_operation
        cancelled = sent.cancel == "cancelled" or sent.maybe_cancelled or by_operation
        if final and not cancelled:
            demand(False, 2, f"{name} was scheduled for {sent.dues} and never came")

    def _check_order(self, stored: list[Stored]) -> None:
        """Offsets have no gap; what one sender sent at once stays in order."""
        queues: dict[tuple[int, int], list[Stored]] = defaultdict(list)
        for message in stored:
            queues[message.queue].append(message)
        for queue, messages in queues.items():
            offsets = [message.offset for message in messages]
            whole = offsets == list(range(len(offsets)))
            demand(whole, 6, f"queue {queue} has offsets {offsets}")
            at_once = [
                message.sequence
                for message in messages
                if message.due_ms == 0 and not is_transactional(message.event_id)
            ]
            demand(at_once == sorted(at_once), 6, f"queue {queue} is out of order")

    def _check_keys(self, places: dict[bytes, list[Stored]], final: bool) -> None:
        for key, bases in self.keyed.items():
            there = [base for base in bases if base in places]
            demand(len(there) <= 1, 1, f"key {key.hex()} was stored {len(there)} times")
            answers = self.answered[key]
            demand(len(answers) <= 1, 1, f"key {key.hex()} got {len(answers)} ids")
            if answers:
                demand(there == list(answers), 1, f"key {key.hex()} names another id")

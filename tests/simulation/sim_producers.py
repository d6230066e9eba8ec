"""Simulated producers: each has a database of its own, and transactions to match.

What they ask goes through `Calls`, so it comes late, doubled, out of order, or not
at all; and of the answers some are lost.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from tests.simulation.sim_settings import QUEUES, TOPICS
from tests.simulation.sim_transaction_model import Begun, Planned, Told
from tests.simulation.sim_transactions import TransactionProcess

from halfpast_core_store.broker import Append, Appended, Dedup, Run
from halfpast_core_store.errors import CoreError
from halfpast_core_store.record import RecordFlag, RecordKind, encode_record
from halfpast_txn.half import begin_run, message_id
from halfpast_txn.policy import CheckPolicy
from halfpast_txn.transactions import (
    AddMessages,
    End,
    EndResult,
    Resume,
    Source,
    TransactionState,
)

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

OUTCOMES = (TransactionState.COMMITTED, TransactionState.ROLLED_BACK)
Learned = Callable[[EndResult], None]
WORKS_MAX = 12
MESSAGES_MAX = 8


class Character(Enum):
    """How a producer deals with its transactions."""

    PROMPT = auto()  # answers check-backs at once, from its database
    BARRIER = auto()  # and rolls back what is still open when it is asked
    SLOW = auto()  # answers many steps later
    GARBLED = auto()  # its answers cannot be read
    GONE = auto()  # begins, and is never heard of again
    LYING = auto()  # answers anything
    CONTRARY = auto()  # commits and rolls back at once


CHARACTERS = [*Character]
SHARES = [8, 3, 2, 1, 1, 1, 1]
DISHONEST = (Character.LYING, Character.CONTRARY)


@dataclass(slots=True)
class Work:
    """A transaction as its producer sees it. Each try to begin it has another id."""

    key: bytes
    group: str
    policy: CheckPolicy
    character: Character
    messages: list[Planned]
    is_quiet: bool
    """Its producer never tells the outcome unless it is asked."""
    transaction_id: bytes | None = None
    unanswered: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Additions without an answer: number of the first message, and how many."""
    done: bool = False


class Producers:
    """All producers of one world, and the operator."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.random
        self._model = world.transaction_model
        self._ids = 0
        self._sequence = 0
        self._works: list[Work] = []
        self._characters: dict[bytes, Character] = {}

    def character_of(self, transaction_id: bytes) -> Character:
        return self._characters[transaction_id]

    def _next_id(self) -> bytes:
        self._ids += 1
        return b"\x01" + (self._ids << 16).to_bytes(15, "big")

    # --- begin ----------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction with a few messages."""
        work = Work(
            self._world.rng.bits(128).to_bytes(16, "big"),
            self._random.choice(("orders", "stock")),
            CheckPolicy(
                self._random.choice((0, 50, 150, 400)),
                self._random.choice((5, 20, 40)),
                self._random.choice((1, 2, 3)),
            ),
            self._random.choices(CHARACTERS, SHARES)[0],
            [self._plan() for _ in range(self._random.choice((1, 1, 2, 4)))],
            self._random.random() < 0.3,
        )
        self._works.append(work)
        del self._works[:-WORKS_MAX]
        self._try(work)

    def _plan(self) -> Planned:
        self._sequence += 1
        kind = self._random.random()
        planned = Planned(
            self._random.choice(TOPICS),
            self._random.randrange(QUEUES),
            self._sequence,
        )
        if kind < 0.3:
            planned.delay_ms = self._random.choice((1, 30, 200))
        elif kind < 0.5:
            wait_ms = self._random.choice((-20, 1, 60, 300))
            planned.due_ms = self._world.now_ms + wait_ms
        return planned

    def _try(self, work: Work) -> None:
        """Begin, for the first time or because no answer came."""
        begun = Begun(
            self._next_id(),
            work.group,
            work.policy.check_max,
            work.messages,
            work.character not in DISHONEST,
        )
        self._model.begun[begun.transaction_id] = begun
        self._characters[begun.transaction_id] = work.character
        halves = self.halves(begun.transaction_id, work.messages, 0)
        run = begin_run(
            begun.transaction_id, work.group, work.policy, self._world.now_ms, halves
        )
        dedup = Dedup(
            work.key, bytes(16), begun.transaction_id, self._world.clock.wall_ns
        )
        is_lost = self._random.random() < 0.1

        def done(answer: Appended | Exception) -> None:
            if not isinstance(answer, Appended):
                return
            known = answer.replayed.base_id if answer.replayed else begun.transaction_id
            self._model.begun[known].acknowledged = True
            if not is_lost:
                work.transaction_id = known

        with contextlib.suppress(CoreError):
            request = Append([run, *self.more_runs(halves)], dedup=dedup)
            self._world.store.submit(request, done)

    def more_runs(self, halves: list[bytes]) -> list[Run]:
        """What a careless begin would append beside its transaction."""
        return []

    def halves(
        self, transaction_id: bytes, messages: list[Planned], first: int
    ) -> list[bytes]:
        """Messages as HALF records."""
        return [
            encode_record(
                RecordKind.HALF,
                topic_id=planned.topic,
                queue_id=planned.queue,
                event_id=message_id(transaction_id, first + i),
                born_ms=self._world.now_ms,
                due_ms=planned.delay_ms or planned.due_ms,
                flags=RecordFlag.AFTER_COMMIT if planned.delay_ms else 0,
                body=planned.sequence.to_bytes(4, "big") + bytes(planned.sequence % 40),
            )
            for i, planned in enumerate(messages)
        ]

    # --- what follows ---------------------------------------------------------------

    def advance(self) -> None:
        """Some transaction goes on: more messages, a local decision, an outcome."""
        open_works = [work for work in self._works if not work.done]
        if not open_works:
            return
        work = self._random.choice(open_works)
        if work.transaction_id is None:
            if self._random.random() < 0.3:
                self._try(work)
            return
        if work.character == Character.GONE:
            work.done = True
        elif work.character == Character.CONTRARY:
            for state in OUTCOMES:
                self._end(work, work.transaction_id, state)
        elif work.transaction_id not in self._model.database:
            self._work_locally(work, work.transaction_id)
        elif work.is_quiet:
            work.done = True
        else:
            truth = self._model.database[work.transaction_id]
            self._end(work, work.transaction_id, truth)

    def _work_locally(self, work: Work, transaction_id: bytes) -> None:
        chance = self._random.random()
        if chance < 0.3:
            self._add(work, transaction_id)
        elif chance < 0.8:
            committed = self._random.random() < 0.7
            self._model.database[transaction_id] = OUTCOMES[0 if committed else 1]

    def _add(self, work: Work, transaction_id: bytes) -> None:
        """Add new messages, or some again for which no answer came."""
        if work.unanswered and self._random.random() < 0.7:
            first, count = self._random.choice(work.unanswered)
        elif len(work.messages) < MESSAGES_MAX:
            first, count = len(work.messages), self._random.choice((1, 2))
            work.messages += [self._plan() for _ in range(count)]
            work.unanswered.append((first, count))
        else:
            return
        records = self.halves(
            transaction_id, work.messages[first : first + count], first
        )
        begun = self._model.begun[transaction_id]
        is_lost = self._random.random() < 0.2

        def reply(error: CoreError | None) -> None:
            if error is not None:
                return
            begun.count_acknowledged = max(begun.count_acknowledged, first + count)
            if not is_lost and (first, count) in work.unanswered:
                work.unanswered.remove((first, count))

        request = AddMessages(transaction_id, first, records)
        self._world.calls.send(lambda process: process.add(request, reply))

    def _end(self, work: Work, transaction_id: bytes, state: int) -> None:
        group = self._random.choice(("", work.group))
        end = End(transaction_id, state, group)
        is_lost = self._random.random() < 0.2

        def learned(result: EndResult) -> None:
            if not is_lost and result.state in OUTCOMES:
                work.done = self._random.random() < 0.7

        if self._random.random() < 0.05:
            stranger = End(transaction_id, self._random.choice(OUTCOMES), "strangers")
            self.send_end(stranger)
        self._world.calls.send(lambda process: self._arrive(process, end, learned))

    def send_end(self, end: End) -> None:
        """Ask for an outcome, and do not care what the answer is."""
        self._world.calls.send(
            lambda process: self._arrive(process, end, lambda result: None)
        )

    def _arrive(self, process: TransactionProcess, end: End, learned: Learned) -> None:
        """The call has come; note what is asked, and later what is answered."""
        world = self._world
        begun = self._model.begun[end.transaction_id]
        known = begun.acknowledged
        self._model.speak(end, world.now_ms, world.clock.set_back_ms)

        def reply(result: EndResult | CoreError) -> None:
            if isinstance(result, CoreError):
                return
            stranger = bool(end.group) and end.group != begun.group
            at_ms = world.clock.latest_ms
            told = Told(end.state, result, at_ms, known, stranger)
            self._model.tell(end.transaction_id, told)
            learned(result)

        process.end(end, reply)

    # --- the operator -----------------------------------------------------------------

    def operate(self) -> None:
        """Resume or force some transaction, a parked one if there is one."""
        index = self._world.transactions.index
        found = index.scan(b"P", b"Q", 20) or index.scan(b"S", b"T", 20)
        if not found:
            return
        transaction_id = self._random.choice(found)[0][1:]
        if self._random.random() < 0.5:
            request = Resume(transaction_id, "try again", "operator")
            self._world.calls.send(
                lambda process: process.resume(request, lambda error: None)
            )
            return
        state = self._random.choice(OUTCOMES)
        self.send_end(
            End(transaction_id, state, "", Source.OPERATOR, 0, "settled", "operator")
        )

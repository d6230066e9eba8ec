"""The transaction service of one simulated world, without its event loop.

The real core and the real rules for claims; what `service.py`, `decider.py`,
`ender.py` and `checker.py` do on a loop is done here a step at a time. Between two
steps the process may die, lose its connection, or be replaced while it lives on.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.sim_connection import Done
from tests.simulation.sim_follower import TransactionFollower
from tests.simulation.sim_settings import ENDS_IN_FLIGHT

from halfpast_core_store.broker import Append, Appended
from halfpast_core_store.errors import CoreError
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.rpc_errors import UNSURE, Unavailable
from halfpast_txn.claims import ROLE
from halfpast_txn.core import Busy, Checking, Ending, TransactionCore, refused
from halfpast_txn.decisions import Command, decide_add, decide_resume
from halfpast_txn.errors import UnknownTransaction
from halfpast_txn.transactions import (
    AddMessages,
    CheckAnswer,
    End,
    EndResult,
    Resume,
    Source,
)

if TYPE_CHECKING:
    from tests.simulation.sim_world import World

Reply = Callable[[EndResult | CoreError], None]
Carried = Callable[[CoreError | None], None]
Decide = Callable[[TransactionCore], object | Busy | Command]


@dataclass(slots=True)
class Departure:
    """Outcomes that leave together, and whom to tell."""

    token: int
    endings: list[Ending] = field(default_factory=list[Ending])
    replies: list[Reply] = field(default_factory=list[Reply])
    size: int = 0


class TransactionProcess(TransactionFollower):
    """One process. `make_core` and the methods let a test plant a bug."""

    def __init__(self, world: "World", index: MemoryIndex) -> None:
        super().__init__(world, index)
        self._departures: list[Departure] = []
        self._leaving = 0
        self._checking = 0

    def step(self) -> None:
        """What its loop would do next: take answers, follow, send what is ready."""
        if self.failed:
            return
        self.connection.deliver()
        ready, self.waiters.ready = self.waiters.ready, []
        for call in ready:
            call()
        self.leave()
        if self.connection.was_cut or not self.connection.is_up:
            self.connection.was_cut = False
            self.claims.lose()
        if not self.connection.is_up:
            self.connection.is_up = self._random.random() < 0.5
        elif self.claims.lost:
            if self._random.random() < 0.5:
                self.take_role()
        else:
            self.follow()
            if self.claims.live:
                self._check_back()
                self.leave()

    def send(self, request: Append, done: Done) -> None:
        """Append what has just been decided."""
        self.claims.stamp(request)
        self.connection.append(request, done)

    # --- outcomes -----------------------------------------------------------------

    def end(self, end: End, reply: Reply, *, caught_up: bool = False) -> None:
        """Give an outcome; `reply` is called at most once."""
        if not self.claims.live:
            reply(Unavailable(ROLE, "it is catching up"))
            return
        decision = self.core.decide(end)
        if isinstance(decision, Ending):
            self.put(decision, reply)
        elif isinstance(decision, Busy):
            self.waiters.then(
                decision.claim, lambda: self.end(end, reply, caught_up=caught_up)
            )
        elif decision.code == UnknownTransaction.code and not caught_up:
            try:
                self.catch_up()
            except Unavailable as error:
                reply(error)
            else:
                self.end(end, reply, caught_up=True)
        else:
            reply(decision)

    def put(self, ending: Ending, reply: Reply) -> None:
        """Let an outcome leave with others."""
        last = self._departures[-1] if self._departures else None
        full = last is not None and last.size + ending.size > self.core.config.end_size
        if last is None or full or last.token != self.claims.token:
            last = Departure(self.claims.token)
            self._departures.append(last)
        last.endings.append(ending)
        last.replies.append(reply)
        last.size += ending.size

    def leave(self) -> None:
        """Send what is decided, as far as there is room on the way."""
        while self._departures and self._leaving < ENDS_IN_FLIGHT:
            self._leaving += 1
            self._send(self._departures.pop(0))

    def _send(self, departure: Departure) -> None:
        request = self.core.end_request(departure.endings)

        def done(answer: Appended | CoreError) -> None:
            self._leaving -= 1
            if isinstance(answer, CoreError):
                if departure.token == request.fence_token:
                    claims = [ending.transaction_id for ending in departure.endings]
                    self.claims.refused(claims, request, answer)
                for reply in departure.replies:
                    reply(answer)
                return
            told = zip(departure.endings, departure.replies, strict=True)
            for ending, reply in told:
                self.core.ended(ending)
                self.claims.wake(ending.transaction_id)
                reply(ending.result)

        self.depart(departure, request, done)

    def depart(self, departure: Departure, request: Append, done: Done) -> None:
        """Send outcomes, unless their claims were given up while they waited."""
        if departure.token == self.claims.token:
            self.send(request, done)
        else:
            self.claims.stamp(request)
            done(Unavailable(ROLE, "the role was taken anew"))

    # --- other decisions ------------------------------------------------------------

    def add(self, request: AddMessages, reply: Carried) -> None:
        self._decide(lambda core: decide_add(core, request), reply)

    def resume(self, request: Resume, reply: Carried) -> None:
        self._decide(lambda core: decide_resume(core, request), reply)

    def _decide(self, decide: Decide, reply: Carried) -> None:
        if not self.claims.live:
            reply(Unavailable(ROLE, "it is catching up"))
            return
        try:
            self.catch_up()
            decision = decide(self.core)
        except CoreError as error:
            reply(error)
            return
        if isinstance(decision, Busy):
            again = decision.claim
            self.waiters.then(again, lambda: self._decide(decide, reply))
        elif isinstance(decision, Command):
            self._carry_out(decision, reply)
        else:
            reply(None)

    def _carry_out(self, command: Command, reply: Carried) -> None:
        def done(answer: Appended | CoreError) -> None:
            if isinstance(answer, CoreError):
                self.claims.refused([command.claim], command.request, answer)
                reply(answer)
            elif command.claim in self.core.claims:
                self.waiters.then(command.claim, lambda: reply(None))
            else:
                reply(None)

        self.send(command.request, done)

    # --- check-backs ------------------------------------------------------------------

    def _check_back(self) -> None:
        if self._checking >= self.core.config.check_in_flight:
            return
        checking = self.core.check()
        if checking is None:
            return
        if self.holds_role:
            self._world.transaction_model.checking(id for id, _ in checking.checks)
        self._checking += 1
        self.send(checking.request, lambda answer: self._checked(checking, answer))

    def _checked(self, checking: Checking, answer: Appended | CoreError) -> None:
        self._checking -= 1
        request = checking.request
        try:
            if isinstance(answer, CoreError):
                raise answer
            self.catch_up()
        except CoreError as error:
            if not isinstance(error, UNSURE) and self.claims.is_ours(request):
                self.core.not_checked(checking)
                for claim in checking.parked:
                    self.claims.wake(claim)
            self.claims.refused([], request, error)
        else:
            self.ask(checking.checks)

    def ask(self, checks: Iterable[tuple[bytes, int]]) -> None:
        """Put the questions to their producers."""
        for transaction_id, number in checks:
            if self.core.still_asked(transaction_id, number) is not None:
                self._world.endpoints.asked(transaction_id, number)

    def answer(self, group: str, answer: CheckAnswer, reply: Reply) -> None:
        """What a producer says to a question."""
        if not self.claims.live:
            reply(Unavailable(ROLE, "it is catching up"))
            return
        transaction_id, state, number = (
            answer.transaction_id,
            answer.state,
            answer.check,
        )
        if state:
            self.end(End(transaction_id, state, group, Source.CHECK, number), reply)
            return
        try:
            if self.core.status(transaction_id) is None:
                self.catch_up()
            reply(self.not_known(answer))
        except Unavailable as error:
            reply(error)

    def not_known(self, answer: CheckAnswer) -> EndResult:
        """The producer does not know either."""
        status = self.core.status(answer.transaction_id)
        if status is None:
            return refused(UnknownTransaction(answer.transaction_id.hex()))
        told = self.core.told(answer.transaction_id, status)
        if told is not None:
            return told
        self.core.answered(answer.transaction_id, "unknown")
        return EndResult(state=status.state, checks=status.checks)

"""POP against a plain model: nothing lost, nothing shown to a group while hidden.

For its group each message is pending, in flight (hidden until some time), done or
dead. The model knows those four and nothing of check points, cursors or logs; the
store may be restarted, crash, or lose its index at any step.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from tests.unit.core_store_world import World

from halfpast_core_store.broker import Delivered, GroupPolicy, SettleAction
from halfpast_core_store.errors import UnknownTopic
from halfpast_core_store.group_standing import DescribeGroup
from halfpast_core_store.record import decode_record

GROUPS = ("a", "b")
Held = tuple[str, bytes]  # a group and a receipt
POLICY = GroupPolicy(
    attempts_max=3, backoff_initial_ms=100, backoff_max_ms=150, in_flight_max=7
)
groups = st.sampled_from(GROUPS)
times = st.integers(0, 400)
hidden = times.filter(bool)  # nobody can pop a message and leave it visible


@dataclass
class Flight:
    """A message in flight: until when, and which receipt is good for it."""

    until_ms: int
    attempt: int
    receipt: bytes | None  # None: it waits for a retry


class PopMachine(RuleBasedStateMachine):
    """The store under test, and for each group what the model says."""

    receipts: Bundle[Held] = Bundle("receipts")

    @initialize(queue_count=st.integers(1, 3))
    def begin(self, queue_count: int) -> None:
        self.queue_count = queue_count
        self.world = World()
        self.world.topic("orders", queue_count)
        self.sent: list[bytes] = []
        self.pending: dict[str, set[bytes]] = {group: set() for group in GROUPS}
        self.flying: dict[str, dict[bytes, Flight]] = {group: {} for group in GROUPS}
        self.done: dict[str, set[bytes]] = {group: set() for group in GROUPS}
        self.dead: dict[str, set[bytes]] = {group: set() for group in GROUPS}

    # --- what happens -----------------------------------------------------------

    @rule(count=st.integers(1, 4), queue=st.integers(0, 2), large=st.booleans())
    def publish(self, count: int, queue: int, large: bool) -> None:
        bodies = [b"%d" % (len(self.sent) + i) for i in range(count)]
        padded = [body.ljust(600) if large else body for body in bodies]
        self.world.publish(padded, queue=queue % self.queue_count)
        self.sent += bodies
        for group in GROUPS:
            self.pending[group].update(bodies)

    @rule(target=receipts, group=groups, count=st.integers(1, 5), invisible_ms=hidden)
    def pop(self, group: str, count: int, invisible_ms: int) -> MultipleResults[Held]:
        now_ms = self.world.clock.now_ms
        plan = self.world.pop(
            group=group, count=count, invisible_ms=invisible_ms, policy=POLICY
        )
        self._bury(group)
        self._check_delivered(group, plan.delivered, now_ms)
        for message in plan.delivered:
            body = body_of(message)
            self.pending[group].discard(body)
            until_ms = now_ms + invisible_ms
            flight = Flight(until_ms, message.attempt, message.receipt)
            self.flying[group][body] = flight
        if len(plan.delivered) < count:
            self._check_nothing_was_left(group, now_ms)
        return multiple(*[(group, message.receipt) for message in plan.delivered])

    def _check_delivered(
        self, group: str, delivered: list[Delivered], now_ms: int
    ) -> None:
        bodies = [body_of(message) for message in delivered]
        assert len(set(bodies)) == len(bodies), "twice in one pop"
        for body, message in zip(bodies, delivered, strict=True):
            flight = self.flying[group].get(body)
            if flight is None:
                assert body in self.pending[group], "done or dead, and here again"
                assert message.attempt == 1
            else:
                assert flight.until_ms <= now_ms, "delivered while hidden"
                assert message.attempt == flight.attempt + 1

    def _check_nothing_was_left(self, group: str, now_ms: int) -> None:
        """The pop had room for more."""
        ready = [f for f in self.flying[group].values() if f.until_ms <= now_ms]
        # With no time to be hidden, what was just given is ready again.
        assert all(flight.until_ms == now_ms for flight in ready) or self.buried
        full = len(self.flying[group]) >= POLICY.in_flight_max
        assert full or not self.pending[group] or self.buried

    def _bury(self, group: str) -> None:
        """Take over what the store says has died, having checked that it may have."""
        self.buried = False
        try:
            letters = self.world.pop(group="dead", topic=f"%DLQ%{group}").delivered
        except UnknownTopic:
            return
        for letter in letters:
            self.buried = True
            body = body_of(letter)
            flight = self.flying[group].pop(body)
            assert flight.attempt == POLICY.attempts_max
            self.dead[group].add(body)
        self.world.settle(
            SettleAction.ACK, [letter.receipt for letter in letters], group="dead"
        )

    def _holder(self, group: str, receipt: bytes) -> bytes | None:
        """Which message this receipt is good for, if for any."""
        for body, flight in self.flying[group].items():
            if flight.receipt == receipt:
                return body
        return None

    @rule(held=consumes(receipts))
    def acknowledge(self, held: Held) -> None:
        group, receipt = held
        body = self._holder(group, receipt)
        (result,) = self.world.settle(SettleAction.ACK, [receipt], group=group)
        assert result.code == ("" if body else "receipt_expired")
        if body:
            del self.flying[group][body]
            self.done[group].add(body)

    @rule(held=st.lists(receipts, max_size=4))
    def acknowledge_some(self, held: list[Held]) -> None:
        for group in GROUPS:
            mine = [receipt for found, receipt in held if found == group]
            results = self.world.settle(SettleAction.ACK, mine, group=group)
            for receipt, result in zip(mine, results, strict=True):
                body = self._holder(group, receipt)
                assert result.code == ("" if body else "receipt_expired")
                if body:
                    del self.flying[group][body]
                    self.done[group].add(body)

    @rule(held=receipts, delay_ms=st.none() | times)
    def refuse(self, held: Held, delay_ms: int | None) -> None:
        group, receipt = held
        body = self._holder(group, receipt)
        (result,) = self.world.settle(
            SettleAction.NACK, [receipt], group=group, delay_ms=delay_ms, policy=POLICY
        )
        assert result.code == ("" if body else "receipt_expired")
        if body is None:
            return
        flight = self.flying[group][body]
        if flight.attempt == POLICY.attempts_max:
            self._bury(group)
            assert body in self.dead[group]
            return
        backoff_ms = 100 if flight.attempt == 1 else 150
        wait_ms = backoff_ms if delay_ms is None else delay_ms
        flight.until_ms = self.world.clock.now_ms + wait_ms
        flight.receipt = None

    @rule(target=receipts, held=receipts, more_ms=times)
    def extend(self, held: Held, more_ms: int) -> MultipleResults[Held]:
        group, receipt = held
        body = self._holder(group, receipt)
        (result,) = self.world.settle(
            SettleAction.EXTEND, [receipt], group=group, delay_ms=more_ms
        )
        assert result.code == ("" if body else "receipt_expired")
        if body is None:
            nothing: list[Held] = []
            return multiple(*nothing)
        flight = self.flying[group][body]
        flight.until_ms = self.world.clock.now_ms + more_ms
        flight.receipt = result.receipt
        return multiple((group, result.receipt))

    @rule(held=receipts)
    def show_a_receipt_of_another_group(self, held: Held) -> None:
        group, receipt = held
        other = "b" if group == "a" else "a"
        (result,) = self.world.settle(SettleAction.ACK, [receipt], group=other)
        assert result.code == "receipt_of_another_group"

    @rule(ms=times)
    def wait(self, ms: int) -> None:
        self.world.clock.advance(ms)

    @rule(kept=st.booleans(), batches=st.integers(0, 5))
    def crash(self, kept: bool, batches: int) -> None:
        self.world.crash(lambda _: kept, batches)

    @rule()
    def flush(self) -> None:
        self.world.index.flush()

    @rule()
    def rebuild(self) -> None:
        live = self.world.contents()
        self.world.rebuild()
        assert self.world.contents() == live

    # --- what always holds --------------------------------------------------------

    @invariant()
    def every_message_is_somewhere(self) -> None:
        for group in GROUPS:
            found = [
                *self.pending[group],
                *self.flying[group],
                *self.done[group],
                *self.dead[group],
            ]
            assert sorted(found) == sorted(self.sent)
            described = self.world.consumers.describe(DescribeGroup(group, "orders"))
            assert described.in_flight == len(self.flying[group])

    def teardown(self) -> None:
        """At last everything comes out: nothing was lost."""
        if not hasattr(self, "world"):
            return
        for group in GROUPS:
            for _ in range(200):
                if not self.pending[group] and not self.flying[group]:
                    break
                self.world.clock.advance(1000)
                plan = self.world.pop(group=group, invisible_ms=500, policy=POLICY)
                self._bury(group)
                for message in plan.delivered:
                    body = body_of(message)
                    self.pending[group].discard(body)
                    self.flying[group].pop(body, None)
                    self.done[group].add(body)
                receipts = [message.receipt for message in plan.delivered]
                self.world.settle(SettleAction.ACK, receipts, group=group)
            assert not self.pending[group]
            assert not self.flying[group]
            assert self.done[group] | self.dead[group] == set(self.sent)


def body_of(message: Delivered) -> bytes:
    return decode_record(message.record).body.rstrip()


TestPopMachine = PopMachine.TestCase
TestPopMachine.settings = settings(max_examples=60, stateful_step_count=40)

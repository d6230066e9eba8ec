"""Ordered groups against a plain model: nothing lost, and every key in its order.

For each key of a queue the model has the messages that the group is not done with, in
order. Only the first of them may come, when nobody else has it. The store may be
restarted, crash or lose its index at any step; the group may be popped unordered too,
and then what is out is known, and holds back what comes later.
"""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.unit.core_store_world import World

from halfpast_core_store.broker import Delivered, GroupPolicy, SettleAction
from halfpast_core_store.errors import UnknownTopic
from halfpast_core_store.record import decode_record

POLICY = GroupPolicy(
    attempts_max=3, backoff_initial_ms=100, backoff_max_ms=150, ordered=True
)
FREE = GroupPolicy(attempts_max=3, backoff_initial_ms=100, backoff_max_ms=150)
times = st.integers(0, 400)
hidden = times.filter(bool)
Line = tuple[int, bytes]  # queue and key


@dataclass
class Message:
    """One that the group is not done with."""

    body: bytes
    line: Line
    until_ms: int = 0  # nobody gets it before that
    attempt: int = 0
    receipt: bytes | None = None


class OrderMachine(RuleBasedStateMachine):
    """The store under test, and what the model says of one group."""

    @initialize(queue_count=st.integers(1, 2))
    def begin(self, queue_count: int) -> None:
        self.queue_count = queue_count
        self.world = World()
        self.world.topic("orders", queue_count)
        self.sent = 0
        self.lines: dict[Line, list[Message]] = {}
        self.was_free = False

    def _open(self) -> list[Message]:
        return [message for line in self.lines.values() for message in line]

    def _held(self) -> list[Message]:
        return [message for message in self._open() if message.receipt is not None]

    # --- what happens -----------------------------------------------------------

    @rule(
        queue=st.integers(0, 1), keys=st.lists(st.sampled_from((b"", b"a", b"b", b"c")))
    )
    def publish(self, queue: int, keys: list[bytes]) -> None:
        queue %= self.queue_count
        for key in keys:
            body = b"%d" % self.sent
            self.sent += 1
            self.world.publish([body], queue=queue, key=key)
            line = (queue, key or b"-" + body)
            self.lines.setdefault(line, []).append(Message(body, line))

    @rule(count=st.integers(1, 5), invisible_ms=hidden)
    def pop(self, count: int, invisible_ms: int) -> None:
        now_ms = self.world.clock.now_ms
        plan = self.world.pop(count=count, invisible_ms=invisible_ms, policy=POLICY)
        self._bury()
        for delivered in plan.delivered:
            body = decode_record(delivered.record).body
            key = decode_record(delivered.record).key
            line = self.lines[delivered.queue, key or b"-" + body]
            assert line[0].body == body, "out of order"
            others = [it for it in line[1:] if it.until_ms > now_ms and it.receipt]
            assert not others, "two of a key are out"
            self._take(line[0], delivered, now_ms, invisible_ms)
        if len(plan.delivered) < count:
            self._check_nothing_was_left(now_ms)

    def _take(
        self, message: Message, delivered: Delivered, now_ms: int, invisible_ms: int
    ) -> None:
        assert message.until_ms <= now_ms, "delivered while hidden"
        assert delivered.attempt == message.attempt + 1
        message.attempt = delivered.attempt
        message.until_ms = now_ms + invisible_ms
        message.receipt = delivered.receipt

    def _check_nothing_was_left(self, now_ms: int) -> None:
        """The pop had room for more."""
        for line in self.lines.values():
            others = [it for it in line[1:] if it.until_ms > now_ms and it.receipt]
            if line and not others:
                assert line[0].until_ms >= now_ms or self.buried, line[0]

    def _bury(self) -> None:
        """Take over what the store says has died, having checked that it may have."""
        self.buried = False
        try:
            letters = self.world.pop(group="dead", topic="%DLQ%readers").delivered
        except UnknownTopic:
            return
        by_body = {message.body: message for message in self._open()}
        for letter in letters:
            self.buried = True
            message = by_body[decode_record(letter.record).body]
            assert message.attempt == POLICY.attempts_max
            self._done(message)
        receipts = [letter.receipt for letter in letters]
        self.world.settle(SettleAction.ACK, receipts, group="dead")

    def _done(self, message: Message) -> None:
        self.lines[message.line].remove(message)

    @rule(count=st.integers(1, 5), invisible_ms=hidden)
    def pop_unordered(self, count: int, invisible_ms: int) -> None:
        now_ms = self.world.clock.now_ms
        plan = self.world.pop(count=count, invisible_ms=invisible_ms, policy=FREE)
        self._bury()
        by_body = {message.body: message for message in self._open()}
        for delivered in plan.delivered:
            message = by_body[decode_record(delivered.record).body]
            self._take(message, delivered, now_ms, invisible_ms)

    @precondition(lambda self: self._held())
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self._held()))
        assert message.receipt is not None
        (result,) = self.world.settle(SettleAction.ACK, [message.receipt])
        assert result.code == ""
        self._done(message)

    @precondition(lambda self: self._held())
    @rule(data=st.data(), delay_ms=st.none() | times)
    def refuse(self, data: st.DataObject, delay_ms: int | None) -> None:
        message = data.draw(st.sampled_from(self._held()))
        assert message.receipt is not None
        (result,) = self.world.settle(
            SettleAction.NACK, [message.receipt], delay_ms=delay_ms, policy=POLICY
        )
        assert result.code == ""
        if message.attempt == POLICY.attempts_max:
            self._bury()
            assert message not in self._open()
            return
        backoff_ms = 100 if message.attempt == 1 else 150
        wait_ms = backoff_ms if delay_ms is None else delay_ms
        message.until_ms = self.world.clock.now_ms + wait_ms
        message.receipt = None

    @precondition(lambda self: self._held())
    @rule(data=st.data(), more_ms=times)
    def extend(self, data: st.DataObject, more_ms: int) -> None:
        message = data.draw(st.sampled_from(self._held()))
        assert message.receipt is not None
        (result,) = self.world.settle(
            SettleAction.EXTEND, [message.receipt], delay_ms=more_ms
        )
        assert result.code == ""
        message.until_ms = self.world.clock.now_ms + more_ms
        message.receipt = result.receipt

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

    def teardown(self) -> None:
        """At last everything comes out, line by line."""
        if not hasattr(self, "world"):
            return
        for _ in range(self.sent + 5):
            if not self._open():
                return
            self.world.clock.advance(1000)
            self.pop(5, 500)
            for message in self._held():
                if message.until_ms > self.world.clock.now_ms:
                    assert message.receipt is not None
                    self.world.settle(SettleAction.ACK, [message.receipt])
                    self._done(message)
        assert not self._open(), "never delivered"


TestOrderMachine = OrderMachine.TestCase
TestOrderMachine.settings = settings(max_examples=60, stateful_step_count=40)

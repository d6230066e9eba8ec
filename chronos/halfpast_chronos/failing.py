"""Events that their topic does not take: tried again, then dead, perhaps redriven.

    due --> taken: FIRED                          delivered
         \\-> not taken: FAILED, tried again later, and so on
                     \\-> for the last time: DEAD  kept with the reason
                                                    \\-> REDRIVEN: due again

What an event waits for next is in its FAILED record, so the log tells it all. The
message keeps its due time; its timer is due when it is tried again, and tells in
`attempt` how often it has not been taken.
"""

from collections.abc import Sequence

from halfpast_core_store.record import (
    HEADER_SIZE,
    Record,
    RecordKind,
    encode_record,
    with_attempt,
    with_kind,
    with_time,
)

from . import keys
from .config import ChronosConfig
from .delay_server import EventState, Happening
from .event_state import StoredEvent
from .projection import Step, TimerProjection
from .topic_controls import OPEN, TopicControl

REASON_SIZE_MAX = 200
COUNT_MAX = 1_000  # so many of one topic are counted on demand


class Failing:
    """What the core does with them."""

    def __init__(self, core: TimerProjection, config: ChronosConfig) -> None:
        self._core = core
        self._config = config
        self._strict: dict[int, TopicControl] = {}
        """Topics that do not take everything."""
        self._refused: dict[bytes, str] = {}
        """Timers that the broker did not take, and why."""
        self.failed_count = 0
        self.dead_count = 0
        self.redriven_count = 0
        core.appliers[RecordKind.FAILED] = self._apply_failed
        core.appliers[RecordKind.DEAD] = self._apply_dead
        core.appliers[RecordKind.REDRIVEN] = self._apply_redriven

    # --- firing -------------------------------------------------------------------

    def control(self, topic_id: int, control: TopicControl) -> None:
        """From now on the topic takes this."""
        if control.closed or control.body_size_max < OPEN.body_size_max:
            self._strict[topic_id] = control
        else:
            self._strict.pop(topic_id, None)

    def closed(self, topic_id: int) -> bool:
        """Whether the topic takes nothing."""
        control = self._strict.get(topic_id)
        return control is not None and bool(control.closed)

    def refuse(self, timer: bytes, reason: str) -> None:
        """The broker does not take the message of this timer."""
        self._refused[timer] = reason

    @property
    def may_fail(self) -> bool:
        """Whether anything is not to be sent now."""
        return bool(self._refused or self._strict)

    def why_not(self, timer: bytes, head: Sequence[int]) -> str:
        """Why this message is not to be sent now; empty if it is."""
        if self._refused and (reason := self._refused.pop(timer, "")):
            return reason
        control = self._strict.get(head[4])
        if control is None:
            return ""
        if control.closed:
            return control.closed
        size = head[0] - HEADER_SIZE - head[11] - head[12] - head[13]
        if size > control.body_size_max:
            return (
                f"body_too_large: the body takes {size} bytes, and the topic's "
                f"max_body_bytes is {control.body_size_max}"
            )
        return ""

    def record(self, head: Sequence[int], event_id: bytes, reason: str) -> bytes:
        """The record that says so, with the next time if it is not the last one."""
        attempt = head[3] + 1
        now_ms = self._core.now_ms()
        is_last = attempt >= self._config.attempts_max
        return encode_record(
            RecordKind.DEAD if is_last else RecordKind.FAILED,
            topic_id=head[4],
            event_id=event_id,
            born_ms=now_ms,
            due_ms=0 if is_last else now_ms + self._retry_ms(attempt),
            attempt=attempt,
            version=head[10] or 1,
            body=reason.encode()[:REASON_SIZE_MAX],
        )

    def _retry_ms(self, attempt: int) -> int:
        config = self._config
        doubled: int = config.retry_initial_ms << min(attempt - 1, 40)
        return min(doubled, config.retry_max_ms)

    # --- applying -----------------------------------------------------------------

    def _apply_failed(self, step: Step, record: Record, _: bytes) -> None:
        event = self._begin(step, record)
        if event is None:
            return
        old = keys.timer(event.topic_id, event.timer_ms, record.event_id)
        new = keys.timer(event.topic_id, record.due_ms, record.event_id)
        content = self._core.index.get(old)
        assert content is not None, "a pending event has a timer"
        content = with_attempt(content, record.attempt)
        self._core.drop_timer(step.batch, old)
        step.batch.put(new, content)
        step.fresh.add(new, content)
        step.batch.put(keys.retried(event.topic_id, record.event_id), b"")
        event.attempts = record.attempt
        event.retry_ms = record.due_ms
        event.reason = record.body.decode(errors="replace")
        event.happened(step.stored_ms, Happening.FAILED)
        step.batch.put(keys.event(record.event_id), event.encode())
        self.failed_count += 1

    def _apply_dead(self, step: Step, record: Record, _: bytes) -> None:
        event = self._begin(step, record)
        if event is None:
            return
        timer = keys.timer(event.topic_id, event.timer_ms, record.event_id)
        content = self._core.index.get(timer)
        assert content is not None, "a pending event has a timer"
        self._core.drop_timer(step.batch, timer)
        event.attempts = record.attempt
        event.reason = record.body.decode(errors="replace")
        event.finish(EventState.DEAD, step.stored_ms, Happening.DEAD)
        dead = keys.dead(event.topic_id, event.finished_ms, record.event_id)
        step.batch.put(dead, content)
        step.batch.delete(keys.retried(event.topic_id, record.event_id))
        if event.key:
            by_key = keys.by_key(event.topic_id, event.key, record.event_id)
            step.batch.delete(by_key)
        step.batch.put(keys.event(record.event_id), event.encode())
        self.dead_count += 1

    def _begin(self, step: Step, record: Record) -> StoredEvent | None:
        """The event that was not taken; None if this has been applied before."""
        self._core.unclaim(record.event_id, step.released)
        event = self._core.event(record.event_id)
        if event is None or not event.pending or event.version != record.version:
            return None
        return event if event.attempts == record.attempt - 1 else None

    def _apply_redriven(self, step: Step, record: Record, _: bytes) -> None:
        event_id = record.event_id
        self._core.unclaim(event_id, step.released)
        event = self._core.event(event_id)
        if event is None or event.state != EventState.DEAD:
            return
        dead = keys.dead(event.topic_id, event.finished_ms, event_id)
        content = self._core.index.get(dead)
        assert content is not None, "a dead event is kept"
        step.batch.delete(dead)
        content = with_attempt(with_kind(content, RecordKind.SCHEDULE), 0)
        content = with_time(content, record.due_ms, record.version)
        timer = keys.timer(event.topic_id, record.due_ms, event_id)
        step.batch.put(timer, content)
        step.fresh.add(timer, content)
        if event.key:
            by_key = keys.by_key(event.topic_id, event.key, event_id)
            step.batch.put(by_key, keys.U64.pack(record.due_ms))
        event.state = EventState.SCHEDULED
        event.due_ms, event.version = record.due_ms, record.version
        event.finished_ms = 0
        event.begin_anew()
        event.happened(step.stored_ms, Happening.REDRIVEN)
        step.batch.put(keys.event(event_id), event.encode())
        self.redriven_count += 1

    # --- questions ----------------------------------------------------------------

    def record_of(self, event_id: bytes, event: StoredEvent) -> bytes | None:
        """The message of a dead event."""
        dead = keys.dead(event.topic_id, event.finished_ms, event_id)
        return self._core.index.get(dead)

    def retrying(self, topic_id: int) -> int:
        """How many events of a topic are tried again, at most COUNT_MAX."""
        start, end = keys.retried_range(topic_id)
        return len(self._core.index.scan_keys(start, end, COUNT_MAX))

    def dead(self, topic_id: int) -> int:
        """How many events of a topic are dead, at most COUNT_MAX."""
        start, end = keys.dead_range(topic_id)
        return len(self._core.index.scan_keys(start, end, COUNT_MAX))

    def counters(self) -> dict[str, float]:
        """Counts since the start, as the metrics show them."""
        return {
            "failed_attempts_total": self.failed_count + self.dead_count,
            "dead_total": self.dead_count,
            "redriven_total": self.redriven_count,
        }

"""The counts of what is due: always what the index holds, once they say so."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.unit.chronos_line import START_MS, TOPIC, Line, event_id, schedule_record

from halfpast_chronos import due_counts, due_query, keys, recount, topic_counts
from halfpast_chronos.decisions import Command, decide_cancel, decide_reschedule
from halfpast_chronos.delay_server import Cancel, Reschedule
from halfpast_chronos.due_query import DueQuery
from halfpast_chronos.recount import Recount, Split
from halfpast_chronos.topic_counts import DAY_MS, HOUR_MS, MINUTE_MS, TopicCounts

TOPICS = (TOPIC, TOPIC + 1)
EVER_MS = 2**62
SPREADS_MS = st.sampled_from([0, 1, 900, MINUTE_MS, HOUR_MS, DAY_MS, 40 * DAY_MS])
BUCKETS_MS = st.sampled_from([1_000, MINUTE_MS, HOUR_MS, DAY_MS])


@pytest.fixture
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are split when there are few, and slices are tiny."""
    for module in (topic_counts, recount):
        monkeypatch.setattr(module, "SPLIT_COUNT", 6)
        monkeypatch.setattr(module, "MERGE_COUNT", 3)
    monkeypatch.setattr(due_counts, "SLICE_COUNT", 4)
    monkeypatch.setattr(due_query, "SCAN_COUNT", 3)


def ask(
    line: Line,
    start_ms: int = 0,
    end_ms: int = EVER_MS,
    bucket_ms: int = EVER_MS,
    topic_ids: tuple[int, ...] = TOPICS,
    cost_max: int = due_query.COST_MAX,
) -> DueQuery:
    """A question answered to its end."""
    core = line.core
    query = DueQuery(
        core.index, core.due_counts, list(topic_ids), start_ms, end_ms, bucket_ms
    )
    query.cost_max = cost_max
    while query.step():
        pass
    return query


def dues(line: Line, topic_id: int) -> list[int]:
    """What the index holds."""
    prefix = keys.timer_prefix(topic_id)
    found = line.index.scan_keys(prefix, keys.timer_prefix(topic_id + 1), 100_000)
    return [keys.timer_due_ms(key) for key in found]


def count_all(line: Line) -> None:
    while line.core.due_counts.step():
        pass


class CountMachine(RuleBasedStateMachine):
    """Timers come and go, processes too; the counts are compared with the index."""

    @initialize()
    def start(self) -> None:
        self.line = Line()
        self.numbers = 0

    @rule(count=st.integers(1, 30), spread=SPREADS_MS, topic=st.sampled_from(TOPICS))
    def schedule(self, count: int, spread: int, topic: int) -> None:
        records: list[bytes] = []
        for n in range(count):
            self.numbers += 1
            due_ms = self.line.now_ms + 500 + n * spread
            records.append(schedule_record(self.numbers, due_ms, topic_id=topic))
        self.line.append_records(records)
        self.line.follow()

    @precondition(lambda self: self.numbers > 0)
    @rule(data=st.data(), ms=SPREADS_MS, cancels=st.booleans())
    def decide(self, data: st.DataObject, ms: int, cancels: bool) -> None:
        number = event_id(data.draw(st.integers(1, self.numbers)))
        core, now_ms = self.line.core, self.line.now_ms
        event = core.event(number)
        if event is None or not event.pending:
            return
        decision: object = decide_cancel(core, Cancel(number))
        if not cancels:
            core.claims.clear()
            decision = decide_reschedule(core, Reschedule(number, now_ms + ms))
        assert isinstance(decision, Command)
        self.line.see_through(decision)

    @rule(ms=SPREADS_MS)
    def time_passes(self, ms: int) -> None:
        self.line.clock.advance(ms)
        self.line.fire_all()

    @rule(times=st.integers(1, 10))
    def work(self, times: int) -> None:
        for _ in range(times):
            self.line.core.due_counts.step()

    @rule()
    def flush(self) -> None:
        self.line.core.save_position()
        self.line.index.flush()

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.line.crash(data.draw(st.integers(0, self.line.index.batches_at_risk)))

    @rule(bucket=BUCKETS_MS, first=st.integers(-3, 30), length=st.integers(1, 60))
    def ask(self, bucket: int, first: int, length: int) -> None:
        start_ms = self.line.now_ms // bucket * bucket + first * bucket
        end_ms = start_ms + length * bucket
        for topic in TOPICS:
            query = ask(self.line, start_ms, end_ms, bucket, (topic,))
            if query.is_exact:
                due = [ms for ms in dues(self.line, topic) if start_ms <= ms < end_ms]
                assert query.buckets == Counter(ms // bucket for ms in due)

    @rule(first=st.integers(-2_000, 2_000), length=st.integers(1, 10**7))
    def ask_for_odd_times(self, first: int, length: int) -> None:
        start_ms = self.line.now_ms + first
        query = ask(self.line, start_ms, start_ms + length)
        if query.is_exact:
            due = [ms for topic in TOPICS for ms in dues(self.line, topic)]
            wanted = sum(start_ms <= ms < start_ms + length for ms in due)
            assert query.total() == wanted

    @invariant()
    def totals_are_true(self) -> None:
        if not hasattr(self, "line"):
            return
        counts = self.line.core.due_counts
        for topic in TOPICS:
            if counts.is_exact_of(topic):
                assert counts.pending(topic) == len(dues(self.line, topic))

    def teardown(self) -> None:
        if not hasattr(self, "line"):
            return
        count_all(self.line)
        assert self.line.core.due_counts.is_exact
        self.totals_are_true()
        self.ask(1_000, -3, 60)


@pytest.mark.usefixtures("fine")
def test_the_counts_agree_with_the_index() -> None:
    run_state_machine_as_test(
        CountMachine, settings=settings(max_examples=60, stateful_step_count=40)
    )


def test_a_clean_end_leaves_exact_counts() -> None:
    line = Line()
    for number in range(20):
        line.schedule(number, START_MS + 1000 * number)
    line.core.save_position()
    line.index.flush()
    line.crash(0)
    assert line.core.due_counts.is_exact
    assert line.core.due_counts.pending(TOPIC) == 20
    assert ask(line, 0, START_MS + 5000).total() == 5


def test_changes_after_the_last_flush_make_the_counts_doubtful() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.core.save_position()
    line.index.flush()
    line.schedule(2, START_MS)
    line.crash(line.index.batches_at_risk)
    assert not line.core.due_counts.is_exact
    assert not ask(line).is_exact
    count_all(line)
    query = ask(line)
    assert query.is_exact
    assert query.total() == 2


def test_a_frame_applied_in_part_is_not_counted_twice() -> None:
    line = Line()
    records = [schedule_record(n, START_MS) for n in range(10)]
    line.append_records(records)
    line.core.apply_slice(line.frames[0], 0, 5)
    line.core.save_position()
    line.index.flush()
    line.crash(0)
    count_all(line)
    assert line.core.due_counts.pending(TOPIC) == 10


def test_what_is_not_counted_finely_is_guessed_beyond_a_bound() -> None:
    line = Line()
    records = [schedule_record(n, START_MS + 1000 * n) for n in range(400)]
    line.append_records(records)
    line.follow()
    topic = (TOPIC,)
    query = ask(line, START_MS, START_MS + 400_000, 1000, topic, cost_max=100)
    assert not query.is_exact
    assert 200 <= query.total() <= 800
    assert ask(line, START_MS, START_MS + 50_000, 1000, topic).is_exact


def test_memory_is_bounded_by_the_number_of_timers() -> None:
    counts = TopicCounts()
    for n in range(20_000):
        counts.add(START_MS + n * DAY_MS, 1)
    assert sum(map(len, counts.pages)) == 0
    assert len(counts.stretches) <= 20_000 // 32 + 1


def test_emptied_topics_are_forgotten() -> None:
    line = Line()
    line.schedule(1, START_MS)
    line.core.save_position()
    assert line.index.scan(b"C", b"D", 10)
    line.fire_all()
    line.core.save_position()
    assert not line.index.scan(b"C", b"D", 10)
    assert line.core.due_counts.topic_ids() == []


@pytest.mark.parametrize("made", ["split", "recount"])
def test_what_changes_while_it_is_counted_is_counted_once(made: str) -> None:
    """Before the cursor, at it, and behind it: some come, some go."""
    line = Line()
    for n in range(0, 40, 2):
        line.schedule(n, START_MS + 1000 * n)
    stretch = (0, START_MS // topic_counts.STRETCH_MS)
    job: Split | Recount = Split(TOPIC, stretch) if made == "split" else Recount(TOPIC)
    assert job.step(line.index, 10)
    changes = [(n, 1) for n in range(1, 40, 6)] + [(n, -1) for n in range(0, 40, 8)]
    batch = line.index.batch()
    for n, change in changes:
        key = keys.timer(TOPIC, START_MS + 1000 * n, event_id(n))
        job.change(key, START_MS + 1000 * n, change)
        batch.put(key, b"") if change > 0 else batch.delete(key)
    line.index.write(batch)
    while job.step(line.index, 3):
        pass
    counts = TopicCounts()
    left = dues(line, TOPIC)
    counts.stretches[stretch[1]] = counts.total = 1000
    found = job.finish(counts)
    days = Counter(ms // DAY_MS for ms in left)
    assert {n: found.count_at(1, n) for n in days} == (
        days if made == "split" else dict.fromkeys(days, 0)
    )
    if made == "recount":
        assert found.total == len(left)

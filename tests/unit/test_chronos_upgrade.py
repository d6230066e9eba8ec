"""An index of the first layout, with timers stored by due time alone, is taken over."""

import pytest
from tests.unit.chronos_line import START_MS, TOPIC, Line, event_id, schedule_record

from halfpast_chronos import keys
from halfpast_chronos.core import DelayCore
from halfpast_chronos.upgrade import SLICE_COUNT, upgrade
from halfpast_core_store.errors import NewerFormat
from halfpast_core_store.memory_index import MemoryIndex

OTHER = TOPIC + 5


def old_index(count: int) -> tuple[MemoryIndex, dict[bytes, bytes]]:
    """An index as the first release left it, and the timers that it holds, as they
    are to be stored."""
    line = Line()
    for number in range(count):
        topic = OTHER if number % 3 == 0 else TOPIC
        line.schedule(number, START_MS + number % 50, topic_id=topic, key=b"k")
    wanted = {k: v for k, v in line.index.contents().items() if k[:1] == b"T"}
    batch = line.index.batch()
    for key, record in wanted.items():
        batch.delete(key)
        batch.put(keys.fired_entry(key), record)
    for key in line.index.contents():
        if key[:1] == b"M" and key != keys.APPLIED:
            batch.delete(key)
    line.index.write(batch)
    line.index.flush()
    return line.index, wanted


def timers(index: MemoryIndex) -> dict[bytes, bytes]:
    return {k: v for k, v in index.contents().items() if k[:1] == b"T"}


@pytest.mark.parametrize("count", [0, 1, 7, SLICE_COUNT, SLICE_COUNT + 1])
def test_timers_get_their_topic_into_their_keys(count: int) -> None:
    index, wanted = old_index(count)
    upgrade(index)
    assert timers(index) == wanted
    assert index.get(keys.FORMAT) == keys.FORMAT_NOW


def test_an_upgrade_is_done_once() -> None:
    index, _ = old_index(7)
    upgrade(index)
    before = index.batches_at_risk
    upgrade(index)
    assert index.batches_at_risk == before


@pytest.mark.parametrize("kept", range(5))
def test_an_upgrade_that_was_cut_off_is_done_at_the_next_start(kept: int) -> None:
    index, wanted = old_index(2 * SLICE_COUNT + 10)
    upgrade(index)
    survivor = index.crash(min(kept, index.batches_at_risk))
    upgrade(survivor)
    assert timers(survivor) == wanted


def test_all_timers_fire_after_an_upgrade() -> None:
    line = Line()
    line.index, _ = old_index(100)
    line.core = DelayCore(line.index, line.clock, line.config)
    assert line.core.horizon.prefixes() == [
        keys.timer_prefix(TOPIC),
        keys.timer_prefix(OTHER),
    ]
    line.core.position = 0  # the log of this line is empty
    line.clock.advance(50)
    assert sorted(line.fire_all()) == list(range(100))


def test_a_timer_whose_due_time_looks_like_a_topic_is_told_by_its_length() -> None:
    index = MemoryIndex()
    record = schedule_record(1, 5)
    batch = index.batch()
    batch.put(b"T" + keys.BIG_U64.pack(5) + event_id(1), record)
    batch.put(keys.timer(0, 5, event_id(2)), record)
    index.write(batch)
    upgrade(index)
    assert set(timers(index)) == {
        keys.timer(TOPIC, 5, event_id(1)),
        keys.timer(0, 5, event_id(2)),
    }


def test_the_second_layout_is_taken_over_as_it_is() -> None:
    line = Line()
    line.schedule(1, START_MS + 5)
    batch = line.index.batch()
    batch.put(keys.FORMAT, b"\x02")
    line.index.write(batch)
    before = timers(line.index)
    upgrade(line.index)
    assert timers(line.index) == before
    assert line.index.get(keys.FORMAT) == keys.FORMAT_NOW


def test_a_later_layout_is_refused_and_left_alone() -> None:
    index = MemoryIndex()
    batch = index.batch()
    batch.put(keys.FORMAT, b"\x04")
    index.write(batch)
    with pytest.raises(NewerFormat):
        upgrade(index)
    assert index.contents() == {keys.FORMAT: b"\x04"}

"""Events to which nothing has happened are found by rows beside those of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.chronos_line import START_MS, TOPIC, Line, schedule_record

from halfpast_chronos import keys
from halfpast_chronos.delay_server import EventState, Happening
from halfpast_chronos.event_state import StoredEvent
from halfpast_chronos.event_states import EventStates, group_of
from halfpast_core_store.memory_index import MemoryIndex
from halfpast_core_store.record import HEADER

BLOCK = bytes.fromhex("0199d2f0c00070008000000000aa")
lows = st.integers(0, 300)


def id_of(low: int) -> bytes:
    return BLOCK + low.to_bytes(2, "big")


def number_of(low: int) -> int:
    return int.from_bytes(id_of(low), "big")


def timer_for(low: int) -> bytes:
    return keys.timer(TOPIC + low % 3, START_MS + 7 * low, id_of(low))


def enter(index: MemoryIndex, states: EventStates, some: list[int]) -> None:
    batch = index.batch()
    for low in some:
        record = schedule_record(
            number_of(low), START_MS + 7 * low, topic_id=TOPIC + low % 3
        )
        batch.put(timer_for(low), record)
    states.scheduled(batch, [timer_for(low) for low in some])
    index.write(batch)


def found_in(states: EventStates, some: list[int]) -> list[int | None]:
    found = states.get_many([id_of(low) for low in some])
    assert found == [states.get(id_of(low)) for low in some]
    return [None if event is None else event.due_ms for event in found]


@given(st.lists(st.lists(lows, min_size=1, unique=True), min_size=1), st.data())
def test_all_that_came_are_found_until_they_are_forgotten(
    slices: list[list[int]], data: st.DataObject
) -> None:
    index = MemoryIndex()
    states = EventStates(index)
    for some in slices:  # in any order, also once more
        enter(index, states, some)
    came = sorted({low for some in slices for low in some})
    asked = [*came, 301, 64, 65]
    dues = {low: START_MS + 7 * low for low in came}
    assert found_in(states, asked) == [dues.get(low) for low in asked]
    gone = data.draw(st.lists(st.sampled_from(came), unique=True))
    batch = index.batch()
    states.forget(batch, [id_of(low) for low in gone])
    index.write(batch)
    kept = [low for low in came if low not in gone]
    assert found_in(states, asked) == [
        dues[low] if low in kept else None for low in asked
    ]
    batch = index.batch()
    states.forget(batch, [id_of(low) for low in kept])
    index.write(batch)
    assert not index.scan(b"I", b"J", 1)


def test_a_request_with_one_event_is_entered_without_a_look() -> None:
    index = MemoryIndex()

    def refuse(keys: object) -> list[bytes | None]:
        raise AssertionError(keys)

    index.get_many = refuse  # type: ignore[method-assign]
    enter(index, EventStates(index), [0])
    assert EventStates(index).get(id_of(0)) is not None


def test_an_entry_of_its_own_counts_more_than_a_row() -> None:
    index = MemoryIndex()
    states = EventStates(index)
    enter(index, states, [5])
    event = states.get(id_of(5))
    assert event is not None
    event.finish(EventState.CANCELLED, START_MS, Happening.CANCELLED)
    batch = index.batch()
    batch.put(keys.event(id_of(5)), event.encode())
    index.write(batch)
    found = states.get(id_of(5))
    assert found is not None
    assert found.state == EventState.CANCELLED


@pytest.mark.parametrize("low", [0, 5])
def test_what_the_earlier_layout_kept_of_an_event_is_read(low: int) -> None:
    """There, each event had an entry in family E, and none in family I."""
    line = Line()
    line.schedule(number_of(low), START_MS + 50, key=b"k")
    index = line.index
    record = index.get(keys.timer(TOPIC, START_MS + 50, id_of(low)))
    assert record is not None
    event = StoredEvent.scheduled(HEADER.unpack_from(record), b"k")
    batch = index.batch()
    batch.put(keys.event(id_of(low)), event.encode())
    batch.delete(group_of(id_of(low)))
    index.write(batch)
    assert line.core.event(id_of(low)) == event

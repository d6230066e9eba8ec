"""What the index keeps of an event comes back as it went in."""

from hypothesis import given
from hypothesis import strategies as st

from halfpast_chronos.delay_server import EventState, Happening
from halfpast_chronos.event_state import (
    TIMELINE_MAX,
    StoredEvent,
    decode_event,
    encode_delivered,
)
from halfpast_core_store.record import (
    HEADER,
    RecordFlag,
    RecordKind,
    encode_record,
)

times = st.integers(0, 2**63)
keys = st.binary(max_size=512)
events = st.builds(
    StoredEvent,
    state=st.sampled_from(list(EventState)).map(int),
    version=st.integers(0, 2**32 - 1),
    due_ms=times,
    created_ms=times,
    topic_id=st.integers(0, 2**32 - 1),
    key=keys,
    upsert=st.booleans(),
    finished_ms=times,
    timeline=st.lists(
        st.tuples(times, st.sampled_from(list(Happening)).map(int)),
        max_size=TIMELINE_MAX,
    ),
)


@given(events)
def test_an_event_comes_back_as_it_went_in(event: StoredEvent) -> None:
    assert decode_event(event.encode()) == event


@given(times, times, times, keys, st.integers(0, 9), st.booleans())
def test_the_short_way_gives_the_same_bytes(
    born_ms: int, due_ms: int, stored_ms: int, key: bytes, version: int, upsert: bool
) -> None:
    data = encode_record(
        RecordKind.SCHEDULE,
        topic_id=1234,
        queue_id=3,
        event_id=bytes(range(16)),
        born_ms=born_ms,
        due_ms=due_ms,
        key=key,
        version=version,
        flags=RecordFlag.JSON | (RecordFlag.UPSERT if upsert else 0),
        body=b"body",
    )
    head = HEADER.unpack_from(data)
    event = StoredEvent.scheduled(head, key)
    assert event.version == (version or 1)
    assert event.upsert == upsert
    event.finish(EventState.DELIVERED, stored_ms, Happening.DELIVERED)
    assert encode_delivered(head, key, stored_ms) == event.encode()


def test_a_long_time_line_keeps_its_beginning_and_its_end() -> None:
    event = StoredEvent(EventState.SCHEDULED, 1, 0, 0, 1)
    for at_ms in range(1000):
        event.happened(at_ms, Happening.RESCHEDULED)
    assert len(event.timeline) == TIMELINE_MAX
    assert [at for at, _ in event.timeline[:3]] == [0, 1, 2]
    assert event.timeline[-1][0] == 999
    assert decode_event(event.encode()) == event


def test_lateness_is_told_of_delivered_events_only() -> None:
    event = StoredEvent(EventState.SCHEDULED, 1, 1000, 0, 1)
    assert event.public(bytes(16), None).lateness_ms == 0
    event.finish(EventState.DELIVERED, 1007, Happening.DELIVERED)
    assert event.public(bytes(16), None).lateness_ms == 7
    other = StoredEvent(EventState.SCHEDULED, 1, 1000, 0, 1)
    other.finish(EventState.CANCELLED, 1007, Happening.CANCELLED)
    assert other.public(bytes(16), None).lateness_ms == 0


def test_a_time_line_given_out_is_a_copy() -> None:
    event = StoredEvent(EventState.SCHEDULED, 1, 1000, 0, 1, timeline=[(1, 1)])
    shown = event.public(bytes(16), None)
    event.happened(2, Happening.RESCHEDULED)
    assert shown.timeline == [(1, 1)]

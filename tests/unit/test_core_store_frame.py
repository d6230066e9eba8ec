"""Frames: laid out, sealed, read back, and never believed when damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_core_store.frame import (
    ALIGNMENT,
    CHUNK_SIZE,
    FLAG_END,
    HEADER_SIZE,
    RUN_SIZE,
    draft_frame,
    frame_length,
    join_in_chunks,
    peek_header,
    read_runs,
    records_of,
    seal_frame,
    verify_frame,
)
from halfpast_core_store.record import RecordKind, encode_record

SALT = 77
POSITION = 4096

bodies = st.lists(st.binary(max_size=40), max_size=5)
runs = st.lists(
    st.tuples(
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**16 - 1),
        st.integers(0, 2**64 - 1),
        bodies.map(lambda bs: [encode_record(RecordKind.NORMAL, body=b) for b in bs]),
    ),
    max_size=4,
)
Runs = list[tuple[int, int, int, list[bytes]]]


def frame_of(given: Runs, *, position: int = POSITION, flags: int = 5) -> bytes:
    draft = draft_frame(given, position=position, stored_ms=99, epoch=3, flags=flags)
    frame = b"".join(seal_frame(draft, SALT))
    assert draft.end == position + len(frame)
    return frame


@given(runs)
def test_what_goes_in_comes_out(given: Runs) -> None:
    frame = frame_of(given)
    header = verify_frame(frame, POSITION, SALT)
    assert header is not None
    assert (header.stored_ms, header.epoch, header.flags) == (99, 3, 5)
    assert header.record_count == sum(len(records) for *_, records in given)
    placed = read_runs(frame, header)
    found = [
        (r.topic_id, r.queue_id, r.base_offset, records_of(frame, r)) for r in placed
    ]
    assert found == given


@given(runs)
def test_the_draft_knows_where_records_will_lie(given: Runs) -> None:
    draft = draft_frame(given, position=0, stored_ms=0, epoch=0, flags=0)
    frame = b"".join(seal_frame(draft, SALT))
    assert [list(r.starts) for r in draft.runs] == [
        list(r.starts) for r in read_runs(frame, draft.header)
    ]


@given(runs)
def test_frames_are_aligned_and_their_length_is_known_before(given: Runs) -> None:
    size = sum(len(record) for *_, records in given for record in records)
    frame = frame_of(given)
    assert len(frame) == frame_length(len(given), size)
    assert len(frame) % ALIGNMENT == 0


@given(runs, st.data())
def test_any_flipped_bit_is_found(given: Runs, data: st.DataObject) -> None:
    frame = bytearray(frame_of(given))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    assert verify_frame(bytes(frame), POSITION, SALT) is None


@given(runs, st.data())
def test_a_frame_that_was_cut_short_is_found(given: Runs, data: st.DataObject) -> None:
    frame = frame_of(given)
    left = data.draw(st.integers(0, len(frame) - 1))
    assert verify_frame(frame[:left], POSITION, SALT) is None
    torn = frame[:left] + bytes(len(frame) - left)
    if torn != frame:  # the last bytes may be zeroes anyway
        assert verify_frame(torn, POSITION, SALT) is None


def test_a_frame_that_was_copied_elsewhere_does_not_pass() -> None:
    assert verify_frame(frame_of([]), POSITION + ALIGNMENT, SALT) is None


def test_a_frame_of_another_store_does_not_pass() -> None:
    assert verify_frame(frame_of([]), POSITION, SALT + 1) is None


def test_zeroes_are_no_frame() -> None:
    assert peek_header(bytes(HEADER_SIZE)) is None
    assert verify_frame(bytes(HEADER_SIZE), 0, SALT) is None


@pytest.mark.parametrize("size", range(HEADER_SIZE))
def test_less_than_a_header_is_no_frame(size: int) -> None:
    assert peek_header(frame_of([])[:size]) is None


def test_an_end_frame_is_a_header_alone() -> None:
    frame = frame_of([], flags=FLAG_END)
    assert len(frame) == HEADER_SIZE
    header = verify_frame(frame, POSITION, SALT)
    assert header is not None
    assert header.flags & FLAG_END
    assert read_runs(frame, header) == []


def test_a_run_without_records_takes_a_directory_entry_only() -> None:
    assert len(frame_of([(1024, 0, 0, [])])) == HEADER_SIZE + RUN_SIZE


@given(st.lists(st.binary(max_size=9), max_size=30))
def test_joining_loses_nothing(parts: list[bytes]) -> None:
    assert b"".join(join_in_chunks(parts)) == b"".join(parts)


def test_small_pieces_are_joined_and_large_ones_left_alone() -> None:
    large = bytes(CHUNK_SIZE)
    assert [len(c) for c in join_in_chunks([large, b"a", b"b", large])] == [
        CHUNK_SIZE,
        CHUNK_SIZE + 2,
    ]

"""The mark that tells readers from outside how far the log is durable."""

from hypothesis import given
from hypothesis import strategies as st

from halfpast_core_store.durable_mark import (
    MARK,
    DurableMark,
    decode_mark,
    encode_mark,
)

numbers = st.integers(0, 2**64 - 1)
salts = st.integers(0, 2**32 - 1)


@given(numbers, numbers, salts)
def test_a_mark_comes_back(position: int, as_of_ms: int, salt: int) -> None:
    mark = DurableMark(position, as_of_ms)
    assert decode_mark(encode_mark(mark, salt), salt) == mark


@given(numbers, numbers, salts, st.integers(0, 8 * MARK.size - 1))
def test_a_flipped_bit_makes_it_none(
    position: int, as_of_ms: int, salt: int, bit: int
) -> None:
    data = bytearray(encode_mark(DurableMark(position, as_of_ms), salt))
    data[bit // 8] ^= 1 << bit % 8
    assert decode_mark(bytes(data), salt) is None


@given(numbers, salts, salts, st.integers(0, MARK.size - 1))
def test_another_stores_or_a_torn_mark_is_none(
    position: int, salt: int, other: int, size: int
) -> None:
    data = encode_mark(DurableMark(position, 1), salt)
    assert decode_mark(data[:size], salt) is None
    if other != salt:
        assert decode_mark(data, other) is None
    assert decode_mark(bytes(MARK.size), salt) is None

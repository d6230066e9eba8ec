"""Lines of bounded length, and where each of them ends."""

import io
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.transfer.errors import WrongFormat
from halfpast_api.transfer.line import Line, Position
from halfpast_api.transfer.ndjson_lines import NdjsonLines

LIMIT = 40


def lines_of(content: bytes, start: Position | None = None) -> list[Line]:
    source = NdjsonLines(
        io.BytesIO(content), len(content), name="f", line_size_max=LIMIT
    )
    return list(source.lines(start or Position()))


def test_lines_have_numbers_and_ends() -> None:
    lines = lines_of(b'{"a":1}\n\n{"b":2}\r\n{"c":3}')
    assert [(it.number, it.end, it.raw.strip()) for it in lines] == [
        (1, 8, b'{"a":1}'),
        (2, 9, b""),
        (3, 18, b'{"b":2}'),
        (4, 25, b'{"c":3}'),
    ]


def test_a_long_line_is_told_and_passed_over() -> None:
    long = b"x" * 3_000_000
    lines = lines_of(b"1\n" + long + b"\n2\n" + long)
    assert [it.number for it in lines] == [1, 2, 3, 4]
    assert [it.raw.strip() for it in (lines[0], lines[2])] == [b"1", b"2"]
    assert "3000001 bytes" in lines[1].fault
    assert "3000000 bytes" in lines[3].fault
    assert len(lines[1].raw) < 1000
    assert lines[3].end == 2 * 3_000_000 + 5


def test_the_limit_is_for_the_line_without_its_end() -> None:
    (fits,) = lines_of(b"x" * LIMIT + b"\n")
    assert not fits.fault
    (last,) = lines_of(b"x" * LIMIT)
    assert not last.fault
    (long,) = lines_of(b"x" * (LIMIT + 1) + b"\n")
    assert long.fault


@given(
    st.lists(st.binary(max_size=2 * LIMIT).map(lambda it: it.replace(b"\n", b""))),
    st.data(),
)
def test_reading_goes_on_at_any_line(rows: list[bytes], data: st.DataObject) -> None:
    content = b"\n".join([b"{}", *rows])
    lines = lines_of(content)
    assert lines[-1].end == len(content)
    at = data.draw(st.integers(0, len(lines) - 1))
    before = lines[at]
    assert lines_of(content, Position(before.end, before.number)) == lines[at + 1 :]


def test_what_is_appended_later_is_left_alone() -> None:
    source = NdjsonLines(io.BytesIO(b"1\n2\n3\n"), 4, name="f")
    assert [it.raw for it in source.lines(Position())] == [b"1\n", b"2\n"]


@pytest.mark.parametrize(
    "content",
    [b"PAR1\x15\x04", b"\n [\n{}]", b"[{}]", "{}".encode("utf-16"), b"a\0b"],
)
def test_other_files_are_recognised(content: bytes) -> None:
    content = content.lstrip(b"\n")
    with pytest.raises(WrongFormat) as caught:
        lines_of(content)
    assert caught.value.hint


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    (line,) = lines_of(b"\xef\xbb\xbf{}")
    assert (line.raw, line.end) == (b"{}", 5)


def test_a_pipe_that_brings_nothing_can_be_stopped() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb", buffering=0) as file, open(write_end, "wb", 0) as into:
        source = NdjsonLines(file, None, name="-")
        lines = source.lines(Position())
        into.write(b"{}\n")
        assert next(lines).raw == b"{}\n"
        left: list[Line] = []
        reading = threading.Thread(target=lambda: left.extend(lines))
        reading.start()
        source.stop()
        reading.join(5)
        assert not reading.is_alive()
        assert left == []

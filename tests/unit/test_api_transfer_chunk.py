"""A chunk's number names its content, in every run."""

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from halfpast_api.transfer.chunk import LINES_MAX, SIZE_MAX, Chunk, chunks
from halfpast_api.transfer.event_line import EventLines
from halfpast_api.transfer.line import Position
from halfpast_api.transfer.ndjson_lines import NdjsonLines


def cut(
    content: bytes, start: Position | None = None, number: int = 0, topic: str = "t"
) -> list[Chunk]:
    source = NdjsonLines(io.BytesIO(content), len(content), name="f")
    return list(chunks(source, EventLines(topic), start or Position(), number))


def line(n: int, size: int = 0) -> bytes:
    return json.dumps({"data": [n, "x" * size]}).encode() + b"\n"


def test_a_chunk_is_bounded_by_lines_and_by_bytes() -> None:
    by_lines = cut(b"".join(line(n) for n in range(LINES_MAX + 1)))
    assert [len(it.events) for it in by_lines] == [LINES_MAX, 1]
    by_size = cut(b"".join(line(n, SIZE_MAX // 4) for n in range(6)))
    assert [len(it.events) for it in by_size] == [4, 2]
    blank = cut(b"\n" * (LINES_MAX + 1))
    assert [(it.line_count, it.events) for it in blank] == [(LINES_MAX, []), (1, [])]


def test_bad_lines_keep_their_numbers() -> None:
    (chunk,) = cut(line(1) + b"?\n\n" + line(4))
    assert chunk.numbers == [1, 4]
    assert [(it.line, it.code, it.raw) for it in chunk.refused] == [
        (2, "malformed_json", b"?\n")
    ]
    assert (chunk.line_count, chunk.end.line) == (4, 4)


@given(
    st.lists(st.sampled_from([b"\n", b"?\n", line(1), line(2, 90_000)]), max_size=60),
    st.data(),
)
def test_chunks_are_the_same_from_every_boundary(
    rows: list[bytes], data: st.DataObject
) -> None:
    content = b"".join(rows)
    whole = cut(content)
    assert [it.number for it in whole] == list(range(len(whole)))
    assert cut(content, topic="other") != whole or not any(it.events for it in whole)
    if whole:
        at = data.draw(st.integers(0, len(whole) - 1))
        assert cut(content, whole[at].end, at + 1) == whole[at + 1 :]


def test_options_do_not_move_boundaries() -> None:
    content = b"".join(line(n) for n in range(2 * LINES_MAX))
    ends = [[it.end for it in cut(content, topic=topic)] for topic in ("a", "b" * 60)]
    assert ends[0] == ends[1]

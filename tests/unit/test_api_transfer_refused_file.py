"""What was refused is kept, in the order of the file, and can be imported."""

import json
from pathlib import Path

import pytest

from halfpast_api.transfer.chunk import RefusedLine
from halfpast_api.transfer.errors import WouldOverwrite
from halfpast_api.transfer.event_line import EventLines
from halfpast_api.transfer.refused_file import RefusedFile, render_refused


def refused(line: int, raw: bytes = b'{"data":1}') -> RefusedLine:
    return RefusedLine(line=line, code="c", reason="r", raw=raw)


def test_an_event_is_kept_whole_and_imports_again() -> None:
    raw = b'{"topic":"t","data":{"a" : 1.50},"refused":"old"}'
    rendered = render_refused(refused(7, raw))
    found = json.loads(rendered)
    assert found.pop("refused") == {"line": 7, "code": "c", "reason": "r"}
    assert found == {"topic": "t", "data": {"a": 1.5}}
    assert json.loads(EventLines(None).read(rendered)) == found


@pytest.mark.parametrize("raw", [b"?", b"[1]", b'{"data":"\xff"}\r\n', b""])
def test_what_is_no_event_is_kept_as_text(raw: bytes) -> None:
    text = json.loads(render_refused(refused(1, raw)))["refused"]["text"]
    assert text == raw.decode(errors="replace").rstrip("\r\n")


def test_an_event_takes_one_line() -> None:
    rendered = render_refused(refused(1, b'{"data":{\n"a":\r\n1}}'))
    assert rendered.count(b"\n") == 1
    assert json.loads(rendered)["data"] == {"a": 1}


def test_it_goes_on_behind_what_was_noted(tmp_path: Path) -> None:
    path = tmp_path / "f.refused.ndjson"
    first = RefusedFile(path, 0)
    assert not path.exists()
    first.add([refused(1)])
    noted = first.size
    first.add([refused(2)])
    first.close()
    second = RefusedFile(path, noted)
    second.add([refused(3)])
    second.close()
    lines = path.read_text().splitlines()
    assert [json.loads(line)["refused"]["line"] for line in lines] == [1, 3]
    assert second.size == path.stat().st_size


def test_an_older_one_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("mended")
    with pytest.raises(WouldOverwrite):
        RefusedFile(path, 0)
    assert path.read_text() == "mended"

"""Lines under a supervisor, for collectors: each is one JSON object."""

import json
from datetime import UTC, datetime

import pytest

from halfpast_api.line_output import json_line

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


def test_what_is_logged_stays_as_it_is() -> None:
    line = '{"event": "broker lost", "logger": "halfpast.txn"}'
    assert json_line(f"txn     | {line}", NOW) == line


@pytest.mark.parametrize("text", ["ready at unix:/x | y", "{not json}", "{", "[1]"])
def test_anything_else_is_wrapped(text: str) -> None:
    found = json.loads(json_line(f"broker  | {text}", NOW))
    assert found == {
        "event": text,
        "level": "info",
        "logger": "halfpast.broker",
        "timestamp": "2026-11-20T10:00:00.000000Z",
    }


def test_the_supervisors_own_words() -> None:
    assert json.loads(json_line("stopping", NOW))["logger"] == "halfpast.up"

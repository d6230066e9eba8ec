"""The options of the data source, as Spark hands them over."""

import pytest

from halfpast_spark.errors import BadOption
from halfpast_spark.options import Bound, parse_options


def test_defaults() -> None:
    options = parse_options({"path": "/data"})
    assert options.kinds is None
    assert options.topics is None
    assert options.start == Bound(word="earliest")
    assert options.end == Bound(word="latest")
    assert options.trigger_bytes is None


def test_keys_are_taken_in_any_case() -> None:
    options = parse_options(
        {
            "PATH": "/data",
            "batchrows": "7",
            "splitBytes": "2m",
            "MAXBYTESPERTRIGGER": "1G",
            "Kinds": "op, half,",
            "topics": "orders",
            "start": "4096",
            "end": "2026-11-20T10:00:00.5+01:00",
        }
    )
    assert options.batch_rows == 7
    assert options.split_bytes == 2 * 1024 * 1024
    assert options.trigger_bytes == 1024**3
    assert options.kinds == frozenset({"op", "half"})
    assert options.topics == frozenset({"orders"})
    assert options.start == Bound(position=4096)
    assert options.end == Bound(time_ms=1_795_165_200_500)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("path", "", "give the data folder"),
        ("kinds", "op,nothing", "'nothing': the kinds are message, delivered"),
        ("batchRows", "0", "from 1 to"),
        ("batchRows", "1.5", "whole number"),
        ("batchRows", "", "whole number"),
        ("splitBytes", "-1", "whole number"),
        ("splitBytes", "4095", "from 4096"),
        ("maxBytesPerTrigger", "١٢٣٤٥", "whole number"),
        ("start", "2026-11-20 09:00:00", "offset from UTC"),
        ("start", "", "earliest"),
        ("end", "9" * 30, "earliest"),
        ("maxFilesPerTrigger", "1", "no such option"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(BadOption, match=words) as caught:
        parse_options({"path": "/data", name: value})
    assert caught.value.name.lower() == name.lower()

"""Progress goes to standard error, and not too often."""

import itertools
import time

import pytest

from halfpast_loadtest.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0.0, 4.0)  # four seconds pass between two looks
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))


@pytest.mark.usefixtures("clock")
def test_a_file_gets_a_line_every_ten_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress("filling", 1000)
    for done in range(100, 800, 100):
        progress.at(done)
    progress.end()
    printed = capsys.readouterr()
    assert not printed.out
    assert len(printed.err.splitlines()) == 2
    assert printed.err.splitlines()[0].startswith("filling: 300 of 1,000 (30%)")


@pytest.mark.usefixtures("clock")
def test_what_cannot_be_counted_is_said_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Progress("pending", 1).say("stopping")
    assert capsys.readouterr().err == "pending: stopping\n"

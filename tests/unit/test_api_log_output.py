"""A stderr that has gone costs log lines, never the service that writes them."""

import io
import logging
import sys

import pytest
import structlog

from halfpast_api.log_output import (
    LogFormat,
    LogLevel,
    PresentStderr,
    configure_logging,
)


class Gone(io.StringIO):
    """A pipe that nobody reads any more."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("closed", [True, False])
def test_a_stderr_that_has_gone_is_survived(
    monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    gone = io.StringIO() if closed else Gone()
    if closed:
        gone.close()
    monkeypatch.setattr(sys, "stderr", gone)
    stream = PresentStderr()
    assert stream.write("lost") == 4
    stream.flush()


def test_lines_go_to_the_stderr_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        configure_logging(LogFormat.JSON, LogLevel.WARNING)
        log = structlog.get_logger("test")
        first, second = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "stderr", first)
        log.warning("one")
        first.close()
        monkeypatch.setattr(sys, "stderr", second)
        log.warning("two")
    finally:
        structlog.configure(**before)
        root.handlers[:], root.level = handlers, level
    assert '"two"' in second.getvalue()

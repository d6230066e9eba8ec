"""Where the log lines of a process go: to stderr, as text or as JSON."""

import contextlib
import io
import logging
import sys
from enum import StrEnum
from functools import partial
from typing import TextIO, cast

import structlog

from halfpast_api.access.redaction import redact_text


class LogFormat(StrEnum):
    """`text` for people, in colour on a terminal; `json` for collectors."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important lines that are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class PresentStderr(io.TextIOBase):
    """The stderr of the moment, which is told no secrets. A line that it does not take
    is lost: a terminal that has gone must not end a service that has something to say
    about itself."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(redact_text(text))
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


class NamedLogger(structlog.PrintLogger):
    """It knows which part of the suite speaks; `name` goes into each of its lines."""

    def __init__(self, file: TextIO, name: str = "halfpast") -> None:
        super().__init__(file)
        self.name = name


def configure_logging(form: LogFormat, level: LogLevel) -> None:
    """To be called once, by a process's main function."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor
    if form is LogFormat.JSON:
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    else:
        # Plain tracebacks: drawing one with frames takes hundreds of milliseconds,
        # in which the server answers nobody.
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,
        )
    stderr = cast(TextIO, PresentStderr())  # text streams differ in typing alone
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=partial(NamedLogger, stderr),
        cache_logger_on_first_use=True,
    )
    # What libraries say through the standard library, such as asyncio.
    handler = logging.StreamHandler(stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
            ],
            foreign_pre_chain=shared,
        )
    )
    # Theirs is only worth reading when something is wrong.
    quiet = max(number, logging.WARNING)
    logging.basicConfig(handlers=[handler], level=quiet, force=True)

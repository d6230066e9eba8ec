"""What came of one call to an endpoint, and what that means for the message."""

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

EXCERPT_SIZE_MAX: Final = 1024
"""Bytes of an answer that are read and kept."""
GONE: Final = 410
_BROKEN: Final = frozenset((408, 425, 429))
_BLANKS: Final = re.compile(r"[ \t\r\n]+")


class Result(StrEnum):
    """One word for the metrics and for people."""

    DELIVERED = "delivered"
    HTTP_ERROR = "http_error"
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    NO_CONNECTION = "connection_failed"
    NO_TLS = "tls_failed"
    NO_HOST = "host_not_found"
    REFUSED_ADDRESS = "refused_address"
    BAD_URL = "bad_url"
    NOT_VALIDATED = "not_validated"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """`status` 0: there was no answer. `retry_after_ms`: what the endpoint asked for.
    `headers` are those that a handshake looks at, by names in lower case."""

    result: Result
    status: int = 0
    error: str = ""
    response: str = ""
    duration_ms: int = 0
    retry_after_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def is_delivered(self) -> bool:
        return self.result is Result.DELIVERED

    @property
    def is_gone(self) -> bool:
        """The endpoint says that it will never take anything again."""
        return self.status == GONE

    @property
    def is_broken(self) -> bool:
        """Whether it shows that the endpoint does not work, rather than that it does
        not like this message."""
        if self.result in (Result.DELIVERED, Result.REDIRECT):
            return False
        return not self.status or self.status >= 500 or self.status in _BROKEN


def result_of_status(status: int) -> tuple[Result, str]:
    """What a status says, and the error in words."""
    if 200 <= status < 300:
        return Result.DELIVERED, ""
    if 300 <= status < 400:
        return Result.REDIRECT, f"http {status}: redirects are not followed"
    return Result.HTTP_ERROR, f"http {status}"


def excerpt(body: bytes) -> str:
    """The beginning of an answer as text that can be shown: one line, without control
    or formatting characters. What is no text is not shown."""
    if b"\0" in body:
        return f"({len(body)} bytes that are no text)"
    text = _BLANKS.sub(" ", body[:EXCERPT_SIZE_MAX].decode(errors="replace")).strip()
    return "".join(it for it in text if unicodedata.category(it)[0] != "C")

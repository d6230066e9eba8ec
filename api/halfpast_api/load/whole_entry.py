"""Requests that bring work and have come in one piece, told from their bytes alone.

Parsing a request costs more than refusing it, so under overload those that are plainly
events or transactions are refused unparsed. It is only ever a refusal that hangs on
this: whatever is not as plain as can be (chunks, two lengths, folded lines, a second
request behind) is no whole entry, and is parsed.
"""

from typing import Final

_HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_LENGTH: Final = b"\r\ncontent-length:"
_NOT_PLAIN: Final = (
    *(b"\r\ntransfer-encoding", b"\r\nexpect", b"\r\nupgrade"),
    *(b"\r\n ", b"\r\n\t"),
)
_WHOLE_PATHS: Final = frozenset(
    {b"/v1/events:batch", b"/v1/transactions", b"/v1/transactions:batch"}
)
_TOPICS: Final = b"/v1/topics/"
_DIGITS_MAX: Final = 9


def is_whole_entry(data: bytes) -> bool:
    """Whether this is one whole request that brings events or transactions."""
    if data[:9] != b"POST /v1/" and data[:8] != b"PUT /v1/":
        return False
    head_end = data.find(_HEAD_END)
    line_end = data.find(_LINE_END)
    if head_end < 0 or not _brings_work(data[:line_end]):
        return False
    head = data[line_end:head_end].lower()
    at = head.find(_LENGTH)
    if at < 0 or head.find(_LENGTH, at + 1) >= 0:
        return False
    if any(it in head for it in _NOT_PLAIN):
        return False
    end = head.find(_LINE_END, at + 2)
    digits = head[at + len(_LENGTH) : end if end >= 0 else None].strip(b" \t")
    is_number = digits.isdigit() and len(digits) <= _DIGITS_MAX
    return is_number and head_end + len(_HEAD_END) + int(digits) == len(data)


def _brings_work(line: bytes) -> bool:
    parts = line.split(b" ")
    if len(parts) != 3 or parts[2] != b"HTTP/1.1":
        return False
    method, path, _ = parts
    if path in _WHOLE_PATHS:
        return method == b"POST"
    if not path.startswith(_TOPICS):
        return False
    segments = path[len(_TOPICS) :].split(b"/")
    if len(segments) < 2 or segments[1] != b"events":
        return False
    return len(segments) == (2 if method == b"POST" else 3)

"""Cookies of a request."""

from typing import Final

from multidict import CIMultiDictProxy, istr

_COOKIE: Final = istr("Cookie")
_LENGTH_MAX: Final = 16_384

Headers = CIMultiDictProxy[str]


def cookie(headers: Headers, name: str) -> str:
    """What the browser has sent under this name; empty without one.

    Of two the first counts: that is the one with the longer path.
    """
    text = headers.get(_COOKIE)
    if text is None or len(text) > _LENGTH_MAX:
        return ""
    for pair in text.split(";"):
        found, equals, value = pair.strip().partition("=")
        if equals and found == name:
            return value.strip('"')
    return ""

"""What the page after a form says of how that went: kept in a cookie for one page."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, Literal

import msgspec

from halfpast_api.console.cookies import read_cookie, write_cookie
from halfpast_api.headers import Headers

COOKIE: Final = "halfpast_said"
_AGE_S: Final = 60
_CHARS_MAX: Final = 600

Tone = Literal["good", "warn", "bad"]


class Said(msgspec.Struct, frozen=True):
    """A sentence; pages escape it like everything else."""

    text: str
    tone: Tone = "good"


def say(said: Said) -> tuple[str, str]:
    """The header that keeps it for the next page."""
    text = said.text if len(said.text) <= _CHARS_MAX else said.text[:_CHARS_MAX] + "…"
    packed = msgspec.json.encode(Said(text, said.tone))
    value = urlsafe_b64encode(packed).rstrip(b"=").decode()
    return write_cookie(COOKIE, value, age_s=_AGE_S)


def heard(headers: Headers) -> Said | None:
    """What is to be said now."""
    text = read_cookie(headers, COOKIE)
    if not text:
        return None
    try:
        packed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(packed, type=Said)
    except (ValueError, msgspec.DecodeError):
        return None


def forget() -> tuple[str, str]:
    """The header after it was said."""
    return write_cookie(COOKIE, "", age_s=0)

"""Page tokens: opaque to callers, a position of ours inside. Not signed, since a
forged one can only begin a page elsewhere."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from halfpast_api.problems import Refusal

_LENGTH_MAX: Final = 1024


def render_token(position: bytes) -> str | None:
    """The token for the page that begins at `position`; None if that is empty."""
    return urlsafe_b64encode(position).rstrip(b"=").decode() if position else None


def parse_token(text: str | None) -> bytes:
    """The position, empty for the first page. Raises Refusal."""
    if not text:
        return b""
    if len(text) <= _LENGTH_MAX and text.isascii():
        try:
            position = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            position = b""
        if position and render_token(position) == text:
            return position
    raise Refusal(
        "invalid_page_token",
        "page_token is not one that a list has answered; leave it out to begin with "
        "the first page",
    )


def parse_name_token(text: str | None) -> str:
    """The same for lists that are in the order of names."""
    try:
        return parse_token(text).decode("ascii")
    except UnicodeDecodeError:
        return parse_name_token("?")

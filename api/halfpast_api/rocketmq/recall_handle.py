"""What takes a delayed message back: its event id, as text that cannot be mistyped."""

import struct
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

_VERSION: Final = b"\x01"
_CHECK: Final = struct.Struct("<I")
_SIZE: Final = 1 + 16 + _CHECK.size


def render_handle(event_id: bytes) -> str:
    """It is no secret: rights are checked by topic, not by handle."""
    data = _VERSION + event_id
    return urlsafe_b64encode(data + _CHECK.pack(zlib.crc32(data))).decode().rstrip("=")


def parse_handle(text: str) -> bytes | None:
    """The event id; None for what was never one of these."""
    if len(text) > 2 * _SIZE or not text.isascii():
        return None
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    if len(data) != _SIZE or data[:1] != _VERSION:
        return None
    (check,) = _CHECK.unpack_from(data, _SIZE - _CHECK.size)
    if zlib.crc32(data[: -_CHECK.size]) != check or render_handle(data[1:17]) != text:
        return None
    return data[1:17]

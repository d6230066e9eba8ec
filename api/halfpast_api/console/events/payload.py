"""What an event holds, to be read by people: laid out, and not too much of it."""

from base64 import b64encode
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

SHOWN_MAX: Final = 64 * 1024
_LINE: Final = 76


class Payload(msgspec.Struct):
    """`kind`: json | text | binary | none | withheld. `size` counts all of its bytes;
    `is_cut`: there are more than are shown."""

    kind: str
    text: str = ""
    size: int = 0
    is_cut: bool = False


class Message(Protocol):
    """What holds one: an event, or a schedule."""

    data: Raw | UnsetType
    data_base64: bytes | UnsetType
    data_withheld: bool


def content_of(event: Message) -> tuple[bytes, bool] | None:
    """The bytes, and whether they are JSON; None where there are none to see."""
    if event.data is not UNSET:
        return bytes(event.data), True
    if event.data_base64 is not UNSET:
        return event.data_base64, False
    return None


def payload_of(event: Message, may_view: bool = True) -> Payload:
    """JSON is laid out but else as it came, to the digit; bytes that are no text are in
    base64."""
    content = content_of(event)
    if content is None or not may_view:
        is_withheld = event.data_withheld or not may_view
        return Payload("withheld" if is_withheld else "none")
    data, is_json = content
    size, kind = len(data), "json"
    if is_json:
        if size <= SHOWN_MAX:
            data = msgspec.json.format(data, indent=2)
        text = data[:SHOWN_MAX].decode(errors="replace")
    elif (plain := _text(data)) is not None:
        kind, text = "text", plain
    else:
        kind = "binary"
        coded = b64encode(data[: SHOWN_MAX * 3 // 4]).decode()
        text = "\n".join(coded[at : at + _LINE] for at in range(0, len(coded), _LINE))
    return Payload(kind, text, size, size > SHOWN_MAX)


def _text(data: bytes) -> str | None:
    """The beginning, where all of it is text that can be printed."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if any(char < " " and char not in "\t\n\r" for char in text[:SHOWN_MAX]):
        return None
    return text[:SHOWN_MAX]

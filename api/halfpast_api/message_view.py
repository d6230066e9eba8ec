"""Messages as consumers get them."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.access.namespaced_names import names_in
from halfpast_api.event_id import id_text
from halfpast_api.reading import Format
from halfpast_api.times import render_instant
from halfpast_core_store.broker import Delivered
from halfpast_core_store.record import HEADER, HEADER_SIZE, RecordFlag

_JSON_FLAG: Final = int(RecordFlag.JSON)
_RECEIPT_LENGTH_MAX: Final = 512
_DEAD_NAMES: Final = ("dead_letter_topic", "dead_letter_group")
_properties: Final = msgspec.msgpack.Decoder(dict[str, str])


class MessageView(msgspec.Struct, kw_only=True, gc=False):
    """One message.

    JSON: `data` if it was published as JSON, as it came, else `data_base64`.
    MessagePack: `data` is always bin, the body as stored, and `json` tells whether
    that is JSON text. `receipt` is there for popped messages only.
    """

    receipt: str | UnsetType = UNSET
    id: str
    topic: str
    queue: int
    offset: int
    key: str | None
    tag: str | None
    properties: dict[str, str]
    data: Raw | bytes | UnsetType = UNSET
    data_base64: bytes | UnsetType = UNSET
    json: bool | UnsetType = UNSET
    born_at: str
    stored_at: str
    deliver_at: str | None
    attempt: int


class MessagesView(msgspec.Struct):
    """The answer to a pop."""

    messages: list[MessageView]


class PulledView(msgspec.Struct):
    """The answer to a pull. `max_offset` is the next one to be written."""

    messages: list[MessageView]
    next_offset: int
    min_offset: int
    max_offset: int


def view_messages(
    delivered: Iterable[Delivered], topic: str, form: Format, namespace: str = ""
) -> list[MessageView]:
    """All messages of one answer, for a caller of this namespace. `topic` is where they
    were read from."""
    is_json = form is Format.JSON
    views = [_view(one, topic, is_json) for one in delivered]
    if namespace:
        for view in views:
            if _DEAD_NAMES[0] in view.properties:
                _show_names(view.properties, namespace)
    return views


def _show_names(properties: dict[str, str], namespace: str) -> None:
    """Where a dead letter comes from, as its namespace knows it."""
    names = names_in(namespace)
    for property_name in _DEAD_NAMES:
        stored = properties.get(property_name, "")
        properties[property_name] = names.outside(stored) or stored


def render_receipt(receipt: bytes) -> str:
    """A receipt as consumers keep it: base64url."""
    return urlsafe_b64encode(receipt).rstrip(b"=").decode()


def parse_receipt(text: str) -> bytes | None:
    """The other way round; None for what cannot be a receipt."""
    if not text or len(text) > _RECEIPT_LENGTH_MAX or not text.isascii():
        return None
    try:
        receipt = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return receipt if render_receipt(receipt) == text else None


def _view(one: Delivered, topic: str, is_json: bool) -> MessageView:
    record = one.record
    (
        _,
        _,
        flags,
        _,
        _,
        _,
        event_id,
        born_ms,
        due_ms,
        _,
        _,
        key_size,
        tag_size,
        properties_size,
        _,
    ) = HEADER.unpack_from(record)
    tag_at = HEADER_SIZE + key_size
    properties_at = tag_at + tag_size
    body_at = properties_at + properties_size
    body = record[body_at:]
    has_json = bool(flags & _JSON_FLAG)
    view = MessageView(
        id=id_text(event_id),
        topic=topic,
        queue=one.queue,
        offset=one.offset,
        key=_text(record[HEADER_SIZE:tag_at]) if key_size else None,
        tag=_text(record[tag_at:properties_at]) if tag_size else None,
        properties=(
            _properties.decode(record[properties_at:body_at]) if properties_size else {}
        ),
        born_at=render_instant(born_ms),
        stored_at=render_instant(one.stored_ms),
        deliver_at=render_instant(due_ms) if due_ms else None,
        attempt=one.attempt,
    )
    if one.receipt:
        view.receipt = render_receipt(one.receipt)
    if not is_json:
        view.data, view.json = body, has_json
    elif has_json:
        view.data = Raw(body)
    else:
        view.data_base64 = body
    return view


def _text(data: bytes) -> str:
    return data.decode(errors="replace")

"""The parts of an event that go into its record: data, tag, properties."""

import json
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from halfpast_api.problems import Refusal, refuse_field
from halfpast_api.reading import Format
from halfpast_api.strictness import check_depth, check_duplicates, too_deep
from halfpast_core_store.record import (
    PROPERTIES_SIZE_MAX,
    TAG_SIZE_MAX,
    RecordFlag,
)

_DATA_DEPTH_MAX: Final = 128
_BIN_HEADS: Final = (0xC4, 0xC5, 0xC6)
# Six bytes of JSON may stand for one character.
_PROPERTIES_TEXT_MAX: Final = 6 * PROPERTIES_SIZE_MAX
_json_map: Final = msgspec.json.Decoder(dict[str, str])
_msgpack_map: Final = msgspec.msgpack.Decoder(dict[str, str])
_pack: Final = msgspec.msgpack.Encoder().encode
_NULL: Final = {Format.JSON: b"null", Format.MSGPACK: b"\xc0"}


def data_bytes(
    data: Raw | UnsetType, base64: bytes | None, form: Format
) -> tuple[bytes, int]:
    """The body of the record and the flag that says whether it is JSON text.

    JSON stays as it came, to the byte. MessagePack's bin is stored raw, other
    values of MessagePack as the same value in JSON. Raises Refusal.
    """
    if data is UNSET:
        if base64 is None:
            raise refuse_field(
                "missing_field",
                "/data",
                "an event needs data (any JSON, null too) or data_base64",
            )
        return base64, 0
    if base64 is not None:
        raise refuse_field(
            "invalid_data", "/data_base64", "give either data or data_base64, not both"
        )
    if form is Format.JSON:
        return bytes(data), int(RecordFlag.JSON)
    raw = bytes(data)
    if raw[0] in _BIN_HEADS:
        value: bytes = msgspec.msgpack.decode(raw)
        return value, 0
    return _as_json(raw), int(RecordFlag.JSON)


def tag_bytes(tag: str | None) -> bytes:
    """Raises Refusal for one that is too long, or that no filter could name."""
    if not tag:
        return b""
    encoded = tag.encode()
    if len(encoded) > TAG_SIZE_MAX:
        raise too_long("tag", len(encoded), TAG_SIZE_MAX)
    if "||" in tag or tag.strip() != tag or tag == "*":
        raise refuse_field(
            "invalid_tag",
            "/tag",
            f"{tag!r} could not be named in a filter; leave out ||, spaces around it, "
            "and * alone",
        )
    return encoded


def properties_bytes(properties: Raw | UnsetType, form: Format) -> bytes:
    """A map of text to text as MessagePack, empty for none. Raises Refusal."""
    if properties is UNSET or properties == _NULL[form]:
        return b""
    size = len(memoryview(properties))
    if size > _PROPERTIES_TEXT_MAX:
        raise too_long("properties", size, PROPERTIES_SIZE_MAX, "invalid_properties")
    try:
        if form is Format.JSON:
            values = _json_map.decode(properties)
            check_duplicates(bytes(properties), values, _json_map.decode)
        else:
            values = _msgpack_map.decode(properties)
    except msgspec.DecodeError:
        raise refuse_field(
            "invalid_properties",
            "/properties",
            'properties are a map of text to text, such as {"region": "eu"}; write '
            "numbers as text too",
        ) from None
    except Refusal as refusal:
        raise refusal.under("/properties") from None
    packed = _pack(values) if values else b""
    if len(packed) > PROPERTIES_SIZE_MAX:
        raise too_long("properties", len(packed), PROPERTIES_SIZE_MAX)
    return packed


def event_too_large(size: int, size_max: int) -> Refusal:
    """The Refusal for data that takes more than its topic allows."""
    return refuse_field(
        "event_too_large",
        "/data",
        f"the data takes {size} bytes, this topic takes up to {size_max}; make it "
        "smaller, for example by storing it elsewhere and sending its address",
    )


def too_long(field: str, size: int, size_max: int, code: str = "") -> Refusal:
    """The Refusal for a member that takes too many bytes."""
    return refuse_field(
        code or f"invalid_{field}",
        f"/{field}",
        f"it takes {size} bytes, the limit is {size_max}; shorten it",
    )


def _as_json(packed: bytes) -> bytes:
    try:
        value = msgspec.msgpack.decode(packed)
        text = json.dumps(
            value, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        )
    except RecursionError:
        raise too_deep(_DATA_DEPTH_MAX).under("/data") from None
    except (TypeError, ValueError) as error:
        raise refuse_field(
            "invalid_data",
            "/data",
            f"this value has no form in JSON ({error}); send it as bytes",
        ) from None
    encoded = text.encode()
    check_depth(encoded, _DATA_DEPTH_MAX)
    return encoded

"""Events as the server wants them: JSON for one, MessagePack for many.

Bytes travel as `data_base64` in JSON and stay raw in MessagePack. Any other data
is stored as JSON, whichever way it came.
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from halfpast.model import NewEvent

JSON = "application/json"
MSGPACK = "application/msgpack"


def json_event(event: NewEvent) -> bytes:
    """The body of a publish or put of one event. Its topic and key go elsewhere."""
    fields = _settings(event)
    match event.data:
        case bytes() | bytearray() as raw:
            fields["data_base64"] = b64encode(raw).decode()
        case data:
            fields["data"] = data
    return _JSON.encode(fields)


def packed_event(event: NewEvent) -> bytes:
    """One event of a batch, encoded by itself.

    Whoever gathers events from several callers encodes each in its caller's own
    call, so that a bad one fails alone.
    """
    fields = _settings(event)
    fields["topic"] = event.topic
    match event.data:
        case bytes() | bytearray() as raw:
            fields["data"] = raw
        case data:  # as JSON has it: no times or ids of MessagePack's own
            fields["data"] = msgspec.to_builtins(data, str_keys=True)
    return _MSGPACK.encode(fields)


def packed_batch(events: Sequence[bytes], *, atomic: bool) -> bytes:
    """A batch of events that `packed_event` has encoded."""
    raws = [msgspec.Raw(event) for event in events]
    return _MSGPACK.encode({"events": raws, "atomic": atomic})


def json_body(**fields: object) -> bytes:
    """A body of those fields that are not None."""
    return _JSON.encode({k: v for k, v in fields.items() if v is not None})


def timing(deliver_at: datetime | None, delay: timedelta | None) -> dict[str, object]:
    """When to deliver, as fields of a body; none means now.

    Raises ValueError for both at once and for a datetime without a time zone.
    """
    if deliver_at is not None:
        if delay is not None:
            raise ValueError("give deliver_at or delay, not both")
        return {"deliver_at": rfc3339(deliver_at)}
    return {} if delay is None else {"delay_ms": milliseconds(delay)}


def rfc3339(moment: datetime) -> str:
    """As text in UTC; ValueError if it does not say in which time zone."""
    if moment.utcoffset() is None:
        raise ValueError(
            f"{moment.isoformat()} has no time zone; use for example "
            "datetime.now(UTC) + timedelta(minutes=30)"
        )
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def milliseconds(span: timedelta) -> int:
    """Whole milliseconds, rounded up: what is due later is never early."""
    return -(-span // timedelta(milliseconds=1))


def _settings(event: NewEvent) -> dict[str, object]:
    fields = timing(event.deliver_at, event.delay)
    if event.key is not None:
        fields["key"] = event.key
    if event.tag is not None:
        fields["tag"] = event.tag
    if event.properties:
        fields["properties"] = dict(event.properties)
    return fields


_JSON = msgspec.json.Encoder()
_MSGPACK = msgspec.msgpack.Encoder()

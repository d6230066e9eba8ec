"""The fields of a form about a message, as the API wants them."""

from base64 import b64encode
from typing import Final

import msgspec

from halfpast_api.console.form import Form
from halfpast_api.console.moment import instant_of, span_ms_of
from halfpast_api.problems import Refusal

FORMS: Final = (
    ("json", "JSON"),
    ("text", "Text"),
    ("base64", "Bytes, as base64"),
)


def content_fields(form: Form) -> dict[str, object]:
    """Data, key, tag and properties. Raises Refusal."""
    found: dict[str, object] = {}
    data, kind = form.get("data", ""), form.text("form") or "json"
    if kind == "json":
        found["data"] = json_data(data)
    elif kind == "text":
        found["data_base64"] = b64encode(data.encode()).decode()
    else:
        found["data_base64"] = "".join(data.split())
    for name in ("key", "tag"):
        if (value := form.given(name)) is not None:
            found[name] = value
    properties = _properties(form.get("properties", ""))
    if properties:
        found["properties"] = properties
    return found


def time_fields(form: Form) -> dict[str, object]:
    """At most one of the ways to give a time. Raises Refusal."""
    when = form.text("when")
    if when == "delay":
        delay = form.text("delay")
        if not delay:
            raise Refusal("invalid_time", "say after how long, such as 30m")
        return {"delay_ms": span_ms_of(delay)}
    if when == "at":
        at = form.text("deliver_at")
        if not at:
            raise Refusal("invalid_time", "choose a day and a time")
        return {"deliver_at": instant_of(at, form.text("zone"))}
    return {}


def json_data(text: str) -> msgspec.Raw:
    """JSON as it was typed. Raises Refusal."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise Refusal(
            "invalid_data",
            f"the data is not JSON ({error}); mend it, or choose Text to send it as it "
            "is",
        ) from None
    return msgspec.Raw(text.encode())


def _properties(text: str) -> dict[str, str]:
    """`name: value`, one a line."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise Refusal(
                "invalid_properties",
                f"{line[:40]!r} is not a property; write name: value, one a line",
            )
        found[name.strip()] = value.strip()
    return found

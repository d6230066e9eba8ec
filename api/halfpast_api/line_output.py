"""What the services under a supervisor say, one line after the other.

For people each line begins with the service's name. For collectors each is a JSON
object of its own: what a service has logged as it is, anything else wrapped.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

_encode = msgspec.json.Encoder().encode


def print_at_once(line: str) -> None:
    """For people: as it comes."""
    print(line, flush=True)


def print_as_json(line: str) -> None:
    """For collectors."""
    print(json_line(line, datetime.now(UTC)), flush=True)


def json_line(line: str, now: datetime) -> str:
    """A line as the supervisor gives it, `name | text`, as one JSON object."""
    name, _, text = line.partition(" | ")
    if text.startswith("{") and _is_object(text):
        return text
    stamp = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    fields: Mapping[str, str] = {
        "event": text or line,
        "level": "info",
        "logger": f"halfpast.{name.strip()}" if text else "halfpast.up",
        "timestamp": stamp,
    }
    return _encode(fields).decode()


def _is_object(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False
    return True

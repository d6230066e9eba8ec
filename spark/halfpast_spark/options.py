"""The options of `spark.read.format("halfpast")` and `readStream`.

    path              the store's data folder, at a path that all workers see
    kinds             rows of these kinds only (see `event_schema.KINDS`), with commas
    topics            rows of these topics only, with commas
    start, end        where to begin, and where to end (not included): `earliest`,
                      `latest`, a position in the log, or a time such as
                      2026-11-20T09:00:00Z, compared with `stored_ms`
    batchRows         rows of one Arrow batch
    splitBytes        bytes of log that one task reads
    maxBytesPerTrigger   bytes of log that one micro-batch reads (streams only)

Spark hands keys over in lower case, so that is how they are compared. Rows of the
kind `gap` are never filtered by topic, and come unless `kinds` leaves them out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .errors import BadOption
from .event_schema import KINDS

MIB = 1024 * 1024
EARLIEST = "earliest"
LATEST = "latest"
SUFFIXES = {"k": 1024, "m": MIB, "g": 1024 * MIB}


@dataclass(frozen=True, slots=True)
class Bound:
    """Where to begin or end: a position, a time, or one of the log's ends."""

    position: int | None = None
    time_ms: int | None = None
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read, and in which pieces."""

    path: str
    kinds: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    start: Bound = Bound(word=EARLIEST)
    end: Bound = Bound(word=LATEST)
    batch_rows: int = 8_192
    split_bytes: int = 64 * MIB
    trigger_bytes: int | None = None


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """The options that were given, in whatever case. Raises BadOption."""
    left = {key.lower(): str(value) for key, value in given.items()}
    path = left.pop("path", "")
    if not path:
        raise BadOption("path", "", "give the data folder, as .load(path) or option")
    options = SourceOptions(
        path=path,
        kinds=_kinds(left.pop("kinds", "")),
        topics=_words(left.pop("topics", "")),
        start=_bound("start", left.pop("start", EARLIEST)),
        end=_bound("end", left.pop("end", LATEST)),
        batch_rows=_size("batchRows", left.pop("batchrows", "8192"), 1, 1_000_000),
        split_bytes=_size("splitBytes", left.pop("splitbytes", "64m"), 4096, 1 << 40),
        trigger_bytes=_trigger(left.pop("maxbytespertrigger", "")),
    )
    for key, value in left.items():
        raise BadOption(key, value, "there is no such option; see options.py")
    return options


def _kinds(text: str) -> frozenset[str] | None:
    words = _words(text)
    for word in sorted(words or ()):
        if word not in KINDS:
            raise BadOption("kinds", word, f"the kinds are {', '.join(KINDS)}")
    return words


def _words(text: str) -> frozenset[str] | None:
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    return words or None


def _trigger(text: str) -> int | None:
    return _size("maxBytesPerTrigger", text, 4096, 1 << 50) if text else None


def _size(name: str, text: str, least: int, most: int) -> int:
    """A whole number, with k, m or g for 1024 and so on."""
    digits, unit = text.strip().lower(), 1
    if digits and digits[-1] in SUFFIXES:
        digits, unit = digits[:-1], SUFFIXES[digits[-1]]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BadOption(name, text, "give a whole number, or one such as 64m")
    if not least <= int(digits) * unit <= most:
        raise BadOption(name, text, f"give a number from {least} to {most}")
    return int(digits) * unit


def _bound(name: str, text: str) -> Bound:
    text = text.strip()
    if text.lower() in (EARLIEST, LATEST):
        return Bound(word=text.lower())
    if text.isascii() and text.isdigit() and len(text) < 20:
        return Bound(position=int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        why = "give earliest, latest, a position, or a time with its offset from UTC"
        raise BadOption(name, text, f"{why}, such as 2026-11-20T09:00:00Z")
    return Bound(time_ms=round(moment.timestamp() * 1000))

"""What msgspec lets pass in JSON and we do not: bad UTF-8, depth, double keys.

The members that users fill with any JSON are stored as they came, so what is
wrong in them would reach consumers. All of this runs on every request, therefore
each check has a cheap form that clears nearly every body.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from halfpast_api.problems import Refusal, refuse_field

DATA: Final = frozenset({"data"})  # the members that are the user's own
_LEVEL_TABLE: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_DEPTH_WORK_MAX: Final = 64 * 1024 * 1024  # bytes; bounds the time of one check
_EXACT_SIZE_MAX: Final = 1024 * 1024
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_encode: Final = msgspec.json.Encoder().encode


def check_utf8(body: bytes) -> None:
    """Raise Refusal unless the body is UTF-8 (msgspec skips over opaque parts)."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise Refusal(
            "malformed_json",
            f"the body is not UTF-8 at byte {error.start}; encode text as UTF-8, and "
            "send other bytes as data_base64",
        ) from None


def check_depth(body: bytes, depth_max: int) -> None:
    """Raise Refusal if well-formed JSON is nested more than `depth_max` deep.

    Peels the innermost brackets off, level by level.
    """
    if len(body) <= 2 * depth_max:
        return
    levels = body.translate(_LEVEL_TABLE, _NOT_BRACKETS)
    if _peels_off(levels, depth_max):
        return
    # Brackets within strings may be why; leave those out and look again.
    outside = b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    if not _peels_off(outside.translate(_LEVEL_TABLE, _NOT_BRACKETS), depth_max):
        raise too_deep(depth_max)


def too_deep(depth_max: int) -> Refusal:
    """The Refusal for JSON that is nested too deeply."""
    return Refusal(
        "too_deep",
        f"the JSON is nested more than {depth_max} levels deep; flatten it, or send it "
        "as data_base64",
    )


def check_duplicates(
    body: bytes,
    understood: object,
    as_given: Callable[[bytes], object],
    opaque: frozenset[str] = DATA,
) -> None:
    """Raise Refusal if a key is given twice, but for keys within `opaque` members.

    `understood` is what the body was decoded to. If that encodes to as many bytes as
    the body has, nothing in the body was ignored. White space and what was given as
    null also make a difference, so then `as_given` decodes it once more, in a way
    that keeps nulls. Never do more bytes come out than went in.
    """
    if len(_encode(understood)) == len(body):
        return
    compact = msgspec.json.format(body, indent=-1)
    if len(_encode(as_given(compact))) == len(compact):
        return
    if (pointer := _find_duplicate(compact, "", opaque)) is not None:
        name = pointer.rpartition("/")[2]
        raise refuse_field(
            "duplicate_key", pointer, f'"{name}" is given twice; give it once'
        )


def _peels_off(levels: bytes, depth_max: int) -> bool:
    work = 0
    for _ in range(depth_max):
        if not levels:
            return True
        work += len(levels)
        peeled = levels.replace(b"[]", b"")
        if len(peeled) == len(levels) or work > _DEPTH_WORK_MAX:
            return False
        levels = peeled
    return not levels


def _find_duplicate(
    compact: bytes | msgspec.Raw, at: str, opaque: frozenset[str]
) -> str | None:
    """A pointer to the first key given twice, in an object without white space."""
    members = _members.decode(compact)
    size = 1 + sum(len(_encode(name)) + _size(raw) + 2 for name, raw in members.items())
    if max(size, 2) != _size(compact) and (found := _find_in_pairs(bytes(compact), at)):
        return found
    for name, raw in members.items():
        first = bytes(memoryview(raw)[:1])
        pointer = f"{at}/{_escaped(name)}"
        if name in opaque:
            continue
        if (
            first == b"{"
            and (found := _find_duplicate(raw, pointer, opaque)) is not None
        ):
            return found
        if first == b"[":
            for index, item in enumerate(_items.decode(raw)):
                if bytes(memoryview(item)[:1]) == b"{" and (
                    found := _find_duplicate(item, f"{pointer}/{index}", opaque)
                ):
                    return found
    return None


def _find_in_pairs(text: bytes, at: str) -> str | None:
    """Like the above for this one level, also where names are written in escapes."""
    if len(text) > _EXACT_SIZE_MAX:
        return f"{at}/{_escaped(next(iter(_members.decode(text)), ''))}"
    pairs: Any = json.loads(
        text, object_pairs_hook=_Pairs, parse_int=str, parse_float=str
    )
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            return f"{at}/{_escaped(name)}"
        seen.add(name)
    return None


class _Pairs(list[tuple[str, Any]]):
    """The members of one object, in order."""


def _size(raw: bytes | msgspec.Raw) -> int:
    return len(memoryview(raw))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")

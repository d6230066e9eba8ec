"""A body becomes a struct, or a Refusal that points to what is wrong in it."""

import difflib
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Generic, TypeVar, get_args, get_origin

import msgspec

from halfpast_api.problems import FieldProblem, Refusal, refuse_field
from halfpast_api.strictness import (
    DATA,
    check_depth,
    check_duplicates,
    check_utf8,
    too_deep,
)

T = TypeVar("T", bound=msgspec.Struct)

_PATH: Final = re.compile(r" - at `(?:key in )?\$([^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*?)`")
_HALF_CHARACTER: Final = re.compile(rb"\\u[dD][89abAB]")
_MISSING: Final = re.compile(r"Object missing required field `(.*?)`")


class Format(Enum):
    """How a body is written."""

    JSON = "JSON"
    MSGPACK = "MessagePack"


class Reader(Generic[T]):
    """Reads bodies of one type. `depth_max` counts all levels of the JSON; within
    `opaque` members nobody looks for keys given twice."""

    def __init__(
        self, kind: type[T], depth_max: int, opaque: frozenset[str] = DATA
    ) -> None:
        self._json = msgspec.json.Decoder(kind)
        self._as_given: Callable[[bytes], object] = msgspec.json.Decoder(
            _as_given(kind)
        ).decode
        self._msgpack = msgspec.msgpack.Decoder(kind)
        self._fields = _field_names(kind)
        self._depth_max = depth_max
        self._opaque = opaque

    def read(self, body: bytes, form: Format) -> T:
        """The struct. Raises Refusal."""
        try:
            if form is Format.MSGPACK:
                return self._msgpack.decode(body)
            check_utf8(body)
            value = self._json.decode(body)
            check_depth(body, self._depth_max)
            check_duplicates(body, value, self._as_given, self._opaque)
            return value
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise self._refusal(error, body, form) from None

    def _refusal(self, error: Exception, body: bytes, form: Format) -> Refusal:
        if isinstance(error, RecursionError):
            return too_deep(self._depth_max)
        if isinstance(error, msgspec.ValidationError):
            return invalid(str(error), self._fields)
        code = f"malformed_{form.name.lower()}"
        if not body.strip():
            return Refusal(code, 'the body is empty; send an object like {"data": 1}')
        if "truncated" in str(error):
            where = f"it ends too early, at byte {len(body)}"
            if _HALF_CHARACTER.search(body):
                where += ", or within a character: \\ud83d needs its \\ude00"
        else:
            where = str(error).removeprefix(f"{form.value} is malformed: ")
        return Refusal(code, f"the body is not {form.value}: {where}; mend it there")


def invalid(message: str, fields: Sequence[str]) -> Refusal:
    """A Refusal from what msgspec says of a value of the wrong type or shape."""
    path = _PATH.search(message)
    pointer = pointer_of(path[1]) if path else ""
    what = message[: path.start()] if path else message
    if unknown := _UNKNOWN.match(what):
        name = unknown[1]
        near = difflib.get_close_matches(name, fields, n=1)
        advice = f'did you mean "{near[0]}"?' if near else f"known are {_and(fields)}"
        return refuse_field(
            "unknown_field",
            f"{pointer}/{_escaped(name)}",
            f'"{name}" is not known here; {advice}',
        )
    if missing := _MISSING.match(what):
        name = missing[1]
        return refuse_field(
            "missing_field", f"{pointer}/{name}", f'"{name}" must be given'
        )
    detail = what[:1].lower() + what[1:].replace("`", "").replace(" | ", " or ")
    shown = pointer or "the body itself"
    return Refusal(
        "invalid_request", f"{detail} (at {shown})", [FieldProblem(pointer, detail)]
    )


def pointer_of(path: str) -> str:
    """`.events[3].delay` as a JSON pointer. Keys of maps are not in msgspec's paths."""
    steps = _STEP.findall(path)
    return "".join(
        f"/{_escaped(name or index)}" for name, index in steps if index != "..."
    )


def _field_names(kind: type[msgspec.Struct]) -> list[str]:
    """The names of all members, also of the objects within."""
    names: list[str] = []
    for field in msgspec.structs.fields(kind):
        names.append(field.encode_name)
        for inner in getattr(field.type, "__args__", ()):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                names.extend(_field_names(inner))
    return names


def _as_given(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same struct, but it keeps apart what is given as null or as its default
    from what is not given."""
    fields: list[tuple[str, Any, Any]] = [
        (it.encode_name, _within_lists(it.type) | msgspec.UnsetType, msgspec.UNSET)
        for it in msgspec.structs.fields(kind)
    ]
    return msgspec.defstruct(kind.__name__, fields)


def _within_lists(kind: Any) -> Any:
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return list[_as_given(inner)]  # type: ignore[misc]
    return kind


def _and(names: Sequence[str]) -> str:
    return ", ".join(names)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")

"""Structs as JSON schemas (2020-12), with what their members mean."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import msgspec

from halfpast_api.openapi.words.glossary import word_of
from halfpast_api.openapi.words.word import Word

PREFIX: Final = "#/components/schemas/"
_VIEW: Final = "View"
_NOTHING: Final = (None, "", ())


class UnknownWord(Exception):
    """A member of a struct has no entry in `words.glossary`."""

    def __init__(self, struct: str, member: str) -> None:
        super().__init__(struct, member)
        self.struct = struct
        self.member = member

    def __str__(self) -> str:
        return f"nothing says what {self.struct}.{self.member} means; add it to words"


class Schemas:
    """The schemas of some structs and of all within them, by their shown names.

    A struct is shown by its name, without `View`. Where two have the same one, that of
    their module comes first.
    """

    def __init__(self, kinds: Iterable[type[msgspec.Struct]]) -> None:
        """Raises UnknownWord."""
        unique = list(dict.fromkeys(kinds))
        references, found = msgspec.json.schema_components(
            unique, ref_template=PREFIX + "{name}"
        )
        self._references = {
            kind: _shown_reference(it["$ref"])
            for kind, it in zip(unique, references, strict=True)
        }
        self.found: Final = dict(
            sorted((_shown(name), _described(name, it)) for name, it in found.items())
        )

    def reference(self, kind: type[msgspec.Struct]) -> dict[str, Any]:
        """A schema that points to the struct's."""
        return {"$ref": self._references[kind]}


def _shown(name: str) -> str:
    module, _, struct = name.rpartition(".")
    words = module.rpartition(".")[2].split("_")
    return "".join(it.capitalize() for it in words) + struct.removesuffix(_VIEW)


def _shown_reference(reference: str) -> str:
    return PREFIX + _shown(reference.removeprefix(PREFIX))


def _described(full_name: str, schema: dict[str, Any]) -> dict[str, Any]:
    struct = full_name.rpartition(".")[2]
    schema.pop("title", None)
    if not schema.get("required", True):
        del schema["required"]
    schema["description"] = inspect.cleandoc(schema.get("description", ""))
    is_request = schema.get("additionalProperties") is False
    properties: dict[str, Any] = schema.get("properties", {})
    for name, member in properties.items():
        word = word_of(struct, name)
        if word is None:
            raise UnknownWord(struct, name)
        properties[name] = _worded(_plain(member), word, is_request)
    return schema


def _plain(schema: Any) -> Any:
    """Without defaults that say nothing, and with the names that are shown."""
    if isinstance(schema, list):
        items: Sequence[Any] = cast(Sequence[Any], schema)
        return [_plain(it) for it in items]
    if not isinstance(schema, dict):
        return schema
    members = cast(dict[str, Any], schema)
    plain = {
        name: _plain(value)
        for name, value in members.items()
        if not (name == "default" and value in _NOTHING)
    }
    if "$ref" in plain:
        plain["$ref"] = _shown_reference(plain["$ref"])
    return _merged(plain)


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """A choice between one thing and null as one schema, where that can be said."""
    choices = schema.get("anyOf", ())
    if {} in choices:  # anything is anything
        del schema["anyOf"]
    elif len(choices) == 2 and {"type": "null"} in choices and len(schema) == 1:
        (other,) = (it for it in choices if it != {"type": "null"})
        if isinstance(other.get("type"), str) and "enum" not in other:
            return {**other, "type": [other["type"], "null"]}
    return schema


def _worded(schema: dict[str, Any], word: Word, is_request: bool) -> dict[str, Any]:
    worded: dict[str, Any] = {"description": word.text, **schema, **word.schema}
    if is_request:
        worded |= word.given
    if "type" in schema and isinstance(schema["type"], list):
        worded["type"] = schema["type"]
    if word.example is not None:
        worded["examples"] = [word.example]
    return worded

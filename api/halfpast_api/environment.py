"""Tunable values from environment variables, for every frozen config dataclass.

Each field is one variable: HALFPAST_STORE_DEDUP_WINDOW_MS is `dedup_window_ms` of
the StoreConfig, HALFPAST_STORE_LOG_SEGMENT_SIZE is `segment_size` of the LogConfig
in its field `log`. So nothing has to be listed here, and no value has two names.
"""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

C = TypeVar("C")


class BadSetting(ValueError):
    """An environment variable holds something that its field cannot be."""

    def __init__(self, name: str, value: str, why: str) -> None:
        super().__init__(name, value, why)
        self.name = name
        self.value = value
        self.why = why

    def __str__(self) -> str:
        return f"{self.name}={self.value!r} cannot be used: {self.why}"


def configured(kind: type[C], prefix: str, environment: Mapping[str, str]) -> C:
    """A `kind` with what the environment sets and defaults for the rest.

    `prefix` ends with an underscore. Raises BadSetting.
    """
    given: dict[str, Any] = {}
    types = typing.get_type_hints(kind)
    assert dataclasses.is_dataclass(kind)
    for field in dataclasses.fields(kind):
        name = prefix + field.name.upper()
        wanted = types[field.name]
        if dataclasses.is_dataclass(wanted):
            given[field.name] = configured(
                typing.cast(type[Any], wanted), name + "_", environment
            )
        elif name in environment:
            given[field.name] = _converted(name, environment[name], wanted)
    return kind(**given)


def _converted(name: str, text: str, kind: Any) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadSetting(name, text, str(error)) from None

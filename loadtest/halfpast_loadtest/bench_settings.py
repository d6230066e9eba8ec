"""Settings of a benchmark: a frozen dataclass, changed by name=value texts."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

from halfpast_loadtest.errors import BadSetting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    SettingsT = TypeVar("SettingsT", bound=DataclassInstance)
else:
    SettingsT = TypeVar("SettingsT")


def changed(settings: SettingsT, texts: Mapping[str, str]) -> SettingsT:
    """A copy with these values; each gets the type of the default it replaces.

    Raises BadSetting.
    """
    known = tuple(one.name for one in fields(settings))
    values: dict[str, object] = {}
    for name, text in texts.items():
        if name not in known:
            raise BadSetting(name, text, known)
        default = getattr(settings, name)
        try:
            values[name] = type(default)(text)
        except ValueError as error:
            raise BadSetting(name, text, known) from error
    return replace(settings, **values)

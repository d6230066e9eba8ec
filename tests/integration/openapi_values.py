"""Values held against schemas of the description."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

# It has no types.
_VALIDATOR: Any = import_module("jsonschema").Draft202012Validator


def check_value(
    value: object, schema: Mapping[str, Any], document: Mapping[str, Any]
) -> None:
    """Raise unless the value fits a schema of the document, formats too."""
    whole = {**schema, "components": document["components"]}
    checker = _VALIDATOR.FORMAT_CHECKER
    _VALIDATOR(whole, format_checker=checker).validate(value)

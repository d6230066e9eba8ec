"""An answer as an example: made of the examples of its members."""

from collections.abc import Mapping
from typing import Any

from halfpast_api.openapi.schemas import PREFIX

Schemas = Mapping[str, Mapping[str, Any]]


def example_of(schema: Mapping[str, Any], schemas: Schemas) -> Any:
    """A value that fits the schema. Members that may be missing are left out."""
    if "$ref" in schema:
        name: str = schema["$ref"].removeprefix(PREFIX)
        return example_of(schemas[name], schemas)
    if "examples" in schema:
        return schema["examples"][0]
    for choice in schema.get("anyOf", ()):
        if choice != {"type": "null"}:
            return example_of(choice, schemas)
    kind = schema.get("type")
    if isinstance(kind, list):
        return None if "null" in kind else ""
    if kind == "array":
        return [example_of(schema["items"], schemas)] if "items" in schema else []
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: example_of(member, schemas)
            for name, member in schema.get("properties", {}).items()
            if name in required or name == "data"
        }
    if "enum" in schema:
        return schema["enum"][0]
    return {"integer": 0, "number": 0.0, "boolean": False, "string": ""}.get(str(kind))

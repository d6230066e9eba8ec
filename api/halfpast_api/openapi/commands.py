"""A request of an example as a command for curl."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from halfpast_api.openapi.operation import Example, Operation

ADDRESS: Final = "localhost:7080"


def target_of(operation: Operation, example: Example) -> str:
    """Path and query."""
    path = operation.template
    pairs: list[str] = []
    for parameter in operation.parameters:
        name = parameter.name
        if parameter.place == "path":
            value = example.parameters.get(name, parameter.example)
            path = path.replace("{" + name + "}", quote(value, safe=""))
        elif parameter.place == "query" and name in example.parameters:
            pairs.append(f"{name}={quote(example.parameters[name], safe=':')}")
    return path + ("?" + "&".join(pairs) if pairs else "")


def headers_of(operation: Operation, example: Example) -> Mapping[str, str]:
    """Those that the example gives."""
    return {
        it.name: example.parameters[it.name]
        for it in operation.parameters
        if it.place == "header" and it.name in example.parameters
    }


def curl(operation: Operation, example: Example) -> str:
    """The command, which works in a shell as it is."""
    words = ["curl -s"]
    has_body = example.body is not None
    if operation.method != ("POST" if has_body else "GET"):
        words.append(f"-X {operation.method}")
    target = ADDRESS + target_of(operation, example)
    words.append(f"'{target}'" if "?" in target else target)
    for name, value in headers_of(operation, example).items():
        words.append(f"-H '{name}: {value}'")
    if has_body:
        text = msgspec.json.format(msgspec.json.encode(example.body), indent=2)
        words.append("-d '" + text.decode().replace("'", "'\\''") + "'")
    return " ".join(words)

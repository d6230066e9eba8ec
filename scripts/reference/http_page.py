"""The HTTP API as pages, out of its OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.reference.tables import code, table

from halfpast_api.openapi.catalogue import OPERATIONS, TAGS, WEBHOOKS
from halfpast_api.openapi.commands import curl
from halfpast_api.openapi.handlers import description
from halfpast_api.openapi.operation import Operation, Webhook
from halfpast_api.openapi.schemas import PREFIX
from halfpast_api.openapi.table import all_routes
from halfpast_api.problems import KINDS

Document = Mapping[str, Any]


def http_page() -> str:
    """All calls."""
    document = _document()
    parts = ["# HTTP API", document["info"]["description"]]
    parts.append(
        "A running server shows the same at `/docs`, and for programs at "
        "`/openapi.json` (OpenAPI 3.1)."
    )
    for tag in TAGS:
        parts += [f"## {tag.name}", tag.text]
        for operation in OPERATIONS:
            if operation.tag == tag.name:
                parts += _call(operation, document)
        for webhook in WEBHOOKS:
            if webhook.tag == tag.name:
                parts += _webhook(webhook, document)
    return "\n\n".join(parts) + "\n"


def schemas_page() -> str:
    """All structs."""
    parts = ["# Schemas", "What requests and answers hold, by the name in OpenAPI."]
    for name, schema in _document()["components"]["schemas"].items():
        parts += [f"## {name}", schema.get("description", ""), _members(schema)]
    return "\n\n".join(parts) + "\n"


def problems_page() -> str:
    """All codes."""
    rows = [
        (code(name), str(kind.status), kind.title, "yes" if kind.retryable else "")
        for name, kind in sorted(KINDS.items())
    ]
    text = (
        "Errors are `application/problem+json` with a `code` to decide on. The "
        "`detail` of each says what is wrong this time and what to do. *Retryable*: "
        "the same request may succeed later, after `Retry-After`."
    )
    head = ("Code", "Status", "Title", "Retryable")
    return f"# Problems\n\n{text}\n\n{table(head, rows)}"


def _document() -> Document:
    return description({(it.method, it.template): str(it.verb) for it in all_routes()})


def _call(operation: Operation, document: Document) -> Iterator[str]:
    path = document["paths"][operation.template][operation.method.lower()]
    yield f"### {operation.summary} {{: #{operation.name} }}"
    verb = f" · needs `{path['x-verb']}`" if "x-verb" in path else ""
    yield f"`{operation.method} {operation.template}`{verb}"
    yield operation.text
    yield _parameters(path)
    yield _body(path, document)
    for example in operation.examples:
        yield f"{example.text}:"
        yield f"```bash\n{curl(operation, example)}\n```"
    yield table(
        ("Answer", "", "Holds"),
        (
            (f"**{status}**", reply["description"], _content(reply))
            for status, reply in path["responses"].items()
            if status.startswith("2")
        ),
    )
    codes = sorted(set(operation.problems))
    if codes:
        listed = ", ".join(f"`{it}`" for it in codes)
        yield f"Problems of its own ([all](problems.md)): {listed}."


def _webhook(webhook: Webhook, document: Document) -> Iterator[str]:
    path = document["webhooks"][webhook.name]["post"]
    yield f"### Webhook: {webhook.summary}"
    yield f"`POST` to your address, `type` `{webhook.name}`"
    yield webhook.text
    yield _parameters(path)
    yield _body(path, document)


def _parameters(path: Mapping[str, Any]) -> str:
    return table(
        ("Parameter", "In", "Type", "Meaning"),
        (
            (
                code(it["name"]) + (" (required)" if it.get("required") else ""),
                it["in"],
                _kind(it["schema"]),
                it["description"],
            )
            for it in path.get("parameters", ())
        ),
    )


def _body(path: Mapping[str, Any], document: Document) -> str:
    if "requestBody" not in path:
        return ""
    (content,) = path["requestBody"]["content"].values()
    name = content["schema"]["$ref"].removeprefix(PREFIX)
    return f"Body: {_link(name)}\n\n" + _members(
        document["components"]["schemas"][name]
    )


def _members(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return table(
        ("Member", "Type", "Meaning"),
        (
            (
                code(name) + (" (required)" if name in required else ""),
                _kind(member),
                member["description"],
            )
            for name, member in schema.get("properties", {}).items()
        ),
    )


def _content(reply: Mapping[str, Any]) -> str:
    for content in reply.get("content", {}).values():
        return _kind(content["schema"])
    return ""


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _link(schema["$ref"].removeprefix(PREFIX))
    if "anyOf" in schema:
        shown = [it for it in schema["anyOf"] if it != {"const": ""}]
        return " or ".join(_kind(it) for it in shown)
    if "enum" in schema:
        return ", ".join(f"`{it}`" for it in schema["enum"])
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    words = kind if isinstance(kind, str) else " or ".join(map(str, kind))
    return f"{words} ({schema['format']})" if "format" in schema else words


def _link(name: str) -> str:
    return f"[{name}](schemas.md#{name.lower()})"

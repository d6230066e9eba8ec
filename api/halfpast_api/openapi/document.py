"""The description as one OpenAPI 3.1 document, built from the catalogue."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec

from halfpast_api.access.verbs import Verb
from halfpast_api.openapi import codes
from halfpast_api.openapi.answers import example_of
from halfpast_api.openapi.operation import (
    Example,
    Operation,
    Parameter,
    Reply,
    Tag,
    Webhook,
)
from halfpast_api.openapi.preamble import TEXT
from halfpast_api.openapi.schemas import Schemas
from halfpast_api.problems import KINDS, PROBLEM_TYPE, Problem

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
_HEADERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ETag": {
        "description": "Its version, for `If-Match`.",
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "Where it can be looked at.",
        "schema": {"type": "string"},
    },
    "Idempotency-Replayed": {
        "description": "`true` if the request was a repetition.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Retry-After": {
        "description": "Try again after so many seconds.",
        "schema": {"type": "string"},
    },
    "Allow": {
        "description": "The methods that there are.",
        "schema": {"type": "string"},
    },
}
_WAITS: Final = (429, 503)
_KEY: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key (`hp_…`), or a token of the OIDC provider that the "
    "server is configured with. A server in open mode asks for none. `x-verb` is what "
    "the caller must be allowed.",
}


def build(
    operations: Sequence[Operation],
    webhooks: Sequence[Webhook],
    tags: Sequence[Tag],
    verbs: Mapping[tuple[str, str], str],
    *,
    asks: bool = False,
) -> dict[str, Any]:
    """The document; `verbs` are what a caller must be allowed, by method and
    template; `asks`: nobody gets in without a key. Raises UnknownWord."""
    schemas = Schemas(_structs(operations, webhooks))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = paths.setdefault(operation.template, {})
        verb = verbs.get((operation.method, operation.template), "")
        path[operation.method.lower()] = _operation(operation, schemas, verb)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "info": {
            "title": "Halfpast",
            "version": version("halfpast"),
            "summary": "Events delivered at an exact later moment, and messages that "
            "are sent if and only if a local transaction commits.",
            "description": TEXT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server."}],
        "tags": [{"name": tag.name, "description": tag.text} for tag in tags],
        "paths": paths,
        "webhooks": {it.name: {"post": _webhook(it, schemas)} for it in webhooks},
        "components": {"schemas": schemas.found, "securitySchemes": {"key": _KEY}},
        "security": [{"key": []}] if asks else [{"key": []}, {}],
    }


def _structs(
    operations: Iterable[Operation], webhooks: Iterable[Webhook]
) -> Iterable[type[msgspec.Struct]]:
    yield Problem
    for operation in operations:
        if operation.body is not None:
            yield operation.body
        for reply in operation.replies.values():
            yield from filter(None, (reply.view, reply.other))
    for webhook in webhooks:
        yield webhook.body
        if webhook.answer is not None:
            yield webhook.answer


def _operation(operation: Operation, schemas: Schemas, verb: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.text:
        found["description"] = operation.text
    if verb == Verb.OPEN:
        found["security"] = []
    elif verb:
        found["x-verb"] = verb
    if operation.parameters:
        found["parameters"] = [_parameter(it) for it in operation.parameters]
    if operation.body is not None:
        found["requestBody"] = _body(operation, operation.body, schemas)
    replies = {
        str(status): _reply(reply, schemas)
        for status, reply in operation.replies.items()
    }
    found["responses"] = replies | _problems(operation.problems, schemas)
    return found


def _parameter(parameter: Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.text,
        "schema": dict(parameter.schema),
    }
    if parameter.required:
        found["required"] = True
    if parameter.example:
        found["example"] = _typed(parameter)
    return found


def _typed(parameter: Parameter) -> object:
    is_number = parameter.schema.get("type") == "integer"
    return int(parameter.example) if is_number else parameter.example


def _body(
    operation: Operation, body: type[msgspec.Struct], schemas: Schemas
) -> dict[str, Any]:
    examples = {
        _key(example): {"summary": example.text, "value": example.body}
        for example in operation.examples
        if example.body is not None
    }
    content: dict[str, Any] = {"schema": schemas.reference(body)}
    if examples:
        content["examples"] = examples
    return {"required": not operation.body_optional, "content": {JSON: content}}


def _key(example: Example) -> str:
    words = "".join(it if it.isalnum() else " " for it in example.text).split()
    return "-".join(words).lower()


def _reply(reply: Reply, schemas: Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {"description": reply.text}
    if reply.headers:
        found["headers"] = {name: _HEADERS[name] for name in reply.headers}
    if reply.view is None:
        kind = "object" if reply.content_type == JSON else "string"
        found["content"] = {reply.content_type: {"schema": {"type": kind}}}
        return found
    schema: dict[str, Any] = schemas.reference(reply.view)
    example = example_of(schema, schemas.found)
    if reply.other is not None:
        schema = {"anyOf": [schema, schemas.reference(reply.other)]}
    found["content"] = {JSON: {"schema": schema, "example": example}}
    return found


def _problems(own: Sequence[str], schemas: Schemas) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys((*own, *codes.EVERYWHERE)):
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {
        str(status): _problem(status, by_status[status], schemas)
        for status in sorted(by_status)
    }


def _problem(status: int, some: Sequence[str], schemas: Schemas) -> dict[str, Any]:
    lines = [f"- `{code}`: {KINDS[code].title}" for code in some]
    schema = {
        "allOf": [
            schemas.reference(Problem),
            {"properties": {"code": {"enum": list(some)}}},
        ]
    }
    found: dict[str, Any] = {
        "description": "\n".join(lines),
        "content": {PROBLEM_TYPE: {"schema": schema}},
    }
    if status in _WAITS:
        found["headers"] = {"Retry-After": _HEADERS["Retry-After"]}
    return found


def _webhook(webhook: Webhook, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schemas.reference(webhook.body)}
    if webhook.example is not None:
        content["example"] = webhook.example
    reply: dict[str, Any] = {"description": "It was taken."}
    if webhook.answer is not None:
        reply["content"] = {JSON: {"schema": schemas.reference(webhook.answer)}}
    return {
        "operationId": webhook.name.replace(".", "_"),
        "tags": [webhook.tag],
        "summary": webhook.summary,
        "description": webhook.text,
        "parameters": [_parameter(it) for it in webhook.headers],
        "requestBody": {"required": True, "content": {JSON: content}},
        "responses": {"2XX": reply},
    }

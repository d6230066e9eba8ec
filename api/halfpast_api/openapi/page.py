"""The page of the description, rendered here: it needs no script and no network."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from markupsafe import Markup

from halfpast_api.console.rendering import Pages
from halfpast_api.openapi.commands import curl
from halfpast_api.openapi.operation import Operation, Parameter, Tag, Webhook
from halfpast_api.openapi.prose import html_of, line_of
from halfpast_api.openapi.schemas import PREFIX
from halfpast_api.problems import KINDS

TEMPLATES: Final = Path(__file__).parent / "templates"
_PLACES: Final = {"path": "path", "query": "query", "header": "header"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table of members or parameters."""

    name: str
    kind: Markup
    text: Markup
    is_required: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Something to read or to copy, with what it shows."""

    text: str
    content: str


@dataclass(frozen=True, slots=True)
class Result:
    """A status with what comes with it."""

    status: str
    text: Markup
    kind: Markup
    headers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A call as the page shows it."""

    anchor: str
    method: str
    path: str
    summary: str
    text: Markup
    verb: str
    parameters: Sequence[Row]
    body: Markup
    members: Sequence[Row]
    requests: Sequence[Sample]
    results: Sequence[Result]
    answer: Sample | None
    problems: Sequence[tuple[int, Sequence[tuple[str, str]]]]


@dataclass(frozen=True, slots=True)
class Chapter:
    """The calls of one tag."""

    anchor: str
    name: str
    text: Markup
    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Shape:
    """A schema as the page shows it."""

    name: str
    text: Markup
    members: Sequence[Row]


def page_values(
    document: Mapping[str, Any],
    operations: Sequence[Operation],
    webhooks: Sequence[Webhook],
    tags: Sequence[Tag],
) -> dict[str, object]:
    """What the template shows."""
    schemas: Mapping[str, Any] = document["components"]["schemas"]
    chapters = [
        Chapter(
            _anchor(tag.name),
            tag.name,
            line_of(tag.text),
            [
                *(_card(it, document) for it in operations if it.tag == tag.name),
                *(_call(it, document) for it in webhooks if it.tag == tag.name),
            ],
        )
        for tag in tags
    ]
    return {
        "info": document["info"],
        "preamble": html_of(document["info"]["description"]),
        "chapters": chapters,
        "shapes": [
            Shape(name, html_of(schema.get("description", "")), _members(schema))
            for name, schema in schemas.items()
        ],
    }


def pages() -> Pages:
    """The templates of this folder."""
    return Pages([TEMPLATES], {})


def _card(operation: Operation, document: Mapping[str, Any]) -> Card:
    path = document["paths"][operation.template][operation.method.lower()]
    replies = path["responses"]
    own = [replies[str(status)] for status in operation.replies]
    body, members = _body(path, document)
    return Card(
        anchor=operation.name,
        method=operation.method,
        path=operation.template,
        summary=operation.summary,
        text=html_of(operation.text),
        verb=path.get("x-verb", ""),
        parameters=[_parameter(it) for it in operation.parameters],
        body=body,
        members=members,
        requests=[Sample(it.text, curl(operation, it)) for it in operation.examples],
        results=[
            _result(str(status), reply)
            for status, reply in zip(operation.replies, own, strict=True)
        ],
        answer=_answer(own),
        problems=_problems(operation),
    )


def _call(webhook: Webhook, document: Mapping[str, Any]) -> Card:
    path = document["webhooks"][webhook.name]["post"]
    body, members = _body(path, document)
    sent = [Sample("What is posted", _pretty(webhook.example))]
    return Card(
        anchor=webhook.name.replace(".", "-"),
        method="WEBHOOK",
        path=webhook.name,
        summary=webhook.summary,
        text=html_of(webhook.text),
        verb="",
        parameters=[_parameter(it) for it in webhook.headers],
        body=body,
        members=members,
        requests=sent if webhook.example is not None else [],
        results=[_result("2xx", path["responses"]["2XX"])],
        answer=None,
        problems=[],
    )


def _body(
    path: Mapping[str, Any], document: Mapping[str, Any]
) -> tuple[Markup, Sequence[Row]]:
    if "requestBody" not in path:
        return Markup(""), ()
    (content,) = path["requestBody"]["content"].values()
    name = content["schema"]["$ref"].removeprefix(PREFIX)
    return _link(name), _members(document["components"]["schemas"][name])


def _parameter(parameter: Parameter) -> Row:
    return Row(
        parameter.name,
        _kind(parameter.schema),
        line_of(parameter.text),
        parameter.required,
        _PLACES[parameter.place],
    )


def _members(schema: Mapping[str, Any]) -> list[Row]:
    required = schema.get("required", ())
    properties: Mapping[str, Any] = schema.get("properties", {})
    return [
        Row(name, _kind(member), line_of(member["description"]), name in required)
        for name, member in properties.items()
    ]


def _result(status: str, reply: Mapping[str, Any]) -> Result:
    content: Mapping[str, Any] = reply.get("content", {})
    kind = Markup("")
    for it in content.values():
        kind = _kind(it["schema"])
        break
    headers = ", ".join(reply.get("headers", ()))
    return Result(status, line_of(reply["description"]), kind, headers)


def _answer(replies: Iterable[Mapping[str, Any]]) -> Sample | None:
    for reply in replies:
        for content in reply.get("content", {}).values():
            if "example" in content:
                return Sample("Answer", _pretty(content["example"]))
    return None


def _problems(
    operation: Operation,
) -> list[tuple[int, Sequence[tuple[str, str]]]]:
    """The call's own ones by status; what every call may answer is said once."""
    by_status: dict[int, list[tuple[str, str]]] = {}
    for code in dict.fromkeys(operation.problems):
        kind = KINDS[code]
        by_status.setdefault(kind.status, []).append((code, kind.title))
    return sorted(by_status.items())


def _kind(schema: Mapping[str, Any]) -> Markup:
    """A schema in a few words."""
    if "$ref" in schema:
        return _link(schema["$ref"].removeprefix(PREFIX))
    if "anyOf" in schema:
        shown = [it for it in schema["anyOf"] if it != {"const": ""}]
        return Markup(" or ").join(_kind(it) for it in shown)
    if "enum" in schema:
        words = [Markup("<code>{}</code>").format(it) for it in schema["enum"]]
        return Markup(" | ").join(words)
    kind = schema.get("type", "any JSON")
    if isinstance(kind, list):
        kind = " or ".join(map(str, cast(list[object], kind)))
    if kind == "array":
        return Markup("list of {}").format(_kind(schema.get("items", {})))
    extra = _bounds(schema)
    if "format" in schema:
        extra = f" ({schema['format']})"
    if schema.get("contentEncoding"):
        extra = " (base64)"
    return Markup("{}{}").format(kind, extra)


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low:,} to {high:,}" if high < 2**53 else f" from {low:,}"
    return "" if low is None else f" from {low:,}"


def _link(name: str) -> Markup:
    return Markup('<a href="#schema-{}">{}</a>').format(name, name)


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _anchor(name: str) -> str:
    return "-".join(name.lower().split())

"""The description is complete, true to the table of routes, and valid OpenAPI."""

import re
from collections import Counter
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate
from tests.integration.openapi_values import check_value

from halfpast_api.openapi import codes
from halfpast_api.openapi.catalogue import OPERATIONS, TAGS, WEBHOOKS, is_page
from halfpast_api.openapi.commands import curl, target_of
from halfpast_api.openapi.handlers import description
from halfpast_api.openapi.operation import Operation
from halfpast_api.openapi.schemas import Schemas, UnknownWord
from halfpast_api.openapi.table import all_routes
from halfpast_api.problems import KINDS
from halfpast_api.router import Router

NAMES = [operation.name for operation in OPERATIONS]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    verbs = {(it.method, it.template): str(it.verb) for it in all_routes()}
    # as clients get it, without tuples and the like
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(description(verbs)))
    return found


def test_a_server_that_asks_for_keys_says_so(document: dict[str, Any]) -> None:
    assert document["security"] == [{"key": []}, {}]
    assert description({}, asks=True)["security"] == [{"key": []}]


def test_each_route_for_programs_is_described_and_no_other() -> None:
    routes = {
        (it.method, it.template) for it in all_routes() if not is_page(it.template)
    }
    described = {(it.method, it.template) for it in OPERATIONS}
    assert routes - described == set(), "add them to openapi/operations"
    assert described - routes == set(), "these are gone: remove them"
    assert len(described) == len(OPERATIONS)


def test_it_is_valid_openapi(document: dict[str, Any]) -> None:
    validate(document)
    assert document["openapi"] == "3.1.0"


def test_names_are_unique_and_tags_known() -> None:
    assert Counter(NAMES).most_common(1)[0][1] == 1
    tags = {tag.name for tag in TAGS}
    assert {it.tag for it in OPERATIONS} == tags
    assert {it.tag for it in WEBHOOKS} <= tags


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_an_operation_says_what_its_route_takes(operation: Operation) -> None:
    placed = re.findall(r"{(\w+)}", operation.template)
    paths = [it for it in operation.parameters if it.place == "path"]
    assert [it.name for it in paths] == placed
    assert all(it.example and it.required for it in paths)
    unknown = set(operation.problems) - KINDS.keys()
    assert not unknown, "no such codes"
    assert operation.replies
    assert all(200 <= it < 300 for it in operation.replies)
    if operation.body is not None:
        assert operation.examples, "show a body that works"
    (route,) = (
        it
        for it in all_routes()
        if (it.method, it.template) == (operation.method, operation.template)
    )
    assert (route.body_max > 0) >= (operation.body is not None)


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_examples_fit_what_is_described(
    operation: Operation, document: dict[str, Any]
) -> None:
    router = Router(all_routes())
    for example in operation.examples:
        assert example.status in operation.replies
        known = {it.name for it in operation.parameters}
        assert example.parameters.keys() <= known
        route, _ = router.find(operation.method, target_of(operation, example))
        assert route.template == operation.template
        assert curl(operation, example).startswith("curl -s")
        for parameter in operation.parameters:
            if parameter.name not in example.parameters:
                continue
            value: Any = example.parameters[parameter.name]
            if parameter.schema.get("type") == "integer":
                value = int(value)
            check_value(value, dict(parameter.schema), document)
        if example.body is not None:
            assert operation.body is not None
            path = document["paths"][operation.template][operation.method.lower()]
            check_value(example.body, _body_schema(path), document)
            reader = msgspec.json.Decoder(operation.body)
            reader.decode(msgspec.json.encode(example.body))


def test_examples_of_answers_fit_their_schemas(document: dict[str, Any]) -> None:
    count = 0
    for path in document["paths"].values():
        for operation in path.values():
            for reply in operation["responses"].values():
                for content in reply["content"].values():
                    if "example" in content:
                        check_value(content["example"], content["schema"], document)
                        count += 1
    assert count > 50


def test_examples_of_members_fit_their_schemas(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        for member in schema.get("properties", {}).values():
            assert member["description"]
            for example in member.get("examples", ()):
                check_value(example, member, document)


def test_webhooks_show_what_is_posted(document: dict[str, Any]) -> None:
    assert document["webhooks"].keys() == {it.name for it in WEBHOOKS}
    for webhook in WEBHOOKS:
        path = document["webhooks"][webhook.name]["post"]
        check_value(webhook.example, _body_schema(path), document)
        msgspec.json.decode(msgspec.json.encode(webhook.example), type=webhook.body)


def test_it_says_who_may_call(document: dict[str, Any]) -> None:
    paths = document["paths"]
    assert paths["/v1/events/{id}"]["get"]["x-verb"] == "read"
    assert paths["/openapi.json"]["get"]["security"] == []


def test_a_member_without_a_word_is_refused() -> None:
    class Surprise(msgspec.Struct):
        wondrous: int

    with pytest.raises(UnknownWord, match=r"Surprise\.wondrous"):
        Schemas([Surprise])


def test_problems_that_all_calls_may_answer_are_said_everywhere(
    document: dict[str, Any],
) -> None:
    for path in document["paths"].values():
        for operation in path.values():
            said = "".join(it["description"] for it in operation["responses"].values())
            assert all(f"`{code}`" in said for code in codes.EVERYWHERE)


def _body_schema(path: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = path["requestBody"]["content"]["application/json"][
        "schema"
    ]
    return schema

"""Paths find their handlers."""

import pytest

from halfpast_api.answer import Answer
from halfpast_api.call import Call
from halfpast_api.problems import Refusal
from halfpast_api.router import Route, Router


async def handler(call: Call) -> Answer:
    raise NotImplementedError


ROUTER = Router(
    Route(method, template, handler)
    for method, template in [
        ("GET", "/healthz"),
        ("GET", "/v1/events"),
        ("POST", "/v1/events:batch"),
        ("GET", "/v1/events/{id}"),
        ("PATCH", "/v1/events/{id}"),
        ("POST", "/v1/events/{id}:deliver-now"),
        ("POST", "/v1/topics/{topic}/events"),
        ("PUT", "/v1/topics/{topic}/events/{key}"),
        ("GET", "/v1/groups/{group}"),
        ("POST", "/v1/groups/{group}:pop"),
        ("GET", "/v1/groups/{group}/lag"),
    ]
)


@pytest.mark.parametrize(
    ("method", "target", "template", "parameters"),
    [
        ("GET", "/healthz", "/healthz", []),
        ("GET", "/healthz?verbose=1", "/healthz", []),
        ("HEAD", "/healthz", "/healthz", []),
        ("GET", "/v1/events?topic=a/b", "/v1/events", []),
        ("POST", "/v1/events:batch", "/v1/events:batch", []),
        ("GET", "/v1/events/42", "/v1/events/{id}", ["42"]),
        ("POST", "/v1/events/42:deliver-now", "/v1/events/{id}:deliver-now", ["42"]),
        ("POST", "/v1/topics/a/events", "/v1/topics/{topic}/events", ["a"]),
        (
            "POST",
            "/v1/topics/%25DLQ%25g/events",
            "/v1/topics/{topic}/events",
            ["%DLQ%g"],
        ),
        ("POST", "/v1/topics/a%2Fb/events", "/v1/topics/{topic}/events", ["a/b"]),
        ("POST", "/v1/topics/a%00/events", "/v1/topics/{topic}/events", ["a\0"]),
        ("POST", "/v1/topics//events", "/v1/topics/{topic}/events", [""]),
        (
            "PUT",
            "/v1/topics/a/events/order:42",
            "/v1/topics/{topic}/events/{key}",
            ["a", "order:42"],
        ),
        (
            "PUT",
            "/v1/topics/a/events/%C3%A9%2F1:x",
            "/v1/topics/{topic}/events/{key}",
            ["a", "é/1:x"],
        ),
        ("GET", "/v1/groups/g", "/v1/groups/{group}", ["g"]),
        ("POST", "/v1/groups/g:pop", "/v1/groups/{group}:pop", ["g"]),
        ("GET", "/v1/groups/g/lag", "/v1/groups/{group}/lag", ["g"]),
    ],
)
def test_a_route_is_found(
    method: str, target: str, template: str, parameters: list[str]
) -> None:
    route, found = ROUTER.find(method, target)
    assert (route.template, found) == (template, parameters)


@pytest.mark.parametrize(
    "target",
    [
        *("/", "", "*", "/v1", "/v1/", "/v1/event", "/v1/events/", "/healthz/"),
        *("/v1/events/42:deliver", "/v1/events/42/x", "/v1/topics/a/b/events"),
        *("/v1/groups/g:pop:pop/x", "//healthz", "/v1/../healthz"),
    ],
)
def test_a_wrong_path_is_not_found(target: str) -> None:
    if target == "/v1/events/":  # an empty id, which its handler refuses
        assert ROUTER.find("GET", target)[1] == [""]
        return
    with pytest.raises(Refusal) as raised:
        ROUTER.find("GET", target)
    assert raised.value.code == "unknown_route"


def test_a_wrong_method_is_told_the_right_ones() -> None:
    with pytest.raises(Refusal) as raised:
        ROUTER.find("DELETE", "/v1/events/42")
    assert raised.value.code == "method_not_allowed"
    assert raised.value.headers == [("Allow", "GET, PATCH")]


@pytest.mark.parametrize("segment", ["%FF", "%C3", "%ED%A0%80"])
def test_a_path_that_is_not_utf8_is_refused(segment: str) -> None:
    with pytest.raises(Refusal) as raised:
        ROUTER.find("GET", f"/v1/events/{segment}")
    assert raised.value.code == "malformed_path"

"""The page of the description, and what it is made of."""

import shlex

import pytest

from halfpast_api.openapi.commands import curl
from halfpast_api.openapi.operation import Example, Operation, Parameter, Reply
from halfpast_api.openapi.prose import html_of, line_of

WATCH = Operation(
    method="POST",
    template="/v1/things/{id}:watch",
    name="watchThing",
    tag="Things",
    summary="Watch",
    parameters=(
        Parameter("id", "path", "Which.", {"type": "string"}, "a/b", required=True),
        Parameter("since", "query", "When.", {"type": "string"}, "now"),
        Parameter("If-Match", "header", "Version.", {"type": "string"}, '"1"'),
    ),
    replies={200: Reply("It is watched.")},
)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a `b` **c** *d*", "<p>a <code>b</code> <strong>c</strong> <em>d</em></p>"),
        ("one\ntwo\n\nthree", "<p>one two</p>\n<p>three</p>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("", ""),
        ("2 * 3 * 4", "<p>2 * 3 * 4</p>"),
    ],
)
def test_prose_becomes_html(text: str, html: str) -> None:
    assert html_of(text) == html


def test_what_is_inserted_is_escaped() -> None:
    text = "<script> `<b>` **<i>**"
    assert "<script>" not in line_of(text)
    assert line_of(text).count("<") == 4  # two tags of ours, open and closed


def test_a_command_is_one_that_a_shell_takes() -> None:
    example = Example(
        text="Watch",
        body={"say": "it's"},
        parameters={"since": "2027-01-01T00:00:00+01:00", "If-Match": '"3"'},
    )
    words = shlex.split(curl(WATCH, example))
    assert words[:2] == ["curl", "-s"]
    assert "localhost:7080/v1/things/a%2Fb:watch?since=2027-01-01T00:00:00%2B01:00" in (
        words
    )
    assert words[words.index("-H") + 1] == 'If-Match: "3"'
    assert words[words.index("-d") + 1] == '{\n  "say": "it\'s"\n}'


def test_a_command_without_a_body_names_its_method() -> None:
    words = shlex.split(curl(WATCH, Example(text="Watch")))
    assert words[:4] == ["curl", "-s", "-X", "POST"]
    assert "-d" not in words
